"""From a plan to the autoscaler's pod."""

from __future__ import annotations

from components.release.ledger import Plan as UpdatePlan
from components.serving.autoscaler import AutoscalerArgs
from components.serving.spec import ROUTER, ResourceSpec
from infra.autoscaling import flags
from infra.node_generations import placements
from infra.plan import Plan

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
