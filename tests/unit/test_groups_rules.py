"""Rules for engines over several nodes, and what a cluster lacks for them."""

from __future__ import annotations

from typing import Any

import pytest

from components.existing.found import Found, LeaderWorkerSets, LoadBalancer, Node
from infra.missing import missing, wanted
from infra.plan_report import plan_text
from infra.rules.all_rules import check
from infra.settings import load
from tests.unit.plans import found, prod
from tests.unit.test_settings import values

Change = tuple[str, Any]
TWO_NODES: list[Change] = [
    ("platform.aws.nodeGroups.prefill.nodes", 2), ("platform.aws.nodeGroups.prefill.maxNodes", 2),
    ("prefill", {"engine": {"parallel": {"tensor": 8, "pipeline": 2, "nodes": 2}}}),
]  # fmt: skip


def prefill(**parallel: Any) -> list[Change]:
    return [*TWO_NODES[:2], ("prefill", {"engine": {"parallel": parallel}})]


def decode(**parallel: Any) -> list[Change]:
    return [("platform.aws.nodeGroups.decode.nodes", 2), ("decode", {"engine": {"parallel": parallel}})]


FAULTS: dict[str, tuple[str, list[Change], str]] = {
    "ranks_that_nodes_do_not_divide": (
        "group-divides", prefill(tensor=8, nodes=3), "found 3, for 8 GPUs an engine"),
    "a_copy_over_a_part_of_a_node": (
        "group-divides", prefill(tensor=4, data=3, nodes=2), "found 6 GPUs a node, for copies of 4 GPUs"),
    "tensor_parallelism_across_nodes": (
        "group-tensor-on-node", decode(tensor=16, nodes=2), "found 16, over nodes of 8 GPUs"),
    "half_of_each_node": (
        "group-whole-nodes", prefill(tensor=4, pipeline=2, nodes=2), "2, 4 GPUs on each"),
    "a_rack_for_one_node": (
        "rack-of-group", [("decode.rackLabel", "example.com/rack")], "decode.rackLabel: found example.com/rack"),
    "nobody_makes_groups": (
        "group-controller", [*TWO_NODES, ("platform.nodeSoftware", {"leaderWorkerSets": "none"})],
        "none, with engines over nodes in prefill"),
    "groups_that_are_scaled": (
        "autoscale-groups", [*TWO_NODES, ("autoscale", {"prefill": {"max": 2}})], "autoscale.prefill: found bounds"),
    "experts_of_a_dense_model": (
        "expert-parallel-moe", [("decode", {"engine": {"parallel": {"tensor": 8, "expert": True}}})],
        "found true, for llama-3.1-70b, which has no experts"),
    "all_to_all_without_experts": (
        "all-to-all-of-experts",
        [("decode", {"engine": {"parallel": {"tensor": 8, "allToAll": "deepep_low_latency"}}})],
        "found deepep_low_latency, with expert: false and data: 1"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_plan_with_the_fault_is_told_so(fault: str) -> None:
    rule, changes, words = FAULTS[fault]
    messages = [str(finding) for finding in found(prod(*changes), rule)]
    assert any(words in message for message in messages), messages


def test_pipeline_stages_over_two_nodes_are_a_right_plan() -> None:
    plan = prod(*TWO_NODES)
    assert [str(finding) for finding in check(plan)] == []
    assert "TP 8, PP 2, DP 1, over 2 nodes" in plan_text(plan)


def test_a_pod_asks_for_its_share_of_the_engines_gpus() -> None:
    changes = [*TWO_NODES, ("prefill.resources", {"extended": {"nvidia.com/gpu": 16, "vpc.amazonaws.com/efa": 32}})]
    (finding,) = found(prod(*changes), "gpus-requested")
    assert "found 16, wanted 8: tensor x pipeline x data / nodes" in str(finding)


def test_two_groups_of_two_need_four_nodes() -> None:
    (finding,) = found(prod(*TWO_NODES, ("prefill.replicas", 2)), "gpus-enough")
    assert "found 2 of 8 GPUs on each of 2 nodes, wanted at most 1 on 2 nodes" in str(finding)


def test_an_engine_too_large_for_a_node_is_shown_the_way_over_nodes() -> None:
    (finding,) = found(prod(*prefill(tensor=8, pipeline=2)), "gpus-enough")
    assert "prefill.engine.parallel.nodes" in str(finding)


@pytest.mark.parametrize(("key", "port"), [("masterPort", 8000), ("dataRpcPort", 5600)])
def test_ports_between_nodes_collide_with_no_other(key: str, port: int) -> None:
    assert not found(prod((f"engine.{key}", port)), "ports-unique"), "nothing listens there on one node"
    (finding,) = found(prod(*TWO_NODES, (f"engine.{key}", port)), "ports-unique")
    assert f"engine.{key}: found {port}" in str(finding)


@pytest.mark.parametrize(
    ("model", "connector", "refused"),
    [("qwen3-next-80b-a3b", "nixl", True), ("qwen3-next-80b-a3b", "nixl-push", True), ("llama-3.1-70b", "nixl", False)],
)
def test_stages_of_prefill_need_a_cache_that_nixl_can_send_in_parts(model: str, connector: str, refused: bool) -> None:
    plan = prod(*TWO_NODES, ("connector.name", connector), model=model)
    assert bool(found(plan, "prefill-pipeline")) is refused


def test_experts_of_a_mixture_may_be_spread() -> None:
    plan = prod(*decode(tensor=1, data=16, nodes=2, expert=True, allToAll="deepep_low_latency"), model="deepseek-v3")
    assert not found(plan, "expert-parallel-moe") and not found(plan, "all-to-all-of-experts")
    assert not found(plan, "group-divides")


def node(name: str, rack: str | None = None, zone: str | None = None) -> Node:
    labels = {"example.com/rack": rack} if rack else {}
    return Node(name, True, True, labels, {"nvidia.com/gpu": 8}, {}, zone=zone)


def on_cluster(nodes: tuple[Node, ...], there: LeaderWorkerSets, installed: bool = False, **tier: Any) -> list[str]:
    """What is missing for two groups of two nodes."""
    groups = {"engine": {"parallel": {"tensor": 8, "pipeline": 2, "nodes": 2}}, "replicas": 2, **tier}
    resources = {"extended": {"nvidia.com/gpu": 8}}
    settings = load({**values(), "topology": "collocated", "collocated": {**groups, "resources": resources}}, "test")
    answered = Found("v1.34.4", nodes, (), (), LoadBalancer(False, ()), None, None, (), leader_worker_sets=there)
    return [str(finding) for finding in missing(wanted(settings, "o.p.s", groups_installed=installed), answered)]


FOUR = tuple(node(f"n{i}", rack=f"r{i // 2}") for i in range(4))


def test_a_cluster_without_the_kind_is_told_how_to_get_it_unless_the_stack_brings_it() -> None:
    (said,) = on_cluster(FOUR, LeaderWorkerSets(False))
    assert "leader-worker-sets-missing" in said and "collocated.engine.parallel.nodes" in said
    assert on_cluster(FOUR, LeaderWorkerSets(False), installed=True) == []
    assert on_cluster(FOUR, LeaderWorkerSets(True, "lws-system/lws-controller-manager")) == []
    assert on_cluster(FOUR, LeaderWorkerSets(None)) == [], "what could not be asked is not known to be missing"


def test_every_pod_of_a_group_needs_its_devices() -> None:
    (said,) = on_cluster(FOUR[:3], LeaderWorkerSets(True))
    assert "wanted 32 for 4 pods" in said


def test_each_group_needs_a_rack_with_nodes_enough() -> None:
    assert on_cluster(FOUR, LeaderWorkerSets(True), rackLabel="example.com/rack") == []
    uneven = (*(node(f"n{i}", rack="r0") for i in range(3)), node("n3", rack="r1"))
    (said,) = on_cluster(uneven, LeaderWorkerSets(True), rackLabel="example.com/rack")
    assert "r0 3, r1 1" in said and "2 of its values with 2 nodes each" in said
    (said,) = on_cluster(FOUR, LeaderWorkerSets(True), rackLabel="example.com/other")
    assert "no node has the label" in said


def test_a_group_lies_in_one_zone() -> None:
    apart = tuple(node(f"n{i}", zone=f"z{i // 2}") for i in range(4))
    (said,) = on_cluster(apart, LeaderWorkerSets(True))
    assert "tiers-one-zone" in said
