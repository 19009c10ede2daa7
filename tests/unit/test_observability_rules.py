"""Schedules, and the rules about what watches a release: each with a plan that breaks it."""

from __future__ import annotations

from typing import Any

import pytest

from components.observability.schedule import ImpossibleSchedule, longest_pause_s, parse
from infra.observability import alert_limits
from infra.rules.all_rules import check
from tests.unit.plans import changed, found, make_plan, prod, stack_values

EVERYTHING = {
    "podMonitors": True, "rules": True, "dashboard": True, "labels": {"release": "kube-prometheus-stack"},
    "idleProbe": {"schedule": "*/10 * * * *"},
}  # fmt: skip
Change = tuple[str, Any]


def probed(schedule: str) -> list[Change]:
    return [("observability", {"idleProbe": {"schedule": schedule}})]


FAULTS: dict[str, tuple[str, list[Change], str]] = {
    "a_minute_that_no_hour_has": (
        "idle-probe-schedule", probed("61 * * * *"), "found minute: '61', wanted 0 to 59; such as `*/10 * * * *`"),
    "a_day_that_no_month_has": ("idle-probe-schedule", probed("0 0 31 2 *"), "'0 0 31 2 *', which never comes"),
    "four_fields": ("idle-probe-schedule", probed("* * * *"), "found 4 field(s), wanted 5 (minute, hour,"),
    "a_step_of_nothing": ("idle-probe-schedule", probed("*/0 * * * *"), "found minute: '*/0', wanted a step of 1"),
    "an_eighth_day_of_the_week": (
        "idle-probe-schedule", probed("0 0 * * 7"), "found day of the week: '7', wanted 0 to 6"),
    "a_time_zone": ("idle-probe-schedule", probed("TZ=UTC 0 0 * * *"), "found a time zone in 'TZ=UTC 0 0 * * *'"),
    "a_word_that_cron_has_not": ("idle-probe-schedule", probed("@often"), "or one of @yearly"),
    "a_range_backwards": ("idle-probe-schedule", probed("10-5 * * * *"), "wanted a range from the smaller"),
    "plain_english": ("idle-probe-schedule", probed("every ten minutes or so"), "found minute: 'every'"),
    "a_night_without_samples": (
        "idle-probe-often-enough", probed("0 3 * * *"), "found 0 3 * * *, with pauses of up to 24 h, wanted at most 60 min"),
    "a_connector_that_alerts_can_not_see": (
        "alerts-see-transfers", [("observability", {"rules": True}), ("connector", {"name": "moriio"})],
        "with connector.name moriio, whose transfers can't be measured"),
    "no_pair_to_probe": (
        "idle-probe-has-a-pair", [("topology", "collocated"), *probed("@hourly")],
        "found a schedule, with topology collocated, wanted topology prefill-decode"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_plan_with_the_fault_is_told_so(fault: str) -> None:
    rule, changes, words = FAULTS[fault]
    values = changed(stack_values("local" if ("topology", "collocated") in changes else "prod"), *changes)
    messages = [str(finding) for finding in found(make_plan(values), rule)]
    assert any(words in message for message in messages), messages


def test_a_right_plan_passes() -> None:
    assert check(prod(("observability", EVERYTHING))) == []


@pytest.mark.parametrize(
    ("schedule", "pause_s"),
    [("*/10 * * * *", 600), ("@hourly", 3600), ("0 3 * * *", 86400), ("5-59/20 * * * *", 1200), ("0 0 29 2 *", 1461 * 86400),
     ("*/10 9-17 * * mon-fri", 227400), ("0 0 13 * 5", 7 * 86400), ("0,30 * * * ?", 1800), ("0 12 1 JAN *", 366 * 86400)],
)  # fmt: skip
def test_the_longest_pause_of_a_schedule(schedule: str, pause_s: int) -> None:
    assert longest_pause_s(parse(schedule)) == pause_s


def test_an_empty_schedule_is_none() -> None:
    with pytest.raises(ImpossibleSchedule, match="found 0 field"):
        parse("")


def test_a_probe_that_pauses_for_hours_makes_no_alert_that_fires_all_day() -> None:
    limits = alert_limits(prod(*probed("0 3 * * *")).settings)
    assert "idle-probe" not in limits.parts and limits.window_s == 3900


def test_limits_follow_the_stack_file() -> None:
    traffic = {"promptTokens": 8, "outputTokens": 8, "ratePerS": 1, "ttftTargetMs": 700, "itlP99TargetMs": 60}
    limits = alert_limits(prod(("observability", EVERYTHING), ("traffic", traffic), ("gate.limitMs", 55.0)).settings)
    assert (limits.transfer_ms, limits.ttft_ms, limits.itl_p99_ms, limits.window_s) == (55.0, 700, 60, 900)
    assert limits.parts == {"split", "measured", "names-kv", "vllm-router", "idle-probe"}


def test_parts_follow_router_and_connector() -> None:
    rendered = alert_limits(prod(("render.replicas", 1)).settings).parts
    assert "gateway" in rendered and "vllm-router" not in rendered
    assert "measured" not in alert_limits(prod(("connector", {"name": "moriio"})).settings).parts
    store = alert_limits(prod(("connector", {"name": "mooncake-store"})).settings).parts
    assert "measured" in store and "names-kv" not in store
