"""Typed fields of plain data: what is wrong is noted, not raised, so that all of it is said at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from splitserve.contract import SECRET

LONGEST_MS = 1e12
"""Thirty years; no update waits as long."""
SHOWN = 60
"""Characters of a wrong value that a message shows."""


class Fields:
    """A mapping's fields by name. A wrong one gives an empty value of its type, and a line in `faults`."""

    def __init__(self, content: Mapping[str, Any], prefix: str = "", faults: list[str] | None = None) -> None:
        self.content = content
        self.faults: list[str] = [] if faults is None else faults
        self._prefix = prefix

    def text(self, name: str, *, empty: bool = False) -> str:
        value = self.content.get(name)
        if isinstance(value, str) and value != SECRET and (empty or value):
            return value
        return self._wrong(name, "a text", "")

    def one_of(self, name: str, words: Sequence[str]) -> str:
        value = self.content.get(name)
        return value if isinstance(value, str) and value in words else self._wrong(name, " or ".join(words), words[0])

    def address(self, name: str) -> str:
        value = self.content.get(name)
        if isinstance(value, str) and value.startswith(("http://", "https://")):
            return value
        return self._wrong(name, "an address that begins with http:// or https://", "")

    def milliseconds(self, name: str) -> float | None:
        """None where there is none."""
        value = self.content.get(name)
        if value is None:
            return None
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= LONGEST_MS:
            return float(value)
        return self._wrong(name, "a number of milliseconds", None)

    def mapping(self, name: str) -> Fields:
        """An object, which may be empty."""
        value = self.content.get(name)
        if not isinstance(value, Mapping):
            value = self._wrong(name, "an object", {})
        return Fields(value, f"{self._prefix}{name}.", self.faults)

    def optional(self, name: str) -> Fields | None:
        """An object; None where there is none, or nothing in it."""
        return None if self.content.get(name) in (None, {}) else self.mapping(name)

    def _wrong(self, name: str, wanted: str, instead: Any) -> Any:
        self.faults.append(f"{self._prefix}{name}: {told(self.content.get(name))}, wanted {wanted}")
        return instead


def told(value: object) -> str:
    """A wrong value in words."""
    if value is None:
        return "nothing"
    if value == SECRET:
        return "a secret"
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
