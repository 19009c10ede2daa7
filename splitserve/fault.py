"""The one exception of the reader: which stack, what was found and wanted, and the way out."""

from __future__ import annotations

from typing import Literal

Problem = Literal[
    "unreadable", "not up", "not a serving stack", "older contract", "newer contract", "malformed", "no live release",
    "not passed",
]  # fmt: skip
"""`unreadable`: the stack is not there, or may not be read. `not passed` is raised by `require_passed` alone."""


class OutputsError(Exception):
    """A stack's outputs that can't be used. `where` is the stack's name as it was given."""

    def __init__(self, problem: Problem, where: str, found: str, wanted: str, way_out: str) -> None:
        self.problem, self.where, self.found, self.wanted, self.way_out = problem, where, found, wanted, way_out
        super().__init__(
            f"stack {where}: {problem}\n  found:   {found}\n  wanted:  {wanted}\n  way out: {way_out}"
        )  # fmt: skip
