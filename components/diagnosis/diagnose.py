"""Find signatures in texts, and keep those that explain a verdict. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from components.diagnosis.signature import Signature
from components.diagnosis.signatures import SIGNATURES

LONGEST_LINE = 300
ORDER = {signature.key: number for number, signature in enumerate(SIGNATURES)}


@dataclass(frozen=True)
class Clue:
    """`where` (a pod, a log, an event) printed `line`, `count` times in all; what it means and the way out."""

    key: str
    where: str
    line: str
    count: int
    means: str
    fix: str


class Clues:
    """What was found so far, whatever it explains."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], tuple[Signature, Clue]] = {}

    def read(self, where: str, lines: Iterable[str]) -> Iterator[str]:
        """The lines as they come, looked at on their way."""
        for line in lines:
            for signature in SIGNATURES:
                if signature.text in line:
                    self._add(signature, where, line)
            yield line

    def _add(self, signature: Signature, where: str, line: str) -> None:
        known = self._found.get((where, signature.key))
        if known:
            self._found[where, signature.key] = (signature, replace(known[1], count=known[1].count + 1))
            return
        clue = Clue(signature.key, where, _around(line.strip(), signature.text), 1, signature.means, signature.fix)
        self._found[where, signature.key] = (signature, clue)

    def explaining(self, cause: str) -> tuple[Clue, ...]:
        """Those that explain a verdict's cause, the likeliest root first; a line that explains another is no clue."""
        clues = [clue for signature, clue in self._found.values() if cause in signature.explains]
        return tuple(sorted(clues, key=lambda clue: (ORDER[clue.key], clue.where)))


def diagnose(cause: str, texts: Mapping[str, str]) -> tuple[Clue, ...]:
    """Clues to a verdict's cause in texts by name."""
    clues = Clues()
    for where, text in texts.items():
        for _ in clues.read(where, text.splitlines()):
            pass
    return clues.explaining(cause)


def _around(line: str, text: str) -> str:
    """The part of a long line that holds the text."""
    if len(line) <= LONGEST_LINE:
        return line
    at = line.index(text)
    start = max(0, min(at - LONGEST_LINE // 3, len(line) - LONGEST_LINE))
    return line[start : start + LONGEST_LINE]
