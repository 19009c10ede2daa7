"""What a cluster lacks: each finding once where it belongs, none on a cluster that has everything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from components.existing.answers import Answers
from components.existing.found import Found, Right
from components.existing.read import read
from infra.missing import TierNeed, Wanted, missing, wanted
from infra.rules.rule import Finding
from infra.schema.platform import Platform
from infra.settings import load
from tests.unit.plans import changed, stack_values
from tests.unit.test_discovery import OWNER, daemons, eks, empty, infiniband, node, pod

EFA = {"nvidia.com/gpu": 4, "vpc.amazonaws.com/efa": 16, "hugepages-2Mi": "4096Mi"}
IB = {"nvidia.com/gpu": 4, "rdma/hca_shared_devices_a": 4}


def need(extended: Mapping[str, int | str], node_selector: Mapping[str, str] | None = None, **more: Any) -> Wanted:
    platform = Platform.model_validate({"kind": "existing", "nodeSelector": dict(node_selector or {})})
    tiers = tuple(TierNeed(tier, 1, extended) for tier in ("prefill", "decode"))
    return Wanted(platform, tiers, owner=OWNER, **more)


def found_in(wanted_: Wanted, answers: Answers | Found) -> list[Finding]:
    return missing(wanted_, answers if isinstance(answers, Found) else read(answers))


def only(wanted_: Wanted, answers: Answers | Found, rule: str) -> Finding:
    findings = found_in(wanted_, answers)
    assert [finding.rule for finding in findings] == [rule], [str(finding) for finding in findings]
    assert findings[0].fix, "the way out"
    return findings[0]


@pytest.mark.parametrize(("wanted_", "answers"), [
    (need(EFA, service_type="LoadBalancer", claim="models"), eks()), (need(IB), infiniband()),
    (need({}), empty())])  # fmt: skip
def test_a_cluster_that_has_everything_has_no_finding(wanted_: Wanted, answers: Answers) -> None:
    assert found_in(wanted_, answers) == []


def test_a_name_that_no_node_has_is_told_with_the_names_there_are() -> None:
    findings = found_in(need({"nvidia.com/gpu": 4, "rdma/ib": 4}), infiniband())
    assert [(f.rule, f.key) for f in findings] == [
        ("resource-on-nodes", "prefill.resources.extended.rdma/ib"),
        ("resource-on-nodes", "decode.resources.extended.rdma/ib")]  # fmt: skip
    assert "rdma/hca_shared_devices_a" in findings[0].fix and "1 not ready" in findings[0].found


def test_more_for_one_pod_than_a_node_has() -> None:
    findings = found_in(need(EFA | {"hugepages-2Mi": "20000Mi"}), eks(pods=[]))
    assert {f.rule for f in findings} == {"resource-on-nodes"} and "10256Mi" in findings[0].found


def test_a_plugin_that_runs_and_offers_nothing_is_named() -> None:
    bare = [node(name, {}) for name in "ab"]
    findings = found_in(need({"nvidia.com/gpu": 1}), eks(nodes=bare))
    assert {f.rule for f in findings} == {
        "resource-on-nodes"
    } and "kube-system/nvidia-device-plugin runs on 2 of 2" in findings[0].fix


def test_more_gpus_than_are_free() -> None:
    finding = only(need({"nvidia.com/gpu": 8}), eks(), "devices-free")
    assert "12 of 16 nvidia.com/gpu free" in finding.found and finding.severity == "error"


def test_enough_in_all_but_torn_between_nodes_is_a_warning() -> None:
    torn = eks(pods=[pod("a", {"nvidia.com/gpu": "2"}), pod("b", {"nvidia.com/gpu": "2"})])
    assert only(replace(need({"nvidia.com/gpu": 4}), tiers=(TierNeed("prefill", 3, {"nvidia.com/gpu": 4}),)), torn,
                "devices-free").severity == "warning"  # fmt: skip


def test_what_our_own_pods_hold_is_free_for_an_update() -> None:
    assert found_in(need({"nvidia.com/gpu": 8}), eks(pods=[pod("a", {"nvidia.com/gpu": "8"}, "splitserve")])) == []


def test_nodes_in_several_zones() -> None:
    zones = eks(pods=[])
    far = dict(zones.nodes[0])
    far["metadata"] = far["metadata"] | {
        "labels": far["metadata"]["labels"] | {"topology.kubernetes.io/zone": "us-east-1b"}
    }
    answers = replace(zones, nodes=[*zones.nodes, far | {"metadata": far["metadata"] | {"name": "c"}}])
    finding = only(need(EFA), answers, "tiers-one-zone")
    assert finding.fix == "add `topology.kubernetes.io/zone: us-east-1a`" and finding.severity == "error"
    assert only(need({"nvidia.com/gpu": 1}), answers, "tiers-one-zone").severity == "warning"
    assert found_in(need(EFA, {"topology.kubernetes.io/zone": "us-east-1a"}), answers) == []


def test_no_storage_class_for_a_claim() -> None:
    finding = only(need(IB, claim="models"), infiniband(), "storage-class")
    assert "ceph" in finding.found and "default" in finding.wanted
    there = [{"metadata": {"name": "models"}, "status": {"phase": "Bound"}}]
    assert found_in(need(IB, claim="models"), infiniband(claims=there)) == []
    assert found_in(need(IB, claim="models", claim_class="ceph"), infiniband()) == []


def test_a_load_balancer_that_nothing_makes() -> None:
    assert "MetalLB" in only(need({}, service_type="LoadBalancer"), empty(), "load-balancer").fix


def bare_gpus(labels: dict[str, str]) -> Answers:
    return eks(nodes=[node(name, {}, labels) for name in "ab"], daemon_sets=[])


def test_a_missing_plugin_is_an_error_unless_the_stack_installs_it() -> None:
    asked = {"nvidia.com/gpu": 1}
    labelled = bare_gpus({"splitserve.dev/accelerator": "nvidia"})
    told = only(need(asked), labelled, "plugin-missing")
    assert told.severity == "error" and "https://github.com/NVIDIA/k8s-device-plugin" in told.fix
    mended = only(need(asked, plugins=frozenset({"gpu"})), labelled, "plugin-missing")
    assert mended.severity == "warning" and "the stack installs it" in mended.fix
    unlabelled = only(need(asked, plugins=frozenset({"gpu"})), bare_gpus({}), "plugin-missing")
    assert unlabelled.severity == "error" and "kubectl label node" in unlabelled.fix


def test_the_stacks_own_plugin_that_just_came_is_not_missing() -> None:
    ours = daemons("splitserve-nvidia-device-plugin", "nvcr.io/nvidia/k8s-device-plugin:v0.20.0", labels={"splitserve.dev/stack": OWNER})  # fmt: skip
    answers = replace(bare_gpus({"splitserve.dev/accelerator": "nvidia"}), daemon_sets=[ours])
    assert {f.rule for f in found_in(need({"nvidia.com/gpu": 1}), answers)} == {"resource-on-nodes"}


def test_kubernetes_too_old_for_dra() -> None:
    finding = only(need(IB, devices_by="dra"), infiniband(), "dra-version")
    assert finding.found == "Kubernetes v1.32.5" and "1.34" in finding.wanted and "device plugins" in finding.fix


def test_refused_rights_are_one_finding() -> None:
    rights = (Right("create", "jobs", "batch", "splitserve", False), Right("get", "namespaces", allowed=True),
              Right("create", "daemonsets", "apps", "kube-system", False), Right("create", "services", "", "splitserve"))  # fmt: skip
    finding = only(need({}), empty(rights=rights), "rights")
    assert "create jobs.batch in namespace splitserve" in finding.found and "daemonsets" not in finding.found
    assert "daemonsets" in only(need({}, plugins=frozenset({"gpu"})), empty(rights=rights), "rights").found


def test_taints_and_selectors_keep_the_tiers_away() -> None:
    tainted = [node(name, {"nvidia.com/gpu": "8"}, taints=[{"key": "team", "value": "vision", "effect": "NoSchedule"}])
               for name in "ab"]  # fmt: skip
    findings = found_in(need({"nvidia.com/gpu": 1}), eks(nodes=tainted))
    assert {f.rule for f in findings} == {"resource-on-nodes"} and "team=vision:NoSchedule" in findings[0].found
    assert {f.rule for f in found_in(need(EFA, {"pool": "none"}), eks())} == {"resource-on-nodes"}


def test_all_faults_come_at_once() -> None:
    rights = (Right("create", "jobs", "batch", "splitserve", False),)
    all_of_it = need(
        {"nvidia.com/gpu": 16, "rdma/ib": 1}, claim="models", service_type="LoadBalancer", devices_by="plugin"
    )
    rules = {f.rule for f in found_in(all_of_it, infiniband(rights=rights, daemon_sets=[]))}
    assert rules == {"resource-on-nodes", "storage-class", "load-balancer", "rights"}


def test_a_stack_file_says_what_it_wants() -> None:
    asked = wanted(load(stack_values("onprem"), "test"), OWNER)
    assert asked.claim == "models" and asked.service_type == "LoadBalancer"
    assert {tier.tier: tier.replicas for tier in asked.tiers} == {"prefill": 2, "decode": 4}
    assert asked.tiers[0].amounts() == {"nvidia.com/gpu": 2, "rdma/ib": 2}
    other = wanted(load(changed(stack_values("onprem"), ("edge.serviceType", "ClusterIP")), "test"), OWNER)
    assert other.service_type == "ClusterIP"
