"""A stack file's settings, for commands that look at a plan without Pulumi."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from infra.commands.complain import complain
from infra.stack_file import StackFileError, read_values


def stack_file_values(project: Path, stack: str) -> dict[str, Any]:
    """The keys of `stacks/Pulumi.STACK.yaml` without their prefix; complains of a file that is not one."""
    try:
        return read_values(project, stack)
    except StackFileError as error:
        complain(f"--stack: {error}" if error.missing else str(error))
