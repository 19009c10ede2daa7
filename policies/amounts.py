"""Whole numbers and yes-or-no as Pulumi's properties carry them: 3.0, "3", "true"."""

from __future__ import annotations

from typing import Any


def whole(value: Any) -> int:
    """Zero where nothing is given."""
    return int(float(value)) if value not in (None, "") else 0


def yes(value: Any) -> bool:
    return str(value).lower() == "true"
