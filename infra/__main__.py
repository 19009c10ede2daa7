"""The program: settings in, one release switch out. Composition only."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pulumi

from infra import ground, naming
from infra.cluster_layer import declare_cluster
from infra.serving_layer import USERS_FAULTS, declare_update, plan_release, refusal_of
from infra.settings import is_cluster_layer
from infra.site import Site
from infra.stack_values import stack_values
from splitserve import names

PROJECT_FOLDER = Path(__file__).resolve().parent.parent


async def main() -> dict[str, Any]:
    """Declare one update; the returned mapping is the stack's outputs."""
    try:
        return await declare()
    except USERS_FAULTS as error:
        raise pulumi.RunError(str(error)) from None


async def declare() -> dict[str, Any]:
    site = Site(
        project=PROJECT_FOLDER,
        where=f"{naming.PROJECT}/{pulumi.get_stack()}",
        owner=naming.owner(pulumi.get_organization(), pulumi.get_stack()),
        stack=pulumi.get_stack(),
    )
    values = stack_values(json.loads(os.environ.get("PULUMI_CONFIG", "{}")))
    if is_cluster_layer(values):
        return declare_cluster(values, site)
    planned = plan_release(values, site)
    theirs = await ground.cluster_of_another(planned.plan, site.where)
    observed = ground.observe(planned.plan, site, theirs)
    served = declare_update(planned, observed, await _own_ledger(), site, theirs)
    refusal_of(planned, served, site).apply(_fail)
    return served.outputs


def _fail(refusal: str) -> None:
    """End the update as failed, where there is a reason."""
    if refusal:
        raise pulumi.RunError(refusal)


async def _own_ledger() -> Any:
    """This stack's ledger as its last update left it (None on the very first)."""
    own = f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"
    return (await pulumi.StackReference(own).get_output_details(names.LEDGER)).value


pulumi.run(main)
