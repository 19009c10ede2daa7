"""Observability of one stack: what scrapes it, what is recorded and alerted on, the dashboard, the idle probe.

No part of a release: it follows whichever is live.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from components.observability import idle_job
from components.observability.idle_job import IdleProbeArgs
from components.observability.limits import AlertLimits
from components.observability.operator_api import API_VERSION, POD_MONITOR, PROMETHEUS_RULE
from components.observability.packed import packed
from components.observability.pod_monitors import pod_monitors
from components.observability.rules import RULE_NAME, rules_file
from components.serving.labels import MANAGED_BY
from components.serving.release_files import encoded

DASHBOARD_NAME = "splitserve-dashboard"
DASHBOARD_LABELS = {"grafana_dashboard": "1"}
"""What the sidecar of Grafana's chart looks for (grafana/helm-charts, `sidecar.dashboards.label`)."""


@dataclass(frozen=True)
class ObservabilityArgs:
    """Each part is made where it is asked for. `labels` are on PodMonitors and rules beside ours: a Prometheus may
    select them by some. `interval_s` is how often pods are scraped."""

    namespace: pulumi.Input[str]
    limits: AlertLimits
    interval_s: int
    pod_monitors: bool = False
    rules: bool = False
    dashboard: bool = False
    idle_probe: IdleProbeArgs | None = None
    labels: dict[str, str] = field(default_factory=dict)


class Observability(pulumi.ComponentResource):
    """PodMonitors, a PrometheusRule, a dashboard and a CronJob, as far as they are asked for."""

    def __init__(self, name: str, args: ObservabilityArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("splitserve:observability:Observability", name, None, opts)
        self._args, self._child = args, pulumi.ResourceOptions(parent=self)
        if args.pod_monitors:
            self._pod_monitors()
        if args.rules:
            self._custom(RULE_NAME, PROMETHEUS_RULE, rules_file(args.limits))
        if args.dashboard:
            self._dashboard()
        if args.idle_probe:
            self._idle_probe(args.idle_probe)
        self.register_outputs({})

    def _metadata(self, name: str, labels: dict[str, str] | None = None) -> k8s.meta.v1.ObjectMetaArgs:
        return k8s.meta.v1.ObjectMetaArgs(
            name=name, namespace=self._args.namespace, labels={**(labels or {}), **MANAGED_BY}
        )

    def _pod_monitors(self) -> None:
        for name, spec in pod_monitors(self._args.interval_s).items():
            self._custom(name, POD_MONITOR, spec)

    def _custom(self, name: str, kind: str, spec: dict[str, Any]) -> None:
        """A kind of the Prometheus operator's."""
        k8s.apiextensions.CustomResource(
            f"{name}-{kind.lower()}",
            api_version=API_VERSION,
            kind=kind,
            metadata=self._metadata(name, self._args.labels),
            spec=spec,
            opts=self._child,
        )

    def _dashboard(self) -> None:
        from components.observability.dashboard import dashboard_json  # Grafana's library costs every other stack

        data = {"splitserve.json": dashboard_json(self._args.limits)}
        k8s.core.v1.ConfigMap(
            DASHBOARD_NAME, metadata=self._metadata(DASHBOARD_NAME, DASHBOARD_LABELS), data=data, opts=self._child
        )

    def _idle_probe(self, args: IdleProbeArgs) -> None:
        made = [self._idle_access(), self._idle_program()]
        spec: Any = idle_job.cron_job_spec(args)
        k8s.batch.v1.CronJob(
            idle_job.NAME,
            metadata=self._metadata(idle_job.NAME, idle_job.LABELS),
            spec=spec,
            opts=pulumi.ResourceOptions(parent=self, depends_on=made),
        )

    def _idle_access(self) -> pulumi.Resource:
        """Its identity: it may read, and nothing else."""
        name, metadata = idle_job.NAME, self._metadata(idle_job.NAME, idle_job.LABELS)
        account = k8s.core.v1.ServiceAccount(name, metadata=metadata, opts=self._child)
        rules: Any = idle_job.RULES
        role = k8s.rbac.v1.Role(name, metadata=metadata, rules=rules, opts=self._child)
        return k8s.rbac.v1.RoleBinding(
            name,
            metadata=metadata,
            role_ref=k8s.rbac.v1.RoleRefArgs(api_group="rbac.authorization.k8s.io", kind="Role", name=name),
            subjects=[k8s.rbac.v1.SubjectArgs(kind="ServiceAccount", name=name, namespace=self._args.namespace)],
            opts=pulumi.ResourceOptions(parent=self, depends_on=[account, role]),
        )

    def _idle_program(self) -> pulumi.Resource:
        name = idle_job.program_name()
        data = encoded({idle_job.PROGRAM_FILE: packed()})
        return k8s.core.v1.ConfigMap(
            name, metadata=self._metadata(name, idle_job.LABELS), binary_data=data, opts=self._child
        )
