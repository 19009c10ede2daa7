"""What a check answers of one subject: fine, wrong, or could not be checked. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Outcome = Literal["ok", "fault", "unknown"]
"""`unknown`: AWS could not be asked, or did not say. Never taken for ok."""


@dataclass(frozen=True)
class Answer:
    """`key` is the setting that it is about, `fix` the way out. The runner fills in `check`."""

    outcome: Outcome
    key: str
    found: str
    wanted: str = ""
    fix: str = ""
    check: str = ""

    def __str__(self) -> str:
        wanted = f", wanted {self.wanted}" if self.wanted else ""
        way_out = f"; {self.fix}" if self.fix else ""
        return f"{self.key}: found {self.found}{wanted}{way_out} [{self.check}]"


def ok(key: str, found: str, wanted: str = "") -> Answer:
    return Answer("ok", key, found, wanted)


def fault(key: str, found: str, wanted: str, fix: str = "") -> Answer:
    return Answer("fault", key, found, wanted, fix)


def unknown(key: str, found: str, wanted: str = "", fix: str = "") -> Answer:
    return Answer("unknown", key, found, wanted, fix)


def worst(answers: Iterable[Answer]) -> Outcome:
    """`fault` before `unknown` before `ok`; no answer at all is `unknown`."""
    outcomes = {answer.outcome for answer in answers}
    if "fault" in outcomes:
        return "fault"
    return "ok" if outcomes == {"ok"} else "unknown"
