"""Which stacks are production: what they must hold to is advice elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterable

from policies.rule import Setting

PRODUCTION_STACKS = Setting(
    "productionStacks", ["prod"], "stacks whose name is, starts with or, after a separator, ends with one of these"
)


def is_production(stack: str, names: Iterable[str]) -> bool:
    """`prod`, `production`, `prod-eu` and `eu-prod` are; `nonprod` and `dev` are not."""
    last = re.split(r"[^A-Za-z0-9]", stack)[-1]
    return any(stack.startswith(name) or last == name for name in names)
