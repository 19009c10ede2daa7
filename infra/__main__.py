"""The program: settings in, one release switch out. Composition only."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pulumi

from components.release.ledger import LedgerTooNew, Quarantined, plan_update, read_ledger, recover
from components.release.release import build_release
from components.release.switch import ReleaseSwitch, SwitchArgs
from infra import ground, naming
from infra.autoscaling import least, sizes_now
from infra.cluster_layer import declare_cluster
from infra.gate_settings import gate_settings
from infra.image import resolve_image
from infra.model_files import model_spec
from infra.outputs import Configured, exported
from infra.plan import Plan
from infra.plan_report import plan_text
from infra.read_plan import read_plan
from infra.report import gate_table, refusal
from infra.serving_spec import replicas, serving_spec
from infra.settings import Settings, SettingsError, is_cluster_layer
from infra.stack_values import stack_values
from splitserve import names

PROJECT_FOLDER = Path(__file__).resolve().parent.parent


async def main() -> dict[str, Any]:
    """Declare one update; the returned mapping is the stack's outputs."""
    try:
        return await declare()
    except (SettingsError, LedgerTooNew, Quarantined) as error:
        raise pulumi.RunError(str(error)) from None


async def declare() -> dict[str, Any]:
    stack = f"{naming.PROJECT}/{pulumi.get_stack()}"
    owner = naming.owner(pulumi.get_organization(), pulumi.get_stack())
    values = stack_values(json.loads(os.environ.get("PULUMI_CONFIG", "{}")))
    if is_cluster_layer(values):
        return declare_cluster(values, PROJECT_FOLDER, owner, pulumi.get_stack(), stack)
    plan, files, warnings = read_plan(values, PROJECT_FOLDER, stack)
    settings, model = plan.settings, model_spec(plan, files, PROJECT_FOLDER)
    _say_plan(plan, map(str, warnings))
    release = build_release(
        serving_spec(plan, model, resolve_image(settings, PROJECT_FOLDER, stack), files.chat_template)
    )
    theirs = await ground.cluster_of_another(plan, stack)
    observed = ground.observe(plan, PROJECT_FOLDER, owner, pulumi.get_stack(), stack, theirs)
    _warn(observed.warnings)
    ledger = recover(read_ledger(await _own_ledger()), observed.cluster.selected, observed.cluster.record)
    update = plan_update(ledger, release, settings.gate.retry)
    base = ground.declare(plan, update, observed, owner, pulumi.get_stack(), theirs)
    switch = ReleaseSwitch(
        "switch",
        SwitchArgs(
            access=observed.access,
            ledger=ledger,
            plan=update,
            gate=gate_settings(plan),
            strategy=settings.rollout.strategy,
            drain_limit_s=settings.rollout.drain_limit_s,
            replicas=sizes_now(settings, replicas(settings, observed.cluster.sizes), observed.cluster.sizes),
            scaled=least(settings),
            found=observed.cluster.sizes,
            port=settings.edge.port,
            service_type=base.service_type,
            node_port=base.node_port,
            outside=base.outside,
            nodes=base.nodes,
        ),
        base.opts,
    )
    _say_result(settings, switch)
    _fail_unless_passed(stack, release.id, settings, switch)
    configured = Configured(release.id, model.name, observed.access.namespace, base.ca)
    return base.outputs | exported(configured, switch)


async def _own_ledger() -> Any:
    """This stack's ledger as its last update left it (None on the very first)."""
    own = f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"
    return (await pulumi.StackReference(own).get_output_details(names.LEDGER)).value


def _say_plan(plan: Plan, warnings: Iterable[str]) -> None:
    pulumi.log.info(plan_text(plan))
    _warn(warnings)


def _warn(warnings: Iterable[str]) -> None:
    for warning in warnings:
        pulumi.log.warn(warning)


def _say_result(settings: Settings, switch: ReleaseSwitch) -> None:
    def say(verdict: dict[str, Any]) -> None:
        if verdict["pairs"]:
            pulumi.log.info(gate_table(verdict, settings.gate.limit_ms))

    switch.gate.verdict.apply(say)


def _fail_unless_passed(stack: str, release: str, settings: Settings, switch: ReleaseSwitch) -> None:
    """End the update as failed, after everything that had to be done is done and saved."""
    if pulumi.runtime.is_dry_run():
        return

    def fail(values: list[Any]) -> None:
        verdict, ledger, endpoint, _ = values
        if verdict["outcome"] != "pass":
            live = (ledger.get("live") or {}).get("release", {}).get("id")
            raise pulumi.RunError(refusal(stack, release, settings.note, verdict, live, endpoint))

    pulumi.Output.all(switch.verdict, switch.ledger, switch.endpoint, switch.done).apply(fail)


pulumi.run(main)
