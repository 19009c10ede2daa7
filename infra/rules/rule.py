"""What a rule is: a pure function of the plan with an id, a severity and a source."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from infra.plan import Plan

Layer = Literal["cluster", "serving", "any"]
"""Which half of a stack a rule is about, where `platform.layers` makes two stacks of it."""
Severity = Literal["error", "warning"]
"""An error stops before anything is created; a warning is shown in the preview."""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong: which key, what is there, what should be, and the way out."""

    key: str
    found: str
    wanted: str
    fix: str = ""
    rule: str = ""
    severity: Severity = "error"

    def __str__(self) -> str:
        way_out = f"; {self.fix}" if self.fix else ""
        return f"{self.key}: found {self.found}, wanted {self.wanted}{way_out} [{self.rule}]"


@dataclass(frozen=True)
class Rule:
    """`what` says in one sentence what holds when the rule is content."""

    id: str
    severity: Severity
    what: str
    source: str
    check: Callable[[Plan], Iterable[Finding]]
    layer: Layer | None = None
    """None: its subject's."""

    def findings(self, plan: Plan) -> list[Finding]:
        return [
            Finding(f.key, f.found, f.wanted, f.fix, self.id, self.severity) for f in dict.fromkeys(self.check(plan))
        ]


def rule(id: str, severity: Severity, what: str, source: str,
         layer: Layer | None = None) -> Callable[[Callable[[Plan], Iterable[Finding]]], Rule]:  # fmt: skip
    """Make a rule of a function from a plan to findings."""

    def make(check: Callable[[Plan], Iterable[Finding]]) -> Rule:
        return Rule(id, severity, what, source, check, layer)

    return make
