"""What watches a release: schedules that come, probes that have something to send, alerts that can see it."""

from __future__ import annotations

from collections.abc import Iterator

from components.observability.limits import LONGEST_PAUSE_S
from components.observability.schedule import ImpossibleSchedule
from components.serving.connectors.profiles import measurement
from infra.observability import idle_pause_s
from infra.plan import Plan
from infra.rules.rule import Finding, rule

SCHEDULE = "observability.idleProbe.schedule"


@rule("idle-probe-schedule", "error", "The idle probe's schedule is one that comes.",
      "Kubernetes' CronJob: a schedule of another form is refused by the API server, one without a day never runs")  # fmt: skip
def idle_probe_schedule(plan: Plan) -> Iterator[Finding]:
    try:
        idle_pause_s(plan.settings)
    except ImpossibleSchedule as impossible:
        found, _, wanted = str(impossible).partition(", wanted ")
        yield Finding(SCHEDULE, found.replace("found ", ""), wanted or "a time that comes", "such as `*/10 * * * *`")


@rule("idle-probe-often-enough", "warning", "The idle probe runs once an hour or more often.",
      "components/observability/limits.py: alerts look at a window of time, which must hold its samples")  # fmt: skip
def idle_probe_often(plan: Plan) -> Iterator[Finding]:
    try:
        pause_s = idle_pause_s(plan.settings)
    except ImpossibleSchedule:
        return
    if pause_s is not None and pause_s > LONGEST_PAUSE_S:
        yield Finding(SCHEDULE, f"{plan.settings.observability.idle_probe.schedule}, with pauses of up to "
                      f"{pause_s / 3600:g} h", f"at most {LONGEST_PAUSE_S // 60} min",
                      "meanwhile nothing tells an idle release from a broken one")  # fmt: skip


@rule("idle-probe-has-a-pair", "error", "The idle probe has a prefiller and a decoder to send transfers between.",
      "splitserve: collocated engines move no KV cache")  # fmt: skip
def idle_probe_pair(plan: Plan) -> Iterator[Finding]:
    settings = plan.settings
    if settings.observability.idle_probe.schedule and settings.topology != "prefill-decode":
        yield Finding(SCHEDULE, f"a schedule, with topology {settings.topology}", "topology prefill-decode",
                      "leave it out: there is no KV transfer to prove")  # fmt: skip


@rule("alerts-see-transfers", "warning", "The connector's transfers have series that alerts can read.",
      "docs/reference/connectors.md, measured")  # fmt: skip
def alerts_see_transfers(plan: Plan) -> Iterator[Finding]:
    settings = plan.settings
    how = measurement(settings.connector.chosen, settings.topology)
    if settings.observability.rules and settings.topology == "prefill-decode" and how.unmeasured:
        yield Finding("observability.rules", f"true, with connector.name {settings.connector.name}, whose transfers "
                      f"{how.unmeasured}", "a connector that can be measured", "alerts see what arrives, never how long "
                      "it took or what failed")  # fmt: skip
