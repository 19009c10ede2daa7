"""From the stack file's `autoscale` to the autoscaler's flags, and to the sizes that an update gives its tiers.

Pure: rules use it.
"""

from __future__ import annotations

from collections.abc import Mapping

from components.serving.labels import SERVICE
from infra.schema.operation import Bounds
from infra.settings import Settings


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
