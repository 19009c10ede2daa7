"""What an alert is: an expression over real traffic, and what whoever is woken by it needs to know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from components.observability.limits import AlertLimits, Part

Severity = Literal["critical", "warning"]
"""Critical: clients pay for it now, or would without a sign; a warning can wait for the morning."""
PREFIX = "Splitserve"
PAGE = "docs/reference/alerts.md"


@dataclass(frozen=True)
class Alert:
    """`name` without its prefix. `expr` makes the expression from the limits; `for_s` is how long it must hold.

    `summary` is Prometheus' template for one line; `means`, `evidence` and `fix` are plain words. `verdicts` are the
    gate's causes that say the same of a release (docs/reference/verdicts.md). `needs`: the parts that the stack must
    have for it to say anything.
    """

    name: str
    severity: Severity
    for_s: int
    expr: Callable[[AlertLimits], str]
    summary: str
    means: str
    evidence: str
    fix: str
    verdicts: tuple[str, ...] = ()
    needs: frozenset[Part] = frozenset()

    @property
    def full_name(self) -> str:
        return f"{PREFIX}{self.name}"

    @property
    def anchor(self) -> str:
        return f"{PAGE}#{self.full_name.lower()}"
