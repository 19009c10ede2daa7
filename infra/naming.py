"""Names that more than one file must spell the same: project, namespace owner, config prefix."""

from __future__ import annotations

import hashlib

PROJECT = "splitserve"
CONFIG_PREFIX = f"{PROJECT}:"
LONGEST_LABEL = 63
DIGEST = 8


def owner(organization: str, stack: str) -> str:
    """The label value by which a namespace says which stack it belongs to (63 characters at most)."""
    return f"{organization}.{PROJECT}.{stack}"[:LONGEST_LABEL].rstrip(".-_")


def owner_of(*parts: str) -> str:
    """The same for a component of somebody's stack, whose names are anything; a hash tells those too long apart."""
    whole = ".".join(parts)
    if len(whole) <= LONGEST_LABEL:
        return whole.rstrip(".-_")
    digest = hashlib.sha256(whole.encode()).hexdigest()[:DIGEST]
    return f"{whole[: LONGEST_LABEL - DIGEST - 1].rstrip('.-_')}.{digest}"
