"""Cluster and serving in two stacks: what each may say, and what one hands to the other."""

from __future__ import annotations

from typing import Any

import pytest

from components.platform.cluster_facts import CONTRACT, ClusterFacts, NotACluster
from infra.aws_preflight import wanted
from infra.cluster_of_another import faults_of
from infra.node_plugins import plugins_wanted
from infra.plan import Plan
from infra.read_plan import read_plan
from infra.rules.all_rules import check
from infra.settings import SettingsError, load
from tests.unit.plans import ROOT, found, prod, stack_values
from tests.unit.test_settings import values

LAYERS = ("platform.layers", "serving")
STACK = ("platform.aws.clusterStack", "organization/splitserve/cluster")
WITHOUT_POOLS = [("platform.aws.nodeGroups.system", None), ("platform.aws.cluster", {}), ("platform.aws.network", {})]
FACTS = ClusterFacts(
    name="splitserve-cluster", arn="arn", endpoint="https://x", certificate_authority="ca", region="us-east-1",
    kubernetes_version="1.34", account="1", vpc_id="vpc-1", private={"us-east-1a": "subnet-a", "us-east-1b": "subnet-b"},
    public={}, security_group="sg-1", efa_security_group="sg-2", node_role_arn="role", router_nodes="asg",
)  # fmt: skip


def serving(*changes: tuple[str, Any]) -> Plan:
    return prod(LAYERS, STACK, *WITHOUT_POOLS, *changes)


def cluster(**aws: Any) -> dict[str, Any]:
    """A stack file of the cluster layer."""
    whole = stack_values("prod")["platform"]
    groups = {"system": whole["aws"]["nodeGroups"]["system"]}
    return {"platform": whole | {"layers": "cluster", "aws": whole["aws"] | {"nodeGroups": groups} | aws}}


def test_each_layer_s_stack_is_content_without_the_other_s_settings() -> None:
    assert [str(finding) for finding in check(serving()) if finding.severity == "error"] == []
    assert read_plan(cluster(), ROOT, "c")[0].settings.platform.layers == "cluster"


@pytest.mark.parametrize(
    ("change", "rule", "key"),
    [
        (("platform.aws.clusterStack", None), "cluster-stack-named", "platform.aws.clusterStack"),
        (("platform.aws.clusterStack", "cluster"), "cluster-stack-named", "platform.aws.clusterStack"),
        (
            ("platform.aws.nodeGroups.system", {"instance": "m7i.large"}),
            "settings-of-the-layer",
            "platform.aws.nodeGroups.system",
        ),
        (("platform.aws.network", {"nat": "none"}), "settings-of-the-layer", "platform.aws.network"),
        (("platform.aws.secondZone", "us-east-1c"), "settings-of-the-layer", "platform.aws.secondZone"),
        (("platform.layers", "all"), "cluster-stack-named", "platform.aws.clusterStack"),
    ],
)
def test_a_serving_stack_decides_nothing_about_the_cluster(change: tuple[str, Any], rule: str, key: str) -> None:
    assert [finding.key for finding in found(serving(change), rule)] == [key]


def test_a_cluster_s_stack_has_no_gpu_nodes_and_no_model() -> None:
    groups = stack_values("prod")["platform"]["aws"]["nodeGroups"]
    with pytest.raises(
        SettingsError, match=r"nodeGroups.prefill: found p5.48xlarge, with layers: cluster.*layers: serving"
    ):
        read_plan(cluster(nodeGroups=groups), ROOT, "c")
    with pytest.raises(SettingsError, match=r"model: found a setting of what is served"):
        load(cluster() | {"model": {"name": "m"}, "gate": {}}, "c")


def test_a_cluster_s_network_is_checked_without_a_model() -> None:
    with pytest.raises(SettingsError, match="network-range"):
        read_plan(cluster(network={"cidr": "10.0.0.0/8"}), ROOT, "c")


def test_the_local_cluster_is_one_layer() -> None:
    local = values()
    local["platform"] = {**local["platform"], "layers": "serving"}
    assert found(Plan(load(local, "l"), {}), "layers-possible")


def test_node_plugins_are_the_cluster_s() -> None:
    assert plugins_wanted(serving()) == frozenset()
    assert plugins_wanted(Plan(load(cluster(), "c"), {})) == {"gpu", "efa", "dcgm"}


def test_what_one_stack_exports_the_other_reads() -> None:
    assert ClusterFacts.read(FACTS.exported()) == FACTS


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (None, "no output `cluster`"),
        ({"name": "c"}, "of contract None"),
        (FACTS.exported() | {"contract": CONTRACT + 1}, f"this version reads {CONTRACT}"),
        ({**FACTS.exported(), "nodeRoleArn": None}, "without nodeRoleArn"),
    ],
)
def test_an_output_that_is_no_cluster_is_named(output: Any, words: str) -> None:
    with pytest.raises(NotACluster, match=words):
        ClusterFacts.read(output)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("platform.aws.zone", "us-east-1d"), "platform.aws.zone: found us-east-1d, wanted a zone where"),
        (("platform.aws.kubernetesVersion", "1.33"), "found 1.33, wanted 1.34"),
        (("platform.aws.loadBalancerZones", ["us-east-1f"]), "private subnets: us-east-1a, us-east-1b"),
        (("edge.internetFacing", True), "publicSubnets there"),
        (("platform.aws.nodeGroups.decode.zone", "us-east-1e"), "nodeGroups.decode.zone: found us-east-1e"),
    ],
)
def test_what_lies_outside_the_other_stack_s_cluster_is_refused(change: tuple[str, Any], words: str) -> None:
    assert any(words in fault for fault in faults_of(serving(change), FACTS)), list(faults_of(serving(change), FACTS))
    assert list(faults_of(serving(), FACTS)) == []


def test_preflight_asks_about_the_other_stack_s_cluster_and_wants_no_network() -> None:
    asked = wanted(serving(), "team", FACTS)
    assert (asked.cluster_name, asked.eips, asked.subnet_ids) == ("splitserve-cluster", 0, ("subnet-a", "subnet-b"))
    assert {group.tier for group in asked.groups} == {"prefill", "decode"}
