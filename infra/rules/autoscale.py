"""What is sized by its own signals: bounds that can be kept, on nodes that are there."""

from __future__ import annotations

from collections.abc import Iterator

from components.autoscaler.settings import parse
from infra.autoscaling import flags, scaled
from infra.plan import Plan
from infra.rules.rule import Finding, rule


@rule("autoscale-possible", "error", "Targets are signals that there are, and some sizes keep bounds and ratio.",
      "components/autoscaler/settings.py: the autoscaler itself would refuse to start")  # fmt: skip
def autoscale_possible(plan: Plan) -> Iterator[Finding]:
    if not scaled(plan.settings):
        return
    try:
        parse(list(flags(plan.settings)))
    except SystemExit as refused:
        yield Finding("autoscale", str(refused).removeprefix("autoscaler: "), "what the autoscaler takes")


@rule("autoscale-tiers-there", "warning", "Only tiers that the stack has are scaled.",
      "splitserve: bounds of a tier that is not there do nothing")  # fmt: skip
def autoscale_tiers(plan: Plan) -> Iterator[Finding]:
    for tier in sorted(plan.settings.autoscale.tiers.keys() - scaled(plan.settings).keys()):
        yield Finding(f"autoscale.{tier}", f"bounds, with topology {plan.settings.topology}", "a tier of the stack",
                      "leave it out" if tier != "render" else "set render.replicas, or leave it out")  # fmt: skip


@rule("autoscale-fits", "error", "The nodes of a scaled tier hold its most pods.",
      "a pod that finds no node waits, and keeps the autoscaler from lowering anything")  # fmt: skip
def autoscale_fits(plan: Plan) -> Iterator[Finding]:
    for tier, bounds in scaled(plan.settings).items():
        hardware = plan.hardware.get(tier)
        if not hardware or not hardware.gpus:
            continue
        parallel = plan.settings.engine_of(tier).parallel
        each = parallel.gpus
        most = hardware.nodes * (hardware.gpus_per_node // each) if each <= hardware.gpus_per_node else 0
        if bounds.max > most:
            yield Finding(f"autoscale.{tier}.max", f"{bounds.max} pods of {each} GPUs",
                          f"at most {most}, which {hardware.nodes} node(s) of {hardware.gpus_per_node} GPUs hold",
                          "more nodes, or a lower bound")  # fmt: skip
