"""From a plan to the component of its observability."""

from __future__ import annotations

from components.observability.idle_job import IdleProbeArgs
from components.observability.observability import ObservabilityArgs
from components.release.ledger import Plan as UpdatePlan
from components.serving.spec import ROUTER
from infra.node_generations import placements
from infra.observability import alert_limits
from infra.plan import Plan


def observability_args(plan: Plan, namespace: str, update: UpdatePlan) -> ObservabilityArgs | None:
    """None where nothing of it is asked for."""
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
        idle_probe=idle_probe_args(plan, update),
        labels=asked.labels,
    )


def idle_probe_args(plan: Plan, update: UpdatePlan) -> IdleProbeArgs | None:
    """It runs where routers do, on the image that those nodes have: the live release's, so that a refused candidate's
    changes nothing."""
    settings, asked = plan.settings, plan.settings.observability.idle_probe
    if not asked.schedule:
        return None
    release = update.live.release if update.live else update.candidate
    assert release is not None  # an update has one of the two
    return IdleProbeArgs(
        schedule=asked.schedule,
        samples=asked.samples,
        quiet_s=asked.quiet_s,
        limit_ms=settings.gate.limit_ms,
        limit_s=settings.gate.probe_limit_s + asked.quiet_s,
        image=asked.image or release.pods[ROUTER]["containers"][0]["image"],
        placement=placements(plan)[ROUTER],
        api_key_secret=settings.edge.api_key_secret if settings.render.replicas else None,
    )
