"""Faults that others reported, from docs/runbook/reports.yaml, and what of this project knows each of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).resolve().parents[2] / "docs/runbook/reports.yaml"


@dataclass(frozen=True)
class Report:
    """`caught`: by kind (rule, policy, preflight, signature, verdict, alert) the name of what finds it; `built`: the file
    that makes it impossible. One of them at least is there."""

    symptom: str
    evidence: str
    cause: str
    fix: str
    reports: tuple[str, ...]
    caught: Mapping[str, str] = field(default_factory=dict)
    built: str | None = None


def read_reports(path: Path = FILE) -> dict[str, tuple[Report, ...]]:
    """The reports by subject, in order."""
    content: dict[str, list[dict[str, Any]]] = yaml.safe_load(path.read_text())
    return {
        subject: tuple(Report(**{**entry, "reports": tuple(entry["reports"])}) for entry in entries)
        for subject, entries in content.items()
    }
