"""The parts that every pod of ours shares: security, scratch space, resources, placement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from components.serving.spec import DeviceClaims, PodPlacement, ResourceSpec

SECURITY_CONTEXT: dict[str, Any] = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
SCRATCH_MOUNTS: list[dict[str, Any]] = [
    {"name": "scratch", "mountPath": "/tmp"},
    {"name": "shm", "mountPath": "/dev/shm"},
]
# Python looks a user without an account up by these; caches go where the pod may write.
HOME: list[dict[str, Any]] = [
    {"name": "HOME", "value": "/tmp"},
    {"name": "USER", "value": "splitserve"},
]


def security_context(*, lock_memory: bool) -> dict[str, Any]:
    """A container's; with the one capability that registering memory for RDMA may need."""
    if not lock_memory:
        return SECURITY_CONTEXT
    return {**SECURITY_CONTEXT, "capabilities": {"drop": ["ALL"], "add": ["IPC_LOCK"]}}


def environment(values: Mapping[str, str]) -> list[dict[str, Any]]:
    """A container's variables, in an order that only their names decide."""
    return [{"name": name, "value": value} for name, value in sorted(values.items())]


def scratch_volumes(shm_size: str) -> list[dict[str, Any]]:
    """A writable /tmp, and /dev/shm of the size that vLLM's workers need to exchange tensors."""
    return [
        {"name": "scratch", "emptyDir": {}},
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": shm_size}},
    ]


def resources(spec: ResourceSpec) -> dict[str, Any]:
    extended = {name: str(count) for name, count in spec.extended.items()}
    limits = {"memory": spec.memory, **extended}
    if spec.cpu_limit:
        limits["cpu"] = spec.cpu_limit
    claimed = {"claims": [{"name": name} for name in spec.claims.names]} if spec.claims else {}
    return {"requests": {"cpu": spec.cpu, "memory": spec.memory, **extended}, "limits": limits, **claimed}


def resource_claims(claims: DeviceClaims | None) -> dict[str, Any]:
    """The pod's own part of what `resources` names; empty without claims."""
    if claims is None:
        return {}
    return {"resourceClaims": [{"name": n, "resourceClaimTemplateName": claims.template} for n in claims.names]}


def pod_spec(
    placement: PodPlacement,
    container: dict[str, Any],
    volumes: list[dict[str, Any]],
    grace_s: int,
) -> dict[str, Any]:
    """A pod of one container. Service links are off: a Service named `vllm` would set VLLM_PORT."""
    tolerated = {"tolerations": [dict(t) for t in placement.tolerations]} if placement.tolerations else {}
    return {
        **tolerated,
        "containers": [container],
        "volumes": volumes,
        "enableServiceLinks": False,
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": grace_s,
        "nodeSelector": dict(placement.node_selector),
        "securityContext": {
            "runAsNonRoot": placement.run_as_user != 0,
            "runAsUser": placement.run_as_user,
            "runAsGroup": placement.run_as_user,
            "fsGroup": placement.run_as_user,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
