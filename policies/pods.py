"""Pods: what each workload declares, and the network policies around the tiers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pulumi_policy import PolicyResource
from pulumi_policy.proxy import UnknownValueError

from components.nodes.images import ALL
from components.serving.labels import IMAGE_EFA, TIER_LABEL
from policies.amounts import whole, yes
from policies.rule import Finding, Resource, Setting, Stack, resource_rule, stack_rule
from policies.unknown import independently
from policies.workloads import WORKLOADS, containers, metadata, namespace, pod_metadata

PART_OF = ("app.kubernetes.io/part-of", "splitserve-nodes")
BECAUSE = "splitserve.dev/privileged-because"
EFA_RESOURCE = "vpc.amazonaws.com/efa"
NODE_IMAGES = "splitserve.local/"
"""Images that `make up` makes on the node itself: they are in no registry and have no digest there."""
DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")
VERSION = re.compile(r"^v?\d+\.\d+\.\d+")
NETWORK_POLICY = "kubernetes:networking.k8s.io/v1:NetworkPolicy"
AS_GOOD_AS_PRIVILEGED = {"ALL", "SYS_ADMIN", "CAP_SYS_ADMIN"}


@resource_rule(
    "no-privileged-pods", "mandatory", "No container is privileged or may become so.",
    kinds=WORKLOADS,
    fix="set allowPrivilegeEscalation: false, drop `privileged`, add single capabilities. A device plugin may be "
        f"privileged: a DaemonSet in kube-system with the label {PART_OF[0]}={PART_OF[1]} that says why in the "
        f"annotation {BECAUSE}",
    source="https://kubernetes.io/docs/concepts/security/pod-security-standards/: restricted",
)  # fmt: skip
def no_privileged_pods(resource: Resource) -> Iterator[Finding]:
    if not _is_stated_device_plugin(resource):
        patch = resource.kind.endswith("Patch")
        found = (_privileges(container, patch) for container in containers(resource.kind, resource.props))
        yield from independently(found)


def _is_stated_device_plugin(resource: Resource) -> bool:
    kind, props = resource.kind, resource.props
    if not kind.endswith(":DaemonSet") or namespace(props) != "kube-system":
        return False
    own = [metadata(props, "labels"), pod_metadata(kind, props, "labels")]
    said = [metadata(props, "annotations"), pod_metadata(kind, props, "annotations")]
    labelled = any(labels.get(PART_OF[0]) == PART_OF[1] for labels in own)
    return labelled and any(str(annotations.get(BECAUSE) or "").strip() for annotations in said)


def _privileges(container: Mapping[str, Any], patch: bool) -> Iterator[Finding]:
    security = container.get("securityContext") or {}
    name = container.get("name")
    if security.get("privileged"):
        yield Finding(f"container `{name}` privileged", "it without")
    if security.get("allowPrivilegeEscalation", not patch):
        yield Finding(f"container `{name}` that may gain privileges", "allowPrivilegeEscalation: false")
    added = set((security.get("capabilities") or {}).get("add") or []) & AS_GOOD_AS_PRIVILEGED
    if added:
        yield Finding(f"container `{name}` with the capability {', '.join(sorted(added))}", "single, lesser ones")


@resource_rule(
    "image-by-digest", "mandatory", "Images are named by digest, so that all pods of a release run the same bytes.",
    kinds=WORKLOADS,
    fix="write repository@sha256:…; `docker buildx imagetools inspect IMAGE` prints the digest",
    source="https://kubernetes.io/docs/concepts/containers/images/; vllm-project/vllm pull request 29503: "
           "the KV handshake compares versions",
    settings=[Setting("byVersion", sorted(image.repository for image in ALL if not image.digest),
                      "repositories whose publisher states no digest: an exact version is enough there")],
)  # fmt: skip
def image_by_digest(resource: Resource) -> Iterator[Finding]:
    by_version = resource.settings["byVersion"]
    yield from independently(_image(found, by_version) for found in containers(resource.kind, resource.props))


def _image(container: Mapping[str, Any], by_version: Sequence[str]) -> Iterator[Finding]:
    image = container.get("image")
    if not image or image.startswith(NODE_IMAGES):
        return
    tag = image.split("@")[0].rsplit("/")[-1].partition(":")[2]
    if tag == "latest":
        yield Finding(f"container `{container.get('name')}` with the tag `latest` ({image})", "no such tag")
    elif image.partition(":")[0] in by_version and VERSION.search(tag):
        return
    elif not DIGEST.search(image):
        yield Finding(f"container `{container.get('name')}` with {image}", "an image by digest")


@resource_rule(
    "efa-image", "mandatory", "A pod that asks for EFA runs an image that holds EFA's libfabric.",
    kinds=WORKLOADS,
    fix="build on an image with the EFA installer; then say so by the pods' annotation "
        f'{IMAGE_EFA}: "true"',
    source="NIXL's LIBFABRIC plugin needs the system's libfabric, which vllm/vllm-openai lacks: "
           "https://github.com/ai-dynamo/dynamo docs/kubernetes/cloud-providers/eks/efa.md",
)  # fmt: skip
def efa_image(resource: Resource) -> Iterator[Finding]:
    stated = yes(pod_metadata(resource.kind, resource.props, "annotations").get(IMAGE_EFA))
    if not stated:
        yield from independently(_asks_for_efa(container) for container in containers(resource.kind, resource.props))


def _asks_for_efa(container: Mapping[str, Any]) -> Iterator[Finding]:
    resources = container.get("resources") or {}
    asked = max(whole((resources.get(kind) or {}).get(EFA_RESOURCE)) for kind in ("requests", "limits"))
    if asked:
        found = f"container `{container.get('name')}` asks for {asked} {EFA_RESOURCE}, pods without the annotation"
        yield Finding(found, f'{IMAGE_EFA}: "true"')


@stack_rule(
    "network-policies-present", "mandatory",
    "A namespace with tiers denies what no NetworkPolicy allows, and each tier has its own.",
    fix="add a NetworkPolicy with an empty podSelector, policyTypes [Ingress] and no rules, and one for each tier: "
        "vLLM's side channel, metrics and admin endpoints ask nobody who he is",
    source="https://kubernetes.io/docs/concepts/services-networking/network-policies/: default deny; "
           "vllm docs/usage/security.md",
    settings=[Setting("exceptStacks", ["local"], "stacks on a cluster that enforces no NetworkPolicy")],
)  # fmt: skip
def network_policies_present(stack: Stack) -> Iterator[Finding]:
    if stack.name in stack.settings["exceptStacks"]:
        return
    tiers: dict[str, dict[str, PolicyResource]] = {}
    unknown: UnknownValueError | None = None
    try:
        for place, tier, workload in independently(_tier(workload) for workload in stack.of(*WORKLOADS)):
            tiers.setdefault(place, {})[tier] = workload
    except UnknownValueError as error:
        unknown = error
    yield from independently(_unguarded(place, members, stack) for place, members in sorted(tiers.items()))
    if unknown:
        raise unknown


def _tier(workload: PolicyResource) -> Iterator[tuple[str, str, PolicyResource]]:
    """Namespace and tier of a workload of ours."""
    tier = pod_metadata(workload.resource_type, workload.props, "labels").get(TIER_LABEL)
    if tier:
        yield namespace(workload.props), tier, workload


def _unguarded(place: str, tiers: Mapping[str, PolicyResource], stack: Stack) -> Iterator[Finding]:
    specs = [p.props.get("spec") or {} for p in stack.of(NETWORK_POLICY) if namespace(p.props) == place]
    if not any(_denies_by_default(spec) for spec in specs):
        first = next(iter(tiers.values()))
        yield Finding(f"namespace `{place}` without a default-deny NetworkPolicy", "one", at=first)
    for tier, workload in sorted(tiers.items()):
        labels = pod_metadata(workload.resource_type, workload.props, "labels")
        if not any(_is_for(spec, labels) for spec in specs):
            yield Finding(f"no NetworkPolicy that selects the tier `{tier}` in namespace `{place}`", "one", at=workload)


def _selector(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    return spec.get("podSelector") or {}


def _denies_by_default(spec: Mapping[str, Any]) -> bool:
    empty = not _selector(spec).get("matchLabels") and not _selector(spec).get("matchExpressions")
    return empty and "Ingress" in (spec.get("policyTypes") or ["Ingress"]) and not spec.get("ingress")


def _is_for(spec: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    """Whether a policy selects pods with these labels, by at least one of them."""
    wanted = _selector(spec).get("matchLabels") or {}
    expressions = _selector(spec).get("matchExpressions") or []
    if not wanted and not expressions:
        return False
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        _matches(expression, labels) for expression in expressions
    )


def _matches(expression: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    """One entry of matchExpressions (Kubernetes API, LabelSelectorRequirement)."""
    key, values = expression["key"], expression.get("values") or []
    return {
        "In": labels.get(key) in values,
        "NotIn": labels.get(key) not in values,
        "Exists": key in labels,
        "DoesNotExist": key not in labels,
    }[expression["operator"]]
