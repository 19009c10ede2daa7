"""The list of all rules, by subject in the order of its file."""

from __future__ import annotations

from types import ModuleType

from policies import balancer, cluster, cost, data, network, nodes, pods
from policies.rule import Rule

SUBJECTS: tuple[ModuleType, ...] = (network, nodes, data, cluster, pods, balancer, cost)


def rules_of(subject: ModuleType) -> list[Rule]:
    return [value for value in vars(subject).values() if isinstance(value, Rule)]


def rules() -> list[Rule]:
    return [rule for subject in SUBJECTS for rule in rules_of(subject)]
