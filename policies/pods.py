"""Rules about pods. They speak at preview and at update, on what each workload declares."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pulumi_policy import EnforcementLevel, ReportViolation, ResourceValidationArgs, ResourceValidationPolicy

WORKLOADS = (
    "kubernetes:apps/v1:Deployment",
    "kubernetes:apps/v1:DaemonSet",
    "kubernetes:apps/v1:StatefulSet",
    "kubernetes:batch/v1:Job",
    "kubernetes:core/v1:Pod",
)


def containers(kind: str, properties: Any) -> Iterator[Any]:
    """Every container of a workload, init containers included."""
    spec = properties["spec"]
    pod = spec if kind.endswith(":Pod") else spec["template"]["spec"]
    for group in ("initContainers", "containers"):
        yield from pod.get(group) or []


def no_privileged_pods(args: ResourceValidationArgs, report: ReportViolation) -> None:
    """No container is privileged or may become so."""
    if args.resource_type not in WORKLOADS:
        return
    for container in containers(args.resource_type, args.props):
        security = container.get("securityContext") or {}
        if security.get("privileged"):
            report(f"container `{container['name']}` is privileged; drop `privileged`, add single capabilities", None)
        if security.get("allowPrivilegeEscalation", True):
            report(f"container `{container['name']}` may gain privileges; set allowPrivilegeEscalation: false", None)


NO_PRIVILEGED_PODS = ResourceValidationPolicy(
    name="no-privileged-pods",
    description="No container is privileged or may become so.",
    enforcement_level=EnforcementLevel.MANDATORY,
    validate=no_privileged_pods,
)
