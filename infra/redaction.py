"""Keep secrets out of what is published: which texts of a preview are secret, and text without them.

Pulumi writes `[secret]` in place of a secret value in its events, and in other places an object with a
signature (pulumi 3.274, sdk/go/common/resource/sig). A value that is secret in one state of a resource is
secret in all of them: a message may repeat it from a state in which nobody had marked it yet.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

SECRET = "[secret]"
SIGNATURE_KEY = "4dabf18193072939515e22adb298388d"
SECRET_SIGNATURE = "1b47061264138c4ac30d75fd1eb44270"
SHORTEST = 4
"""Shorter texts are no secrets, and are in too many words."""
SHORTEST_LINE = 12
"""Of a secret of several lines, a line as long as this is secret by itself."""
CREDENTIALS = ("_TOKEN", "_KEY", "_SECRET", "_PASSPHRASE", "_PASSWORD", "_CREDENTIALS")
"""How the names of variables with credentials end: AWS_SECRET_ACCESS_KEY, PULUMI_ACCESS_TOKEN, …"""
SHORTEST_CREDENTIAL = 8


def secret_texts(states: Sequence[Any]) -> Iterator[str]:
    """The texts that are secret in one of several states of the same thing, wherever they stand in the others."""
    if any(_is_secret(state) for state in states):
        for state in states:
            yield from _texts(state)
        return
    mappings = [state for state in states if isinstance(state, Mapping)]
    for key in {key for mapping in mappings for key in mapping}:
        yield from secret_texts([mapping[key] for mapping in mappings if key in mapping])
    lists = [state for state in states if isinstance(state, list)]
    for index in range(max(map(len, lists), default=0)):
        yield from secret_texts([values[index] for values in lists if index < len(values)])


def credentials(environment: Mapping[str, str]) -> Iterator[str]:
    """The values of variables that hold credentials, by their names."""
    for name, value in environment.items():
        if name.upper().endswith(CREDENTIALS) and len(value) >= SHORTEST_CREDENTIAL:
            yield value


class Redaction:
    """Text with `[secret]` in place of each of some texts, the longest first."""

    def __init__(self, secrets: Iterable[str]) -> None:
        parts = {part for secret in secrets for part in _parts(secret)}
        self._secrets = sorted(parts, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, SECRET)
        return text


def _is_secret(value: Any) -> bool:
    return value == SECRET or (isinstance(value, Mapping) and value.get(SIGNATURE_KEY) == SECRET_SIGNATURE)


def _texts(value: Any) -> Iterator[str]:
    """Every text and number of a secret value; what is plain in its wrapping is JSON."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key != SIGNATURE_KEY:
                yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
    elif isinstance(value, str):
        yield value
        yield from _decoded(value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)


def _decoded(text: str) -> Iterator[str]:
    if text[:1] in ('"', "{", "["):
        try:
            yield from _texts(json.loads(text))
        except ValueError:
            return


def _parts(secret: str) -> Iterator[str]:
    whole = secret.strip()
    if len(whole) >= SHORTEST and whole != SECRET:
        yield whole
        yield from (line.strip() for line in whole.splitlines()[1:] if len(line.strip()) >= SHORTEST_LINE)
        yield from (line.strip() for line in whole.splitlines()[:1] if len(line.strip()) >= SHORTEST_LINE)
