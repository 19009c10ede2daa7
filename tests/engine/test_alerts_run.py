"""Prometheus' own promtool reads the rules, and every alert fires and resolves on the series that should make it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.observability.limits import AlertLimits
from components.observability.rules import all_alerts, rules_file
from tests.engine.alert_scenarios import SCENARIOS, Scenario
from tools.cache import cache

LIMITS = AlertLimits()
NEVER_RESOLVES = 120
"""The minute of a scenario whose series stay as they are."""


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    program = cache().prometheus / "promtool"
    assert program.exists(), f"no {program}: run `make start` first"
    return subprocess.run([program, *arguments], capture_output=True, text=True)


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rules") / "splitserve.yaml"
    path.write_text(yaml.safe_dump(rules_file(LIMITS), sort_keys=False))
    return path


def test_promtool_reads_every_rule(rules: Path) -> None:
    done = promtool("check", "rules", "--lint=all", "--lint-fatal", rules)
    assert done.returncode == 0, done.stderr
    assert f"{sum(len(group['rules']) for group in rules_file(LIMITS)['groups'])} rules found" in done.stdout


def firing(scenario: Scenario) -> str:
    wanted = {"alertname": f"Splitserve{scenario.alert}", "alertstate": "firing"} | scenario.labels
    return f"count(ALERTS{{{','.join(f'{name}={json.dumps(value)}' for name, value in wanted.items())}}})"


def promtool_test(scenario: Scenario, rules: Path) -> dict[str, Any]:
    """promtool's own test: one alert firing at one minute, none at the other."""
    expected = [{"expr": firing(scenario), "eval_time": f"{scenario.resolves}m", "exp_samples": []}]
    if scenario.resolves == NEVER_RESOLVES:
        expected = []
    if scenario.fires is not None:
        fired = [{"labels": "{}", "value": 1}]
        expected.append({"expr": firing(scenario), "eval_time": f"{scenario.fires}m", "exp_samples": fired})
    series = [{"series": name, "values": values} for name, values in scenario.series.items()]
    test = {"interval": "1m", "input_series": series, "promql_expr_test": expected}
    return {"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": [test]}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: f"{scenario.alert}: {scenario.name}")
def test_it_fires_and_resolves(scenario: Scenario, rules: Path, tmp_path: Path) -> None:
    path = tmp_path / "test.yaml"
    path.write_text(yaml.safe_dump(promtool_test(scenario, rules)))
    done = promtool("test", "rules", path)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def test_every_alert_has_been_seen_to_fire() -> None:
    fired = {scenario.alert for scenario in SCENARIOS if scenario.fires is not None}
    assert fired == {alert.name for alert in all_alerts()}
