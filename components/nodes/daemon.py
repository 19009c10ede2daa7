"""What every DaemonSet of ours on nodes has in common, and how a manifest becomes a resource."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi
import pulumi_kubernetes as k8s
from pulumi_kubernetes.resource import v1 as resource_v1

from components.nodes.names import NAMESPACE, PART_OF, PART_OF_VALUE, PRIVILEGED_BECAUSE
from components.serving.labels import MANAGED_BY, OWNER_LABEL
from components.serving.workloads import SKIP_AWAIT

KUBELET_PLUGINS = "/var/lib/kubelet/device-plugins"
NAME = "app.kubernetes.io/name"
_KINDS: dict[str, Any] = {
    "DaemonSet": k8s.apps.v1.DaemonSet,
    "ConfigMap": k8s.core.v1.ConfigMap,
    "ServiceAccount": k8s.core.v1.ServiceAccount,
    "ClusterRole": k8s.rbac.v1.ClusterRole,
    "ClusterRoleBinding": k8s.rbac.v1.ClusterRoleBinding,
    "DeviceClass": resource_v1.DeviceClass,
    "ResourceClaimTemplate": resource_v1.ResourceClaimTemplate,
}


@dataclass(frozen=True)
class Daemon:
    """A DaemonSet's own part. `owner` is the stack's label value; by it a later discovery tells this
    DaemonSet from another's. `privileged_because` is given exactly where a container is privileged or
    adds a capability."""

    name: str
    owner: str
    selector: Mapping[str, str]
    containers: Sequence[dict[str, Any]]
    volumes: Sequence[dict[str, Any]]
    privileged_because: str | None = None
    host_network: bool = False
    service_account: str | None = None
    init_containers: Sequence[dict[str, Any]] = ()
    runtime_class: str | None = None
    template_annotations: Mapping[str, str] = field(default_factory=dict)
    namespace: str = NAMESPACE
    keep_off: Mapping[str, str] = field(default_factory=dict)
    """Nodes with one of these labels have what this DaemonSet brings."""


def daemon_set(daemon: Daemon) -> dict[str, Any]:
    """The manifest. Readiness is not awaited: a node group of no nodes yet has no pod to wait for."""
    reason = {PRIVILEGED_BECAUSE: daemon.privileged_because} if daemon.privileged_because else {}
    annotations = {**SKIP_AWAIT, **reason}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {**metadata(daemon.name, daemon.owner, daemon.namespace), "annotations": annotations},
        "spec": {
            "selector": {"matchLabels": {NAME: daemon.name}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
            "template": {
                "metadata": {
                    "labels": labels(daemon.name, daemon.owner),
                    "annotations": {**reason, **daemon.template_annotations},
                },
                "spec": _pod(daemon),
            },
        },
    }


def _pod(daemon: Daemon) -> dict[str, Any]:
    """Every taint is tolerated: a plugin that a taint keeps away leaves its node without devices."""
    pod: dict[str, Any] = {
        **({"priorityClassName": "system-node-critical"} if daemon.namespace == NAMESPACE else {}),
        "tolerations": [{"operator": "Exists"}],
        "nodeSelector": {"kubernetes.io/os": "linux", **daemon.selector},
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _not_on({**EKS_AUTO, **daemon.keep_off})}
        },
        "automountServiceAccountToken": daemon.service_account is not None,
        "enableServiceLinks": False,
        "containers": list(daemon.containers),
        "volumes": list(daemon.volumes),
    }
    if daemon.host_network:
        pod["hostNetwork"] = True
    if daemon.service_account:
        pod["serviceAccountName"] = daemon.service_account
    if daemon.init_containers:
        pod["initContainers"] = list(daemon.init_containers)
    if daemon.runtime_class:
        pod["runtimeClassName"] = daemon.runtime_class
    return pod


EKS_AUTO = {"eks.amazonaws.com/compute-type": "auto"}
"""Nodes with GPU and EFA plugins built in (eks-charts aws-efa-k8s-device-plugin v0.5.30)."""


def _not_on(labels: Mapping[str, str]) -> dict[str, Any]:
    expressions = [{"key": key, "operator": "NotIn", "values": [value]} for key, value in labels.items()]
    return {"nodeSelectorTerms": [{"matchExpressions": expressions}]}


def labels(name: str, owner: str) -> dict[str, str]:
    return {NAME: name, PART_OF: PART_OF_VALUE, **MANAGED_BY, OWNER_LABEL: owner}


def metadata(name: str, owner: str, namespace: str | None = NAMESPACE) -> dict[str, Any]:
    """Name and labels; without a namespace for what belongs to the whole cluster."""
    where = {"namespace": namespace} if namespace else {}
    return {"name": name, **where, "labels": labels(name, owner)}


def host_path(name: str, path: str, kind: str | None = None) -> dict[str, Any]:
    """A volume that is a folder of the node."""
    return {"name": name, "hostPath": {"path": path} | ({"type": kind} if kind else {})}


def mount(name: str, path: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "mountPath": path, **more}


def resources(cpu: str, memory: str, memory_limit: str) -> dict[str, Any]:
    """No CPU limit: a throttled plugin misses the kubelet's deadlines."""
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": memory_limit}}


def access(name: str, owner: str, rules: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """A service account with rights on the whole cluster: account, role and binding."""
    role = "rbac.authorization.k8s.io"
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(name, owner)},
        {"apiVersion": f"{role}/v1", "kind": "ClusterRole", "metadata": metadata(name, owner, None), "rules": list(rules)},
        {
            "apiVersion": f"{role}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": metadata(name, owner, None),
            "roleRef": {"apiGroup": role, "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}],
        },
    ]  # fmt: skip


def declare(manifest: Mapping[str, Any], parent: pulumi.Resource, after: Sequence[pulumi.Resource] = ()) -> Any:
    """A manifest as a Pulumi resource, named as it is in the cluster with its kind in front."""
    kind = manifest["kind"]
    parts = {_snake(key): value for key, value in manifest.items() if key not in ("apiVersion", "kind")}
    opts = pulumi.ResourceOptions(parent=parent, depends_on=list(after))
    return _KINDS[kind](f"{kind.lower()}-{manifest['metadata']['name']}", opts=opts, **parts)


def _snake(key: str) -> str:
    return "role_ref" if key == "roleRef" else key
