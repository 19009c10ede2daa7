"""The gateway as one file, for a ConfigMap. Not part of it: the deployment calls it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from components.program import program


@cache
def packed() -> bytes:
    """`gateway.pyz`: run by `python3 gateway.pyz`."""
    return program(Path(__file__).parent, "main")
