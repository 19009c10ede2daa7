"""From the stack file's `autoscale` to the autoscaler's flags, and to the sizes that an update gives its tiers."""

from __future__ import annotations

from collections.abc import Mapping

from components.release.ledger import Plan as UpdatePlan
from components.serving.autoscaler import AutoscalerArgs
from components.serving.front_door import SERVICE
from components.serving.spec import ROUTER, ResourceSpec
from infra.node_generations import placements
from infra.plan import Plan
from infra.schema.operation import Bounds
from infra.settings import Settings

SHM = "16Mi"


def autoscaler_args(plan: Plan, namespace: str, update: UpdatePlan) -> AutoscalerArgs | None:
    """None where no tier is scaled. It runs on the live release's image, so that a refused candidate's
    changes nothing."""
    settings = plan.settings.autoscale
    if not settings.tiers:
        return None
    release = update.live.release if update.live else update.candidate
    assert release is not None  # an update has one of the two
    image = settings.image or release.pods[ROUTER]["containers"][0]["image"]
    resources = ResourceSpec(cpu=settings.cpu, memory=settings.memory, shm=SHM)
    return AutoscalerArgs(namespace, image, flags(plan.settings), placements(plan)[ROUTER], resources)


def flags(settings: Settings) -> tuple[str, ...]:
    autoscale = settings.autoscale
    plain = {
        "--service": SERVICE,
        "--engine-port": str(settings.engine.port),
        "--render-port": str(settings.render.port),
        "--period-s": str(autoscale.period_s),
        "--average-s": str(autoscale.average_s),
        "--up-window-s": str(autoscale.up_window_s),
        "--down-window-s": str(autoscale.down_window_s),
        "--down-step-window-s": str(autoscale.down_window_s),
        "--settle-s": str(autoscale.settle_s),
        "--ratio-min": f"{autoscale.ratio_min or 0:g}",
        "--ratio-max": f"{autoscale.ratio_max or 0:g}",
        "--prefill-tokens-per-s": f"{autoscale.prefill_tokens_per_s or 0:g}",
    }
    tiers = [("--tier", f"{tier}={bounds.min}:{bounds.max}") for tier, bounds in scaled(settings).items()]
    targets = [("--target", f"{signal}={value:g}") for signal, value in sorted(autoscale.targets.items())]
    return tuple(part for pair in (*plain.items(), *tiers, *targets) for part in pair)


def scaled(settings: Settings) -> dict[str, Bounds]:
    """The bounds of those tiers that the topology has."""
    there = {*settings.tiers, *(["render"] if settings.render.replicas else [])}
    return {tier: bounds for tier, bounds in settings.autoscale.tiers.items() if tier in there}


def least(settings: Settings) -> dict[str, int]:
    """By scaled tier, its fewest pods."""
    return {tier: bounds.min for tier, bounds in scaled(settings).items()}


def sizes_now(settings: Settings, replicas: Mapping[str, int], found: Mapping[str, int]) -> dict[str, int]:
    """Full sizes for this update: scaled tiers as they are now, within their bounds."""
    bounds = scaled(settings)
    return {
        tier: min(max(found.get(tier) or count, bounds[tier].min), bounds[tier].max) if tier in bounds else count
        for tier, count in replicas.items()
    }
