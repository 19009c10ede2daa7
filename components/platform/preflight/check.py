"""What a check is: a question about each of its subjects, with the IAM actions that it needs and its source."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from components.platform.preflight.answer import Answer
from components.platform.preflight.ask import Ask
from components.platform.preflight.wanted import Wanted, WantedGroup


@dataclass(frozen=True)
class Subject:
    """What a check is asked about; `thing` is a node group, a zone, a quota, … as the check has it."""

    key: str
    thing: Any = None


@dataclass(frozen=True)
class Check:
    """`what` says in one sentence what holds when all is well."""

    id: str
    what: str
    actions: tuple[str, ...]
    source: str
    subjects: Callable[[Wanted], Iterable[Subject]]
    ask: Callable[[Ask, Subject], Iterable[Answer]]


def check(id: str, what: str, actions: tuple[str, ...], source: str,
          subjects: Callable[[Wanted], Iterable[Subject]]) -> Callable[[Callable[[Ask, Subject], Iterable[Answer]]], Check]:  # fmt: skip
    """Make a check of a function that asks about one subject."""

    def make(ask: Callable[[Ask, Subject], Iterable[Answer]]) -> Check:
        return Check(id, what, actions, source, subjects, ask)

    return make


def once(key: str) -> Callable[[Wanted], Iterable[Subject]]:
    """A check of one subject, whatever is wanted."""
    return lambda wanted: [Subject(key)]


def each_group(setting: str, where: Callable[[WantedGroup], Any] = lambda group: True) -> Callable[[Wanted], Iterable[Subject]]:  # fmt: skip
    """A check of node groups; the key is the group's with `setting` behind it."""

    def subjects(wanted: Wanted) -> Iterable[Subject]:
        return [Subject(f"{group.key}.{setting}", group) for group in wanted.groups if where(group)]

    return subjects
