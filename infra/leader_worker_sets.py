"""From a plan to the controller that engines over several nodes need, unless the cluster has it."""

from __future__ import annotations

from pathlib import Path

from components.existing.found import Found
from components.nodes.images import LEADER_WORKER_SET
from components.nodes.leader_worker_set import LeaderWorkerSetArgs
from components.release.ledger import Plan as UpdatePlan
from infra.over_nodes import tiers_over_nodes
from infra.plan import Plan
from infra.settings import SettingsError

PROJECT = Path(__file__).resolve().parents[1]
LOCAL_IMAGE = ".local/lws-image"
"""Where `make groups` writes the name of the controller's image that it loaded into the local cluster."""


def installs(plan: Plan, update: UpdatePlan | None = None) -> bool:
    """Whether the stack brings the controller, if nobody else has. A live release of groups needs it even where the
    settings have none any more."""
    platform = plan.settings.platform
    chosen = platform.node_software.leader_worker_sets
    if platform.layers == "serving" or chosen == "none":
        return False
    releases = [update.live.release if update.live else None, update.candidate] if update else []
    return chosen == "always" or bool(tiers_over_nodes(plan)) or any(one.groups for one in releases if one)


def controller_args(plan: Plan, owner: str, found: Found | None, where: str, update: UpdatePlan | None = None,
                    project: Path = PROJECT) -> LeaderWorkerSetArgs | None:  # fmt: skip
    """None where the stack brings no controller. Raises SettingsError where its image is not known."""
    if not installs(plan, update) or (found and found.leader_worker_sets.whose(owner)):
        return None
    return LeaderWorkerSetArgs(owner, _image(plan, project, where))


def _image(plan: Plan, project: Path, where: str) -> str:
    platform = plan.settings.platform
    if given := platform.node_software.leader_worker_sets_image:
        return given
    if platform.kind != "local":
        return LEADER_WORKER_SET.reference
    try:
        return (project / LOCAL_IMAGE).read_text().strip()
    except FileNotFoundError:
        raise SettingsError(where, [
            f"platform.nodeSoftware.leaderWorkerSetsImage: found no {LOCAL_IMAGE}; wanted the controller's image, since "
            f"{', '.join(tiers_over_nodes(plan)) or 'the live release'} has engines over several nodes; run: make groups"
        ]) from None  # fmt: skip
