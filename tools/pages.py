"""Every page of docs/ that is made from code: `python -m tools.pages` writes them all anew.

A test holds each against its code (tests/unit/test_docs_pages.py).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from components.diagnosis.table import signature_table
from components.diagnosis.verdict_page import verdict_page
from components.existing.rights import page as rights_page
from components.nodes.names import PLUGINS
from components.nodes.table import plugin_table
from components.observability import alert_page
from components.serving.connectors.table import connector_table
from infra.commands.preflight import page as preflight_page
from infra.outputs_table import outputs_table
from infra.rules.rule_table import rule_table
from infra.schema.settings_table import settings_table
from infra.settings import Settings
from policies.table import policy_table
from tools.runbook import alerts_page, refused_page, reports_page

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES: dict[str, Callable[[], str]] = {
    "reference/alerts.md": alert_page.page,
    "reference/connectors.md": connector_table,
    "reference/node-plugins.md": plugin_table,
    "reference/outputs.md": outputs_table,
    "reference/policies.md": policy_table,
    "reference/preflight.md": preflight_page,
    "reference/rights.md": lambda: rights_page(frozenset(PLUGINS)),
    "reference/rules.md": rule_table,
    "reference/settings.md": lambda: settings_table(Settings),
    "reference/signatures.md": signature_table,
    "reference/verdicts.md": verdict_page,
    "runbook/alerts.md": alerts_page,
    "runbook/refused.md": refused_page,
    "runbook/reports.md": reports_page,
}


def write() -> list[str]:
    """Write every page that is not what its code says. Returns their names."""
    changed = []
    for name, page in PAGES.items():
        file, text = DOCS / name, page()
        if not file.exists() or file.read_text() != text:
            file.write_text(text)
            changed.append(name)
    return changed


if __name__ == "__main__":
    print("\n".join(write()) or "every page is up to date")
