"""What serves: from settings to one release switch, for the stack's own program and for the package's component."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pulumi

from components.release.ledger import Ledger, LedgerTooNew, Quarantined, plan_update, read_ledger, recover
from components.release.ledger import Plan as UpdatePlan
from components.release.release import Release, build_release
from components.release.switch import ReleaseSwitch, SwitchArgs
from infra import ground
from infra.autoscaling import least, sizes_now
from infra.foundation import Ground, Observed
from infra.gate_settings import gate_settings
from infra.image import resolve_image
from infra.model_files import model_spec
from infra.outputs import Configured, exported
from infra.plan import Plan
from infra.plan_report import plan_text
from infra.read_plan import read_plan
from infra.report import gate_table, refusal
from infra.serving_spec import replicas, serving_spec
from infra.settings import Settings, SettingsError
from infra.site import Site

USERS_FAULTS = (SettingsError, LedgerTooNew, Quarantined)
"""What is told by its text alone, and keeps an update from beginning."""


@dataclass(frozen=True)
class Planned:
    """What settings ask for, before any cluster was asked."""

    plan: Plan
    release: Release


@dataclass(frozen=True)
class Served:
    """`outputs` by the contract's names, with the platform's own."""

    outputs: dict[str, Any]
    switch: ReleaseSwitch


def plan_release(values: Mapping[str, Any], site: Site) -> Planned:
    """Read and check settings, and say what they mean. Raises SettingsError with every fault."""
    plan, files, warnings = read_plan(values, site.project, site.where)
    model = model_spec(plan, files, site.project)
    pulumi.log.info(plan_text(plan))
    _warn(map(str, warnings))
    image = resolve_image(plan.settings, site.project, site.where)
    return Planned(plan, build_release(serving_spec(plan, model, image, files.chat_template)))


def declare_update(planned: Planned, observed: Observed, saved: Any, site: Site, theirs: Any = None) -> Served:
    """Declare one update: `saved` is the ledger that the last one left, `theirs` the cluster of another stack.

    Raises SettingsError, LedgerTooNew or Quarantined before anything is declared.
    """
    plan, release = planned.plan, planned.release
    _warn(observed.warnings)
    ledger = recover(read_ledger(saved), observed.cluster.selected, observed.cluster.record)
    update = plan_update(ledger, release, plan.settings.gate.retry)
    base = ground.declare(plan, update, observed, site, theirs)
    switch = ReleaseSwitch("switch", _switch_args(plan, observed, ledger, update, base, site), base.opts)
    _say_result(plan.settings, switch)
    configured = Configured(release.id, plan.settings.model.name, observed.access.namespace, base.ca)
    return Served(base.outputs | exported(configured, switch), switch)


def _switch_args(plan: Plan, observed: Observed, ledger: Ledger, update: UpdatePlan, base: Ground,
                 site: Site) -> SwitchArgs:  # fmt: skip
    settings, sizes = plan.settings, observed.cluster.sizes
    return SwitchArgs(
        access=observed.access,
        ledger=ledger,
        plan=update,
        gate=gate_settings(plan),
        strategy=settings.rollout.strategy,
        drain_limit_s=settings.rollout.drain_limit_s,
        replicas=sizes_now(settings, replicas(settings, sizes), sizes),
        scaled=least(settings),
        found=sizes,
        port=settings.edge.port,
        service_type=base.service_type,
        node_port=base.node_port,
        outside=base.outside,
        nodes=base.nodes,
        kinds=site.kinds,
    )


def refusal_of(planned: Planned, served: Served, site: Site) -> pulumi.Output[str]:
    """Why the update has failed, empty where it has not: known after everything that had to be done is done.

    A preview does not know, and says nothing.
    """
    settings, switch = planned.plan.settings, served.switch
    dry = pulumi.runtime.is_dry_run()

    def judge(values: list[Any]) -> str:
        verdict, ledger, endpoint, _ = values
        if dry or verdict["outcome"] == "pass":
            return ""
        live = (ledger.get("live") or {}).get("release", {}).get("id")
        return refusal(site.where, planned.release.id, settings.note, verdict, live, endpoint)

    return pulumi.Output.all(switch.verdict, switch.ledger, switch.endpoint, switch.done).apply(judge)


def _warn(warnings: Iterable[str]) -> None:
    for warning in warnings:
        pulumi.log.warn(warning)


def _say_result(settings: Settings, switch: ReleaseSwitch) -> None:
    def say(verdict: dict[str, Any]) -> None:
        if verdict["pairs"]:
            pulumi.log.info(gate_table(verdict, settings.gate.limit_ms))

    switch.gate.verdict.apply(say)
