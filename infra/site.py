"""Who declares a stack's resources: the stack's own program, or a component of the package in somebody else's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pulumi

from components.release.kinds import DYNAMIC, Kinds


@dataclass(frozen=True)
class Site:
    """`project` is the folder that paths of settings start from, `where` names the settings in messages, `owner`
    marks the namespace. Everything is declared below `parent`, which is the stack itself for the program."""

    project: Path
    where: str
    owner: str
    stack: str
    parent: pulumi.Resource | None = None
    kinds: Kinds = DYNAMIC
