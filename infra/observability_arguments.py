"""From a plan to the component of its observability."""

from __future__ import annotations

from components.observability.idle_job import IdleProbeArgs
from components.observability.observability import ObservabilityArgs
from components.serving.spec import ROUTER
from infra.node_generations import placements
from infra.observability import alert_limits
from infra.plan import Plan


def observability_args(plan: Plan, namespace: str, image: str) -> ObservabilityArgs | None:
    """None where nothing of it is asked for. `image` is the engines' that nodes have already."""
    asked = plan.settings.observability
    if not (asked.pod_monitors or asked.rules or asked.dashboard or asked.idle_probe.schedule):
        return None
    return ObservabilityArgs(
        namespace=namespace,
        limits=alert_limits(plan.settings),
        interval_s=asked.scrape_interval_s,
        pod_monitors=asked.pod_monitors,
        rules=asked.rules,
        dashboard=asked.dashboard,
        idle_probe=idle_probe_args(plan, image),
        labels=asked.labels,
    )


def idle_probe_args(plan: Plan, image: str) -> IdleProbeArgs | None:
    settings, asked = plan.settings, plan.settings.observability.idle_probe
    if not asked.schedule:
        return None
    return IdleProbeArgs(
        schedule=asked.schedule,
        samples=asked.samples,
        quiet_s=asked.quiet_s,
        limit_ms=settings.gate.limit_ms,
        limit_s=settings.gate.probe_limit_s + asked.quiet_s,
        image=asked.image or image,
        placement=placements(plan)[ROUTER],
        api_key_secret=settings.edge.api_key_secret if settings.render.replicas else None,
    )
