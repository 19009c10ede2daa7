"""The list of all checks, by subject."""

from __future__ import annotations

from types import ModuleType

from components.platform.preflight import (
    account,
    addresses,
    capacity,
    images,
    interfaces,
    quotas,
    security_groups,
    zones,
)
from components.platform.preflight.check import Check

SUBJECTS: tuple[ModuleType, ...] = (account, zones, interfaces, quotas, capacity, images, addresses, security_groups)


def checks() -> list[Check]:
    """Every check, by subject in the order of its file."""
    return [value for subject in SUBJECTS for value in vars(subject).values() if isinstance(value, Check)]


def iam_actions() -> list[str]:
    """The IAM actions of all checks."""
    return sorted({action for check in checks() for action in check.actions})
