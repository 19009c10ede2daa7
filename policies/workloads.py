"""What Kubernetes workloads have in common, by the kinds that Pulumi registers them under."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_KINDS = (
    "kubernetes:apps/v1:Deployment",
    "kubernetes:apps/v1:DaemonSet",
    "kubernetes:apps/v1:StatefulSet",
    "kubernetes:apps/v1:ReplicaSet",
    "kubernetes:batch/v1:Job",
    "kubernetes:batch/v1:CronJob",
    "kubernetes:core/v1:Pod",
    "kubernetes:leaderworkerset.x-k8s.io/v1:LeaderWorkerSet",
)
WORKLOADS = (*_KINDS, *(f"{kind}Patch" for kind in _KINDS))
"""A patch (of replicas, say) names only what it changes."""


def pod_template(kind: str, props: Mapping[str, Any]) -> Mapping[str, Any]:
    """The `metadata` and `spec` of a workload's pods; empty where a patch leaves them alone. Of a group of pods, its
    leader's."""
    return next(iter(pod_templates(kind, props)), {})


def pod_templates(kind: str, props: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Of a group of pods, its leader's and its workers'; else one."""
    if not kind.removesuffix("Patch").endswith(":LeaderWorkerSet"):
        return [_pod_template(kind, props)]
    templates = (props.get("spec") or {}).get("leaderWorkerTemplate") or {}
    return [template for name in ("leaderTemplate", "workerTemplate") if (template := templates.get(name))]


def _pod_template(kind: str, props: Mapping[str, Any]) -> Mapping[str, Any]:
    kind = kind.removesuffix("Patch")
    if kind.endswith(":Pod"):
        return props
    spec = props.get("spec") or {}
    if kind.endswith(":CronJob"):
        spec = (spec.get("jobTemplate") or {}).get("spec") or {}
    return spec.get("template") or {}


def containers(kind: str, props: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Every container of a workload, init containers included."""
    for template in pod_templates(kind, props):
        pod = template.get("spec") or {}
        for group in ("initContainers", "containers"):
            yield from pod.get(group) or []


def pod_metadata(kind: str, props: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The pods' `labels` or `annotations`."""
    return (pod_template(kind, props).get("metadata") or {}).get(key) or {}


def metadata(props: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The object's own `labels` or `annotations`."""
    return (props.get("metadata") or {}).get(key) or {}


def namespace(props: Mapping[str, Any]) -> str:
    return (props.get("metadata") or {}).get("namespace") or "default"
