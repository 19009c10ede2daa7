"""Values that a preview can't know yet.

Reading one raises UnknownValueError, and the engine then tells that the rule could not run
(pulumi_policy 1.21, policy.py: an advisory notice, no violation). An update reads the same inputs
resolved, so nothing passes unseen. What is here lets a rule go on to everything that it can judge, and
raises the first unknown value when all else is said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from pulumi_policy.proxy import UnknownValueError

T = TypeVar("T")


def independently(parts: Iterable[Iterable[T]]) -> Iterator[T]:
    """What all parts yield; a part that meets an unknown value ends there, and the others go on."""
    unknown: UnknownValueError | None = None
    for part in parts:
        try:
            yield from part
        except UnknownValueError as error:
            unknown = unknown or error
    if unknown:
        raise unknown


def some(tests: Iterable[Callable[[], bool]]) -> bool:
    """Whether a test holds. Where none does and one met an unknown value, that is raised."""
    unknown: UnknownValueError | None = None
    for test in tests:
        try:
            if test():
                return True
        except UnknownValueError as error:
            unknown = unknown or error
    if unknown:
        raise unknown
    return False


def known(read: Callable[[], T]) -> T | None:
    """The value, None while it is unknown."""
    try:
        return read()
    except UnknownValueError:
        return None
