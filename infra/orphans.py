"""What a stack made on AWS and its Pulumi state does not have. Pure.

An update that is killed between AWS's answer and the state's next write leaves it: the next update makes a
second one, or is refused because the name is taken. It was made in that update's last seconds and nothing
refers to it, so it can be removed. Taking it into the state is no general answer: `pulumi refresh
--import-pending-creates` forgets it instead (pulumi 3.274), and after `pulumi import` the next update replaces
what the provider can't read back whole, such as node groups and what has a name prefix.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from infra.tagged import Found

AWS_PROVIDER = "pulumi:providers:aws"
ROUTE = "aws:ec2/route:Route"
State = Mapping[str, Any]
"""As `pulumi stack export` prints it."""


def orphans(state: State, found: Sequence[Found]) -> list[Found]:
    known = {(entry["type"], entry.get("id")) for entry in _resources(state)}
    return [entry for entry in found if (entry.kind, entry.id) not in known]


def pending_creates(state: State) -> list[dict[str, Any]]:
    """The resources that no answer was written for."""
    operations = _deployment(state).get("pending_operations") or []
    return [operation["resource"] for operation in operations if operation["type"] == "creating"]


def pending_routes(state: State) -> list[tuple[str, str]]:
    """(table, destination) of the routes among them."""
    inputs = [entry.get("inputs", {}) for entry in pending_creates(state) if entry["type"] == ROUTE]
    return [(entry["routeTableId"], entry["destinationCidrBlock"]) for entry in inputs]


def clusters(state: State) -> set[str]:
    """Of everything in EKS that the state has or that was under way: another stack's, where that made it."""
    entries = [*_resources(state), *pending_creates(state)]
    return {entry["inputs"]["clusterName"] for entry in entries if "clusterName" in (entry.get("inputs") or {})}


def region(state: State) -> str | None:
    """That of the stack's AWS provider."""
    regions = [entry.get("inputs", {}).get("region") for entry in _resources(state) if entry["type"] == AWS_PROVIDER]
    return next(filter(None, regions), None)


def forget_command(state: State, stack: str) -> str:
    """Clears the pending creations, once what they left is removed; empty if there are none."""
    if not pending_creates(state):
        return ""
    return f"pulumi refresh --stack {stack} --yes --skip-preview --clear-pending-creates"


def _deployment(state: State) -> Mapping[str, Any]:
    return state.get("deployment") or {}


def _resources(state: State) -> list[dict[str, Any]]:
    return _deployment(state).get("resources") or []
