"""Which prefill pod is measured with which decode pod. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

MAX_PAIRS = 16
"""Pairs probed at most: every pod is covered, in as few pairs as that takes."""

T = TypeVar("T")


def cover(left: Sequence[T], right: Sequence[T]) -> list[tuple[T, T]]:
    """Pairs in which every pod of both lists occurs: as many as the longer list has."""
    if not left or not right:
        return []
    count = max(len(left), len(right))
    return [(left[i % len(left)], right[i % len(right)]) for i in range(count)][:MAX_PAIRS]
