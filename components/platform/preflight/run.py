"""Run every check at once, each in limited time; whatever goes wrong is an answer, too."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from components.platform.preflight.account import credentials
from components.platform.preflight.all_checks import checks
from components.platform.preflight.answer import Answer, Outcome, unknown, worst
from components.platform.preflight.ask import Ask, Clients, CouldNotAsk, aws_clients
from components.platform.preflight.check import Check, Subject
from components.platform.preflight.wanted import Wanted

CHECK_LIMIT_S = 40.0
"""Longer than one call that fails in all its attempts (ask.ATTEMPTS, ask.READ_LIMIT_S) with its pauses."""


@dataclass(frozen=True)
class Outcomes:
    """All answers, in the order of the checks, and EC2's security groups by tier."""

    answers: tuple[Answer, ...]
    security_groups: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def outcome(self) -> Outcome:
        return worst(self.answers)

    def of(self, outcome: Outcome) -> list[Answer]:
        return [answer for answer in self.answers if answer.outcome == outcome]


def run_checks(wanted: Wanted, clients: Clients | None = None, now: datetime | None = None,
               limit_s: float = CHECK_LIMIT_S) -> Outcomes:  # fmt: skip
    """Ask AWS everything. Raises nothing of AWS's: a question without an answer is `unknown`.

    Without credentials no other question is asked, and each is answered with unknown.
    """
    ask = Ask(wanted, clients or aws_clients(wanted.region), now or datetime.now(UTC))
    first = _answers(ask, [(credentials, subject) for subject in credentials.subjects(wanted)], limit_s, answers_of)
    refused = any(answer.outcome == "fault" for answer in first)
    tasks = [(check, subject) for check in checks() if check is not credentials for subject in check.subjects(wanted)]
    rest = _answers(ask, tasks, limit_s, _not_asked if refused else answers_of)
    return Outcomes((*first, *rest), dict(ask.security_groups))


Task = tuple[Check, Subject]
Answering = Callable[[Ask, Check, Subject], list[Answer]]


def _answers(ask: Ask, tasks: list[Task], limit_s: float, answering: Answering) -> list[Answer]:
    """A thread a task, so that none waits for another and the limit is each one's own."""
    if not tasks:
        return []
    pool = ThreadPoolExecutor(max_workers=len(tasks), thread_name_prefix="preflight")
    futures = [pool.submit(answering, ask, check, subject) for check, subject in tasks]
    wait(futures, timeout=limit_s)
    pool.shutdown(wait=False, cancel_futures=True)
    return [answer for future, task in zip(futures, tasks, strict=True) for answer in _named(future, task, limit_s)]


def _named(future: Future[list[Answer]], task: Task, limit_s: float) -> Iterable[Answer]:
    check, subject = task
    late = [unknown(subject.key, f"no answer within {limit_s:g} s", check.what)]
    answers = future.result() if future.done() and not future.cancelled() else late
    return [replace(answer, check=check.id) for answer in answers]


def answers_of(ask: Ask, check: Check, subject: Subject) -> list[Answer]:
    """A check's answers; none at all is `unknown`, as is an answer of AWS's that the check can't read."""
    try:
        answers = list(check.ask(ask, subject))
    except CouldNotAsk as error:
        return [unknown(subject.key, error.text, fix=error.fix)]
    except Exception as error:
        return [unknown(subject.key, f"could not be judged: {type(error).__name__}: {error}")]
    return answers or [unknown(subject.key, "the check gave no answer")]


def _not_asked(ask: Ask, check: Check, subject: Subject) -> list[Answer]:
    """What needs no credentials is answered all the same."""
    if not check.actions:
        return answers_of(ask, check, subject)
    return [unknown(subject.key, "not asked: no credentials")]
