"""Rules and dashboard name only series that somebody exports; the pages made from them are up to date.

That each alert fires and resolves is tests/engine/test_alerts_run.py's to show.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from components.observability import alert_page, recording
from components.observability.dashboard import dashboard_json
from components.observability.limits import PARTS, AlertLimits, duration, window_for
from components.observability.rules import all_alerts, rules_file
from components.observability.targets import POD_LABELS
from components.observability.transfer_series import selected, transfer_series
from components.serving.connectors.profiles import PROFILES
from tests.unit.exported_series import PAGES, exported, labels_of_page
from tests.unit.plans import ROOT

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
STRING = re.compile(r'"[^"]*"')
GROUPING = re.compile(r"\b(?:by|on|ignoring|group_left|group_right|without)\s*\([^)]*\)")
SELECTOR = re.compile(r"\{[^}]*\}")
RANGE = re.compile(r"\[[^\]]*\]")
LANGUAGE = {
    "sum", "max", "min", "avg", "rate", "increase", "histogram_quantile", "absent", "avg_over_time", "max_over_time", "and", "or", "on",
}  # fmt: skip
MATCHER = re.compile(r"([a-zA-Z_:][\w:]*)\{([^}]*)\}")
LIMITS = AlertLimits()


def series_in(expr: str) -> set[str]:
    """The names of series in an expression: what is left without strings, labels, ranges and words of the language."""
    text = expr
    for pattern in (SELECTOR, GROUPING, RANGE, STRING):
        text = pattern.sub(" ", text)
    return {name for name in NAME.findall(text) if name not in LANGUAGE}


def expressions() -> Iterator[str]:
    for group in rules_file(LIMITS)["groups"]:
        yield from (rule["expr"] for rule in group["rules"])
    for panel in json.loads(dashboard_json(LIMITS))["panels"]:
        yield from (target["expr"] for target in panel.get("targets") or [])


EXPRESSIONS = sorted(set(expressions()))
RECORDED = {rule.record for rule in recording.recordings(LIMITS)}


@pytest.mark.parametrize("expr", EXPRESSIONS)
def test_every_series_is_exported_by_somebody(expr: str) -> None:
    named = series_in(expr)
    assert named, "an expression without a series says nothing"
    assert named - exported() - RECORDED == set()


def test_a_series_that_nobody_exports_would_be_found() -> None:
    found = series_in('sum by (pod) (rate(vllm:kv_moved_total{a="b"}[5m])) > 0 and on (pod) up == 1')
    assert found == {"vllm:kv_moved_total", "up"}
    assert "vllm:kv_moved_total" not in exported()


@pytest.mark.parametrize("expr", EXPRESSIONS)
def test_every_label_that_selects_is_one_of_the_series_with_that_value(expr: str) -> None:
    """Labels of ours come with the scrape; of others' each must be on a recorded page, by name and value."""
    pages = [labels_of_page(page.read_text()) for page in PAGES]
    for series, inside in MATCHER.findall(expr):
        for label, sign, value in re.findall(r'(\w+)(=~|=|!=)"([^"]*)"', inside):
            if label in ("namespace", *POD_LABELS) or series in RECORDED or series.startswith("splitserve_gateway_"):
                continue
            if not any(series in page for page in pages):
                continue  # A family that has no sample before its first use.
            values = set().union(*(page[series].get(label, set()) for page in pages if series in page))
            assert value in values, f"{series}: {label}{sign}{value!r}, of {sorted(values)}"


def test_every_connector_with_series_has_them_watched() -> None:
    watched = {part for one in transfer_series() for part in (one.seconds_sum, one.count, one.bytes_sum, one.failed)}
    for profile in PROFILES.values():
        if profile.measurement.unmeasured is None:
            for key in {"ms", "transfers", "bytes", "failed"} & profile.measurement.series.keys():
                assert profile.measurement.series[key].name in watched, profile.name


def test_no_two_alerts_have_one_name_and_each_says_what_to_do() -> None:
    alerts = all_alerts()
    assert len({alert.name for alert in alerts}) == len(alerts)
    for alert in alerts:
        assert alert.means and alert.evidence and alert.fix, alert.name
        assert alert.needs <= PARTS


def test_an_alert_stays_away_where_its_part_is_not_there() -> None:
    def named(**limits: Any) -> set[str]:
        groups = rules_file(AlertLimits(**limits))["groups"]
        return {rule["alert"] for group in groups for rule in group["rules"] if "alert" in rule}

    collocated = named(parts=frozenset({"vllm-router"}))
    assert "SplitserveRouterCircuitOpen" in collocated and "SplitserveKvNotMoved" not in collocated
    store = named(parts=frozenset({"split", "measured", "gateway"}))
    assert "SplitserveGatewayPrefillWithoutKv" not in store, "its prefillers name nothing, and that is no fault"
    assert "SplitserveKvPathUnproved" not in store, "without the idle probe, no traffic is no fault"


def test_limits_are_those_of_the_gate() -> None:
    text = json.dumps(rules_file(AlertLimits(transfer_ms=42.0)))
    assert "pod:splitserve_kv_transfer_seconds:mean > 0.042" in text
    steps = [
        panel["fieldConfig"]["defaults"]["thresholds"]["steps"][1]["value"]
        for panel in json.loads(dashboard_json(AlertLimits(transfer_ms=42.0)))["panels"]
        if panel["title"].startswith("KV transfer")
    ]
    assert steps == [42.0, 42.0]


def test_the_dashboard_begins_with_the_kv_path_and_is_the_same_each_time() -> None:
    text = dashboard_json(LIMITS)
    panels = json.loads(text)["panels"]
    assert [panel["title"] for panel in panels[:2]] == ["KV path", "KV transfer, mean"]
    assert text == dashboard_json(LIMITS)
    assert all(panel["targets"] for panel in panels if panel["type"] == "timeseries")


def test_windows_hold_the_idle_probes_samples() -> None:
    assert (window_for(None), window_for(600), window_for(60), window_for(10**6)) == (300, 900, 360, 3900)
    assert [duration(seconds) for seconds in (0, 90, 120, 7200)] == ["0s", "90s", "2m", "2h"]


def test_matchers_are_added_to_a_series_that_has_some() -> None:
    assert selected("a") == "a"
    assert selected("a", 'b="1"') == 'a{b="1"}'
    assert selected('a{b="1"}', 'c="2"') == 'a{b="1",c="2"}'


def test_every_cause_that_an_alert_names_is_a_verdict() -> None:
    verdicts = (ROOT / "docs/reference/verdicts.md").read_text()
    for alert in all_alerts():
        for cause in alert.verdicts:
            assert f"`{cause}`" in verdicts, f"{alert.name}: {cause}"


def test_the_page_in_the_docs_is_made_from_the_code() -> None:
    assert (ROOT / "docs/reference/alerts.md").read_text() == alert_page.page(), (
        "write what `python -m components.observability.alert_page` prints to docs/reference/alerts.md"
    )
