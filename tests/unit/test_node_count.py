"""Starting and stopping nodes against the AWS stand-in: sizes are reached, or it is said why not."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import boto3
import pulumi
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from botocore.stub import Stubber

from components.platform import node_count
from components.platform.node_count import EksNodes, NodeCountProvider, node_count_inputs, set_sizes, sizes
from tests.unit.test_awsim_server import cluster, role, settled
from tests.unit.test_node_generation import GENERATION
from tests.unit.test_platform_launch_template import Recorder, registered
from tools.awsim.running import AwsStandIn

GPU = {"clusterName": "demo", "nodegroupName": "gpu"}
REGION = "us-east-1"


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[AwsStandIn, dict[str, Any]]]:
    """The stand-in with a cluster, and what a node group of it is made with."""
    with AwsStandIn() as aws:
        _, subnets, _ = cluster(aws)
        yield aws, {"nodeRole": role(aws, "node", "ec2.amazonaws.com"), "subnets": subnets[:1]}


@pytest.fixture
def aws(running: tuple[AwsStandIn, dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> Iterator[AwsStandIn]:
    """A new, empty node group in the cluster, which boto3 finds by itself."""
    found, given = running
    for name, value in found.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(node_count, "POLL_S", 0.05)
    sizes_given = {"minSize": 0, "desiredSize": 0, "maxSize": 1}
    found.client("eks").create_nodegroup(**GPU, **given, instanceTypes=["g6.8xlarge"], scalingConfig=sizes_given)
    settled(lambda: group(found)["status"])
    yield found
    delete_group(found)


def delete_group(aws: AwsStandIn) -> None:
    eks = aws.client("eks")
    if "gpu" not in eks.list_nodegroups(clusterName="demo")["nodegroups"]:
        return
    settled(lambda: group(aws)["status"])
    eks.delete_nodegroup(**GPU)
    while "gpu" in eks.list_nodegroups(clusterName="demo")["nodegroups"]:
        time.sleep(0.05)


def group(aws: AwsStandIn) -> dict[str, Any]:
    return aws.client("eks").describe_nodegroup(**GPU)["nodegroup"]


def instances(aws: AwsStandIn) -> int:
    name = group(aws)["resources"]["autoScalingGroups"][0]["name"]
    found = aws.client("autoscaling").describe_auto_scaling_groups(AutoScalingGroupNames=[name])
    return len(found["AutoScalingGroups"][0]["Instances"])


def props(wanted: dict[str, Any], limit_s: float = 20) -> dict[str, Any]:
    return {"region": REGION, "cluster": "demo", "wanted": wanted, "limitS": limit_s}


def fault(wanted: dict[str, Any], limit_s: float = 20) -> dict[str, Any]:
    """Why the sizes were not reached; they must not have been."""
    found = set_sizes(props(wanted, limit_s))["fault"]
    assert found is not None and found.keys() == {"group", "code", "message"}
    return found


def test_nodes_are_started_waited_for_and_stopped(aws: AwsStandIn) -> None:
    """Sizes come from the engine as floating point, and may be more than the group was made for."""
    assert set_sizes(props({"gpu": 2.0})) == {"fault": None}
    assert (group(aws)["status"], instances(aws)) == ("ACTIVE", 2)
    assert sizes(REGION, "demo") == {"gpu": 2}
    assert set_sizes(props({"gpu": 0.0})) == {"fault": None}
    assert sizes(REGION, "demo") == {"gpu": 0}
    settled(lambda: group(aws)["status"])
    assert instances(aws) == 0


def test_a_size_that_is_there_already_is_not_set_again(aws: AwsStandIn) -> None:
    set_sizes(props({"gpu": 1}))
    before = aws.calls()["eks:UpdateNodegroupConfig"]
    assert set_sizes(props({"gpu": 1})) == {"fault": None}
    assert aws.calls()["eks:UpdateNodegroupConfig"] == before


def test_a_change_that_is_under_way_is_waited_for(aws: AwsStandIn) -> None:
    """EKS takes one at a time; the stop at the end of an update is not waited for. Asked at once, three times:
    the group is busy unless this machine was slower than EKS's stand-in."""
    for count in (1, 0, 2):
        aws.client("eks").update_nodegroup_config(**GPU, labels={"addOrUpdateLabels": {"seen": str(count)}})
        assert set_sizes(props({"gpu": count})) == {"fault": None}
        settled(lambda: group(aws)["status"])
    assert instances(aws) == 2


def test_missing_capacity_is_told_in_awss_words_and_the_group_can_be_emptied(aws: AwsStandIn) -> None:
    with aws.failing({"kind": "insufficient-capacity", "match": "g6.8xlarge"}):
        found = fault({"gpu": 2})
    assert (found["group"], found["code"]) == ("gpu", "InsufficientInstanceCapacity")
    assert "do not have sufficient g6.8xlarge capacity in the Availability Zone" in found["message"]
    assert set_sizes(props({"gpu": 0})) == {"fault": None} and sizes(REGION, "demo") == {"gpu": 0}


def test_throttled_calls_are_made_again(aws: AwsStandIn) -> None:
    rule = {"service": "eks", "kind": "throttle", "every": 2, "times": 3}
    with aws.failing(rule):
        assert set_sizes(props({"gpu": 1})) == {"fault": None}
    assert instances(aws) == 1


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("throttle", "ThrottlingException"),
        ("expired-token", "ExpiredTokenException"),
        ("access-denied", "AccessDeniedException"),
    ],
)
def test_a_refused_call_is_an_answer_and_no_exception(
    aws: AwsStandIn, monkeypatch: pytest.MonkeyPatch, kind: str, words: str
) -> None:
    monkeypatch.setattr(node_count, "RETRIES", Config(retries={"mode": "standard", "total_max_attempts": 2}))
    with aws.failing({"service": "eks", "kind": kind}):
        assert words in fault({"gpu": 1})["message"]
        with pytest.raises(ClientError, match=words):
            sizes(REGION, "demo")


def test_aws_out_of_reach_is_an_answer(aws: AwsStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_count, "RETRIES", Config(retries={"mode": "standard", "total_max_attempts": 1}))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    found = fault({"gpu": 1})
    assert found["code"] == "EndpointConnectionError" and "127.0.0.1:9" in found["message"]


def test_a_group_that_is_gone_has_no_nodes_and_can_get_none(aws: AwsStandIn) -> None:
    assert set_sizes(props({"old": 0})) == {"fault": None}
    assert "No node group found for name: old" in fault({"old": 1})["message"]


def test_a_group_that_goes_while_it_is_waited_for_is_told(aws: AwsStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    asleep = time.sleep

    def delete_and_sleep(seconds: float) -> None:
        monkeypatch.setattr(node_count.time, "sleep", asleep)
        delete_group(aws)

    monkeypatch.setattr(node_count.time, "sleep", delete_and_sleep)
    assert "No node group found for name: gpu" in fault({"gpu": 1})["message"]


def described(issue: tuple[str, str]) -> dict[str, Any]:
    """EKS's answer about a group whose nodes don't come."""
    code, message = issue
    return {"nodegroup": {
        "nodegroupName": "gpu", "status": "DEGRADED", "scalingConfig": {"minSize": 0, "maxSize": 2, "desiredSize": 2},
        "resources": {}, "health": {"issues": [{"code": code, "message": message, "resourceIds": ["asg"]}]},
    }}  # fmt: skip


def stubbed(monkeypatch: pytest.MonkeyPatch, issue: tuple[str, str]) -> None:
    eks = boto3.client("eks", region_name=REGION, aws_access_key_id="x", aws_secret_access_key="x")
    stub = Stubber(eks)
    for _ in range(2):
        stub.add_response("describe_nodegroup", described(issue), GPU)
    stub.activate()
    monkeypatch.setattr(node_count.boto3, "client", lambda *_, **__: eks)


@pytest.mark.parametrize("code", ["NodeCreationFailure", "InstanceLimitExceeded", "InsufficientFreeAddresses"])
def test_a_final_issue_ends_the_wait_with_ekss_words(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    stubbed(monkeypatch, (code, "the reason"))
    assert fault({"gpu": 2}, limit_s=3600) == {"group": "gpu", "code": code, "message": "the reason"}


def test_at_the_limit_what_eks_says_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Issues may pass, so that they end no wait; but then they are the only clue."""
    stubbed(monkeypatch, ("Ec2InstanceTypeDoesNotExist", "no p9.48xlarge here"))
    assert fault({"gpu": 2}, limit_s=-1) == {
        "group": "gpu", "code": "TimedOut",
        "message": "0 of 2 nodes run; Ec2InstanceTypeDoesNotExist: no p9.48xlarge here",
    }  # fmt: skip


INPUTS: dict[str, Any] = {**node_count_inputs("nodes-start", REGION, "demo", {"gpu": 2}, {}, 1200)}
DONE = {**INPUTS, "fault": None}


@pytest.mark.parametrize(
    ("olds", "more", "again"),
    [
        (DONE, {}, False),
        (DONE, {"found": {"gpu": 2}}, False),
        (DONE, {"limitS": 60}, False),
        (DONE, {"found": {"gpu": 1}}, True),  # somebody else stopped a node
        (DONE, {"wanted": {"gpu": 3}}, True),
        ({**INPUTS, "fault": {"group": "gpu", "code": "TimedOut", "message": ""}}, {}, True),
        (DONE, {"found": {"of-others": 7}}, False),
    ],
)
def test_nodes_are_counted_again_when_they_must_be(olds: dict[str, Any], more: dict[str, Any], again: bool) -> None:
    found = NodeCountProvider().diff("id", olds, {**INPUTS, **more})
    assert (found.changes, found.replaces) == (again, [])


def test_a_failed_count_is_kept_as_an_answer(aws: AwsStandIn) -> None:
    """A provider that raises would break the update, and take the live release with it."""
    with aws.failing({"kind": "insufficient-capacity", "match": "g6.8xlarge"}):
        made = NodeCountProvider().create({**INPUTS, "wanted": {"gpu": 1}})
    assert made.outs is not None and made.outs["fault"]["code"] == "InsufficientInstanceCapacity"
    assert set_sizes(props({"gpu": 0})) == {"fault": None}
    again = NodeCountProvider().update("id", made.outs, {**INPUTS, "wanted": {"gpu": 1}})
    assert again.outs is not None and again.outs["fault"] is None and instances(aws) == 1


def nodes(found: dict[str, int] | None = None) -> EksNodes:
    return EksNodes(REGION, "demo", "splitserve-prod", {"prefill": 3}, found or {}, 1200, [])


def test_a_generations_group_is_named_as_the_platform_names_it() -> None:
    assert nodes().group(GENERATION.to_json()) == (f"splitserve-prod-prefill-{GENERATION.id}", 3)
    without_nulls = {key: value for key, value in GENERATION.to_json().items() if value is not None}
    assert nodes().group(without_nulls) == nodes().group(GENERATION.to_json())


def test_a_tier_that_is_not_configured_any_more_gets_no_nodes() -> None:
    assert nodes().group({**GENERATION.to_json(), "tier": "decode"})[1] == 0


class Answering(Recorder):
    """Node counts end as told."""

    def __init__(self, answer: dict[str, str] | None) -> None:
        super().__init__()
        self.answer = answer

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str | None, dict[Any, Any]]:
        name, outputs = super().new_resource(args)
        return name, {**outputs, "fault": self.answer}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [(None, None), ({"group": "gpu", "code": "TimedOut", "message": "0 of 2 nodes run"}, "TimedOut: 0 of 2 nodes run")],
)
def test_a_start_says_in_one_line_why_it_failed(answer: dict[str, str] | None, expected: str | None) -> None:
    told: list[str | None] = []

    def declare() -> pulumi.Output[Any]:
        _, why = nodes().start({"gpu": 2}, pulumi.ResourceOptions())
        return why.apply(told.append)

    registered(declare, Answering(answer))
    assert told == [expected]


def test_a_start_sees_what_others_did_and_a_stop_does_not() -> None:
    """What is found before a start is stale after it."""

    def declare() -> pulumi.Output[Any]:
        platform = nodes({"gpu": 5})
        platform.start({"gpu": 2}, pulumi.ResourceOptions())
        return platform.stop({"gpu": 0}, pulumi.ResourceOptions()).urn

    recorder = registered(declare, Answering(None))
    [counts] = recorder.made.values()
    assert {c["releaseId"]: (c["wanted"], c["found"]) for c in counts} == {
        "nodes-start": ({"gpu": 2.0}, {"gpu": 5.0}), "nodes-stop": ({"gpu": 0.0}, {})}  # fmt: skip
