"""Which tiers have engines over several nodes. Pure: rules use it."""

from __future__ import annotations

from infra.plan import Plan


def tiers_over_nodes(plan: Plan) -> list[str]:
    """The engine tiers whose engines are groups of pods; a stack of the cluster layer has no tiers."""
    settings = plan.settings
    if settings.platform.layers == "cluster":
        return []
    return [tier for tier in settings.tiers if settings.engine_of(tier).parallel.nodes > 1]
