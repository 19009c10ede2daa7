"""Cases of policies/pods.py, and our own pods."""

from __future__ import annotations

from typing import Any

import pytest

from components.nodes import images
from components.release.release import Release
from components.serving.labels import TIER_LABEL
from components.serving.workloads import deployment_spec
from policies.pods import BECAUSE, EFA_RESOURCE, IMAGE_EFA, NETWORK_POLICY
from tests.unit.test_policies import SATISFIES, UNDECIDED, UNKNOWN, VIOLATES, Case, Made, hold, judge, titled
from tests.unit.test_release import build

DEPLOYMENT = "kubernetes:apps/v1:Deployment"
DAEMON_SET = "kubernetes:apps/v1:DaemonSet"
DIGEST = "registry.example.com/vllm@sha256:" + "a" * 64
SAFE = {"allowPrivilegeEscalation": False}


def workload(
    *containers: dict[str, Any],
    kind: str = DEPLOYMENT,
    metadata: dict[str, Any] | None = None,
    pods: dict[str, Any] | None = None,
    init: list[dict[str, Any]] | None = None,
    name: str = "tier",
) -> Made:
    spec = {"containers": list(containers), **({"initContainers": init} if init else {})}
    template = {"metadata": pods or {}, "spec": spec}
    shapes: dict[str, Any] = {"Pod": spec, "CronJob": {"jobTemplate": {"spec": {"template": template}}}}
    shape = shapes.get(kind.rsplit(":")[-1], {"template": template})
    return Made(kind, {"metadata": {"name": name, **(metadata or {})}, "spec": shape}, name)


def secured(security: Any, **other: Any) -> dict[str, Any]:
    return {"name": "c", "image": DIGEST, "securityContext": security, **other}


def plugin(labels: dict[str, str], annotations: dict[str, str], namespace: str = "kube-system", **other: Any) -> Made:
    metadata = {"namespace": namespace, "labels": labels, "annotations": annotations}
    return workload(secured({"privileged": True}), **{"kind": DAEMON_SET, "metadata": metadata, **other})


OURS, REASON = {"app.kubernetes.io/part-of": "splitserve-nodes"}, {BECAUSE: "it opens /dev/infiniband of the node"}
RULE = "no-privileged-pods"
PRIVILEGED = [
    *(Case(RULE, VIOLATES, f"{security}", [workload(secured(security))], ["`tier`", "`c`"])
      for security in (None, {}, {"privileged": True}, {"allowPrivilegeEscalation": True},
                       {**SAFE, "capabilities": {"add": ["IPC_LOCK", "SYS_ADMIN"]}})),
    *(Case(RULE, VIOLATES, kind, [workload(secured({}), kind=f"kubernetes:{kind}")])
      for kind in ("core/v1:Pod", "batch/v1:Job", "batch/v1:CronJob", "apps/v1:StatefulSet")),
    Case(RULE, VIOLATES, "an init container", [workload(secured(SAFE), init=[{"name": "i"}])], ["`i`"]),
    Case(RULE, VIOLATES, "a patch", [workload(secured({"privileged": True}), kind=f"{DEPLOYMENT}Patch")]),
    Case(RULE, VIOLATES, "a plugin without a reason", [plugin(OURS, {BECAUSE: " "})], [BECAUSE]),
    Case(RULE, VIOLATES, "a plugin without the label", [plugin({}, REASON)]),
    Case(RULE, VIOLATES, "a plugin elsewhere", [plugin(OURS, REASON, namespace="default")]),
    Case(RULE, VIOLATES, "a Deployment that says it is one", [plugin(OURS, REASON, kind=DEPLOYMENT)]),
    Case(RULE, VIOLATES, "beside an unknown one",
         [workload(secured({**SAFE, "privileged": UNKNOWN}), {"name": "d"})], ["`d`"]),
    Case(RULE, SATISFIES, "safe", [workload(secured({**SAFE, "capabilities": {"add": ["IPC_LOCK"]}}))]),
    Case(RULE, SATISFIES, "a device plugin that says why", [plugin(OURS, REASON)]),
    Case(RULE, SATISFIES, "a patch of replicas", [Made(f"{DEPLOYMENT}Patch", {"spec": {"replicas": 2}})]),
    Case(RULE, UNDECIDED, "unknown", [workload(secured(UNKNOWN))]),
]  # fmt: skip
RULE = "image-by-digest"
IMAGES = [
    Case(RULE, VIOLATES, "a tag", [workload({"name": "c", "image": "vllm/vllm-openai:v0.32.0"})], ["v0.32.0", "`c`"]),
    Case(RULE, VIOLATES, "latest", [workload({"name": "c", "image": "vllm/vllm-openai:latest"})], ["latest"]),
    Case(RULE, VIOLATES, "latest with a digest", [
        workload({"name": "c", "image": "v:latest@sha256:" + "a" * 64})], ["`latest`"]),
    Case(RULE, VIOLATES, "nothing behind a port", [workload({"name": "c", "image": "registry:5000/vllm"})]),
    Case(RULE, VIOLATES, "a short digest", [workload({"name": "c", "image": "vllm@sha256:abc"})]),
    Case(RULE, VIOLATES, "a version of another's image", [workload({"name": "c", "image": "vllm/vllm-openai:v0.32.0"})]),
    Case(RULE, VIOLATES, "an image without digests, by no version", [
        workload({"name": "c", "image": "ghcr.io/mellanox/k8s-rdma-shared-dev-plugin:stable"}),
    ]),
    Case(RULE, SATISFIES, "a version where the publisher states no digest", [
        workload({"name": "c", "image": images.EFA_DEVICE_PLUGIN.reference}),
    ]),
    Case(RULE, SATISFIES, "a digest", [workload({"name": "c", "image": DIGEST})]),
    Case(RULE, SATISFIES, "tag and digest", [workload({"name": "c", "image": "r:5000/v:1@sha256:" + "a" * 64})]),
    Case(RULE, SATISFIES, "made on the node", [workload({"name": "c", "image": "splitserve.local/vllm-cpu:9f3a"})]),
    Case(RULE, UNDECIDED, "unknown", [workload({"name": "c", "image": UNKNOWN})]),
]  # fmt: skip
EFA = {"name": "c", "image": DIGEST, "resources": {"limits": {EFA_RESOURCE: 4, "nvidia.com/gpu": 8}}}
RULE = "efa-image"
EFA_IMAGES = [
    Case(RULE, VIOLATES, "not said", [workload(EFA)], ["4 vpc.amazonaws.com/efa", IMAGE_EFA]),
    Case(RULE, VIOLATES, "said no", [workload(EFA, pods={"annotations": {IMAGE_EFA: "false"}})]),
    Case(RULE, VIOLATES, "said of the Deployment", [workload(EFA, metadata={"annotations": {IMAGE_EFA: "true"}})]),
    Case(RULE, VIOLATES, "as a request", [workload({"name": "c", "resources": {"requests": {EFA_RESOURCE: "1"}}})]),
    Case(RULE, SATISFIES, "said", [workload(EFA, pods={"annotations": {IMAGE_EFA: "true"}})]),
    Case(RULE, SATISFIES, "no EFA", [workload({"name": "c", "resources": {"limits": {"nvidia.com/gpu": 1}}})]),
    Case(RULE, SATISFIES, "zero of it", [workload({"name": "c", "resources": {"limits": {EFA_RESOURCE: 0}}})]),
    Case(RULE, UNDECIDED, "unknown", [workload({"name": "c", "resources": {"limits": {EFA_RESOURCE: UNKNOWN}}})]),
]


def tier(name: str, namespace: Any = "serving") -> Made:
    return workload(
        secured(SAFE), name=name, metadata={"namespace": namespace}, pods={"labels": {TIER_LABEL: name, "app": "x"}}
    )


def policy(name: str, selector: dict[str, Any], namespace: str = "serving", **spec: Any) -> Made:
    props = {"metadata": {"name": name, "namespace": namespace}, "spec": {"podSelector": selector, **spec}}
    return Made(NETWORK_POLICY, props, name)


def for_tier(name: str) -> Made:
    return policy(name, {"matchLabels": {TIER_LABEL: name}}, policyTypes=["Ingress"], ingress=[{}])


DENY = policy("deny", {}, policyTypes=["Ingress", "Egress"])
BOTH = policy("both", {"matchExpressions": [{"key": TIER_LABEL, "operator": "In", "values": ["prefill", "decode"]}]})
RULE = "network-policies-present"
NETWORK_POLICIES = [
    Case(RULE, VIOLATES, "none", [tier("prefill")], ["default-deny", "`serving`", "the tier `prefill`"]),
    Case(RULE, VIOLATES, "one tier without", [DENY, tier("prefill"), tier("decode"), for_tier("decode")],
         ["the tier `prefill`"]),
    Case(RULE, VIOLATES, "no default deny", [tier("decode"), for_tier("decode")], ["default-deny"]),
    Case(RULE, VIOLATES, "one that allows all", [
        policy("all", {}, ingress=[{}]), tier("decode"), for_tier("decode")], ["default-deny"]),
    Case(RULE, VIOLATES, "in another namespace", [
        policy("deny", {}, "default"), tier("decode"), for_tier("decode")], ["default-deny"]),
    Case(RULE, SATISFIES, "one for each", [
        DENY, tier("prefill"), tier("decode"), for_tier("prefill"), for_tier("decode")]),
    Case(RULE, SATISFIES, "one for both", [DENY, tier("prefill"), tier("decode"), BOTH]),
    Case(RULE, SATISFIES, "no tiers", [workload(secured(SAFE))]),
    Case(RULE, SATISFIES, "a cluster that enforces none", [tier("prefill")], stack="local"),
    Case(RULE, UNDECIDED, "unknown namespace", [tier("prefill", UNKNOWN)]),
]  # fmt: skip
CASES = [*PRIVILEGED, *IMAGES, *EFA_IMAGES, *NETWORK_POLICIES]


@titled(CASES)
def test_pods(case: Case) -> None:
    hold(case)


@pytest.fixture(scope="module")
def release() -> Release:
    return build()


@pytest.mark.parametrize("name", ["prefill", "decode", "router"])
@pytest.mark.parametrize("rule", ["no-privileged-pods", "efa-image"])
def test_our_own_pods_pass(rule: str, name: str, release: Release) -> None:
    made = Made(DEPLOYMENT, {"spec": deployment_spec(release.id, name, release.pods[name])})
    assert judge(Case(rule, SATISFIES, name, [made])) == ([], False)
