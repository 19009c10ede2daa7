"""Which stacks a change touches, from the paths that it changes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from infra.stack_file import stack_of

PROGRAM = ("infra/", "components/", "policies/", "pyproject.toml", "uv.lock", "Pulumi.yaml")
"""What every stack is made by: a change of it may change each of them."""


@dataclass(frozen=True)
class Touched:
    """Stacks that a change may change, and stacks whose file it deletes, each sorted."""

    changed: tuple[str, ...]
    deleted: tuple[str, ...]


def touched(paths: Iterable[str], stacks: Mapping[str, Any], before: Iterable[str]) -> Touched:
    """`stacks`: each stack's file as it is now, by the stack's name. `before`: the stacks that the base has.

    A stack is touched by its own file, by the program, and by every file or folder that its file names.
    """
    changed = set(paths)
    by_program = any(path.startswith(PROGRAM) for path in changed)
    own = {stack_of(path) for path in changed}
    found = [name for name, content in stacks.items() if by_program or name in own or _names(content, changed)]
    return Touched(tuple(sorted(found)), tuple(sorted(set(before) - set(stacks))))


def _names(content: Any, changed: set[str]) -> bool:
    """Whether a stack file has the path of a changed file, or of a folder that it is in, as a value."""
    if isinstance(content, dict):
        return any(_names(value, changed) for value in content.values())
    if isinstance(content, list):
        return any(_names(value, changed) for value in content)
    if not isinstance(content, str) or not content:
        return False
    path = content.removeprefix("./").rstrip("/")
    return any(one == path or one.startswith(f"{path}/") for one in changed)
