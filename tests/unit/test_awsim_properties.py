"""Differences, refreshed inputs and outputs of the stand-in provider."""

from __future__ import annotations

import json

from tools.awsim.kinds import KINDS
from tools.awsim.properties import Difference, differences, from_wire, merged, reconciled, to_wire, with_unknowns
from tools.awsim.shapes import UNKNOWN


def test_differences_name_path_and_change() -> None:
    old = {"a": {"b": 1, "gone": 2}, "list": [{"x": 1}], "tags": {"k.8/s": "1"}}
    new = {"a": {"b": 2}, "list": [{"x": 1}, {"x": 2}], "tags": {"k.8/s": "2"}, "fresh": True}
    assert list(differences(old, new)) == [
        Difference("a.b", "update"), Difference("a.gone", "delete"), Difference("fresh", "add"),
        Difference("list[1]", "add"), Difference('tags["k.8/s"]', "update"),
    ]  # fmt: skip


def test_order_of_ids_and_form_of_policies_do_not_count() -> None:
    policy = {"Version": "2012-10-17", "Statement": []}
    assert not list(differences({"ids": ["a", "b"]}, {"ids": ["b", "a"]}))
    assert not list(differences({"policy": json.dumps(policy)}, {"policy": json.dumps(policy, indent=2)}))
    assert not list(differences({"port": "80", "on": "true"}, {"port": 80, "on": True}))


def test_an_unknown_is_a_difference() -> None:
    assert [d.path for d in differences({"id": "a", "ids": ["a"]}, {"id": UNKNOWN, "ids": [UNKNOWN]})] == [
        "id",
        "ids[0]",
    ]


def test_a_replacement_is_told_by_path() -> None:
    forced = KINDS["aws:eks/nodeGroup:NodeGroup"].forces_new
    assert Difference("launchTemplate.id", "update").below(forced)
    assert Difference("launchTemplate", "delete").below(forced)
    assert Difference("subnetIds[1]", "add").below(forced)
    assert not Difference("launchTemplate.version", "update").below(forced)


def test_refreshed_inputs_keep_what_is_still_so() -> None:
    wanted = {"size": {"desired": 1}, "ids": ["b", "a"], "rules": [{"port": 80}]}
    found = {"size": {"desired": 1, "max": 4}, "ids": ["a", "b"], "rules": [{"port": 80, "more": 1}]}
    assert reconciled(wanted, found) == wanted
    assert reconciled(wanted, {**found, "size": {"desired": 3}})["size"] == {"desired": 3}
    assert "size" not in reconciled(wanted, {**found, "size": None})


def test_outputs_are_inputs_and_what_aws_adds() -> None:
    assert merged({"vpc": {"ids": ["a"]}}, {"vpc": {"ids": ["a"], "group": "sg"}, "arn": "x"}) == {
        "vpc": {"ids": ["a"], "group": "sg"}, "arn": "x"}  # fmt: skip
    assert with_unknowns({"vpc": {"ids": []}}, ("arn", "vpc.group")) == {
        "arn": UNKNOWN, "vpc": {"ids": [], "group": UNKNOWN}}  # fmt: skip


def test_whole_numbers_survive_the_wire() -> None:
    assert from_wire(to_wire({"a": 1, "b": [2.5], "c": None, "d": True})) == {"a": 1, "b": [2.5], "d": True}


def test_a_default_that_is_given_is_no_change() -> None:
    kind = KINDS["aws:ec2/vpc:Vpc"]
    old, new = kind.comparable({"cidrBlock": "10.0.0.0/16", "instanceTenancy": "default"}, {"cidrBlock": "10.0.0.0/16"})
    assert not list(differences(old, new))
