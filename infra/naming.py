"""Names that more than one file must spell the same: project, namespace owner, config prefix."""

from __future__ import annotations

PROJECT = "splitserve"
CONFIG_PREFIX = f"{PROJECT}:"


def owner(organization: str, stack: str) -> str:
    """The label value by which a namespace says which stack it belongs to (63 characters at most)."""
    return f"{organization}.{PROJECT}.{stack}"[:63].rstrip(".-_")
