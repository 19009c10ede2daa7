"""The list of all rules, and what they say of a plan."""

from __future__ import annotations

from types import ModuleType

from infra.plan import Plan
from infra.rules import (
    addons,
    autoscale,
    chat,
    connector,
    edge,
    encoder,
    groups,
    layers,
    model,
    network,
    nodes,
    observability,
    operation,
    parity,
    pods,
)
from infra.rules.rule import Finding, Layer, Rule

SUBJECTS: dict[ModuleType, Layer] = {
    parity: "serving", connector: "serving", pods: "serving", nodes: "any", network: "cluster", addons: "cluster",
    edge: "serving", chat: "serving", encoder: "serving", model: "serving", operation: "serving", autoscale: "serving",
    observability: "serving", groups: "serving", layers: "any",
}  # fmt: skip
"""In the order of docs/reference/rules.md, each with the layer that its rules are about."""


def rules() -> list[Rule]:
    """Every rule, by subject in the order of its file."""
    return [found for subject in SUBJECTS for found in of_subject(subject)]


def of_subject(subject: ModuleType) -> list[Rule]:
    return [value for value in vars(subject).values() if isinstance(value, Rule)]


def _applying(plan: Plan) -> list[Rule]:
    """The rules about the layers that a stack has."""
    wanted = plan.settings.platform.layers
    return [
        found
        for subject, layer in SUBJECTS.items()
        for found in of_subject(subject)
        if wanted == "all" or (found.layer or layer) in ("any", wanted)
    ]


def check(plan: Plan) -> list[Finding]:
    """Everything that the rules find, errors first."""
    found = [finding for rule in _applying(plan) for finding in rule.findings(plan)]
    return sorted(found, key=lambda finding: finding.severity != "error")
