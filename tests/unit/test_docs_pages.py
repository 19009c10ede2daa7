"""Pages made from code are those that it makes now; the runbook leaves nothing out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from components.diagnosis.causes import CAUSES, CHECK, GATE
from components.diagnosis.report import Report, read_reports
from components.diagnosis.signatures import SIGNATURES
from components.observability.rules import all_alerts
from infra.rules.all_rules import rules
from policies.all_rules import rules as policies
from tests.unit.plans import ROOT
from tools import pages as pages_file
from tools.pages import PAGES
from tools.picture import PICTURE, SOURCE, draw

RUNBOOK = ROOT / "docs/runbook"
REPORTS = [(subject, report) for subject, reports in read_reports().items() for report in reports]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_its_code_says(name: str) -> None:
    assert (ROOT / "docs" / name).read_text() == PAGES[name](), "run: make pages"


def test_a_page_that_fell_behind_is_written_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages_file, "DOCS", tmp_path)
    monkeypatch.setattr(pages_file, "PAGES", {"one.md": lambda: "new\n", "two.md": lambda: "same\n"})
    (tmp_path / "one.md").write_text("old\n")
    (tmp_path / "two.md").write_text("same\n")
    assert pages_file.write() == ["one.md"] and (tmp_path / "one.md").read_text() == "new\n"


def test_the_picture_is_its_source_s() -> None:
    assert PICTURE.read_text() == draw(yaml.safe_load(SOURCE.read_text())), "run: make pages"


def causes_in(*files: str) -> set[str]:
    """What the code of a verdict gives as causes: the second argument after an outcome, or the kind of a fault."""
    text = "".join((ROOT / file).read_text() for file in files)
    found = re.findall(r'"(?:pass|fail|inconclusive)",\s*"([a-z-]+)"', text) + re.findall(
        r'Fault\(\s*"([a-z-]+)"', text
    )
    return set(found) - {"pass", "fail", "inconclusive"}


def test_every_cause_that_the_gate_or_a_check_gives_is_known_with_its_outcome() -> None:
    gate = causes_in("components/release/verdict.py")
    files = [str(file.relative_to(ROOT)) for file in (ROOT / "components/check").glob("*.py")]
    files.append("infra/commands/check.py")
    assert len(gate) > 20 and gate == {cause.name for cause in GATE}
    assert causes_in(*files) <= {cause.name for cause in CAUSES}
    text = "".join((ROOT / file).read_text() for file in files)
    assert [cause.name for cause in CHECK if f'"{cause.name}"' not in text] == [], "causes that nothing gives"
    for cause in CAUSES:
        assert cause.outcome == "pass" or (cause.look and cause.fix), cause.name


def test_the_runbook_has_an_entry_for_each_cause_alert_and_signature() -> None:
    refused, alerts = (RUNBOOK / "refused.md").read_text(), (RUNBOOK / "alerts.md").read_text()
    for cause in CAUSES:
        assert (f"\n## {cause.name}\n" in refused) == (cause.outcome != "pass"), cause.name
    for alert in all_alerts():
        assert f"[`{alert.full_name}`]" in alerts
    for signature in SIGNATURES:
        assert f"`{signature.text.strip(' ,')}`" in refused, signature.key


def test_lines_of_logs_stand_with_the_causes_that_they_explain() -> None:
    entries = dict(re.findall(r"\n## (\S+)\n(.*?)(?=\n## |\Z)", (RUNBOOK / "refused.md").read_text(), re.DOTALL))
    for signature in SIGNATURES:
        having = {name for name, text in entries.items() if f"`{signature.text.strip(' ,')}`" in text}
        assert having == signature.explains, signature.key


@pytest.mark.parametrize(("subject", "report"), REPORTS, ids=[report.symptom for _, report in REPORTS])
def test_what_catches_a_reported_fault_is_there(subject: str, report: Report) -> None:
    preflight = set(re.findall(r"^\| `([a-z-]+)` \|", (ROOT / "docs/reference/preflight.md").read_text(), re.MULTILINE))
    there = {
        "rule": {rule.id for rule in rules()}, "policy": {rule.name for rule in policies()}, "preflight": preflight,
        "signature": {signature.key for signature in SIGNATURES}, "verdict": {cause.name for cause in CAUSES},
        "alert": {alert.name for alert in all_alerts()},
    }  # fmt: skip
    assert report.caught or report.built, f"{subject}: nothing catches it"
    assert [(kind, name) for kind, name in report.caught.items() if name not in there[kind]] == []
    assert report.built is None or (ROOT / report.built).exists()
    assert report.reports and all(
        "|" not in text for text in (report.symptom, report.evidence, report.cause, report.fix)
    )


def test_no_report_stands_twice_under_one_subject() -> None:
    for reports in read_reports().values():
        assert len({report.symptom for report in reports}) == len(reports)
