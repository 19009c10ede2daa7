"""The list of all rules, and what they say of a plan."""

from __future__ import annotations

from types import ModuleType

from infra.plan import Plan
from infra.rules import addons, connector, model, network, nodes, operation, parity, pods
from infra.rules.rule import Finding, Rule

SUBJECTS: tuple[ModuleType, ...] = (parity, connector, pods, nodes, network, addons, model, operation)


def rules() -> list[Rule]:
    """Every rule, by subject in the order of its file."""
    return [value for subject in SUBJECTS for value in vars(subject).values() if isinstance(value, Rule)]


def check(plan: Plan) -> list[Finding]:
    """Everything that the rules find, errors first."""
    found = [finding for rule in rules() for finding in rule.findings(plan)]
    return sorted(found, key=lambda finding: finding.severity != "error")
