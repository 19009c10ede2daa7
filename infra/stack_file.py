"""A stack file's keys, without their prefix, or one message that says why there are none."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from infra.stack_values import stack_values

FOLDER = "stacks"
"""Below the project's folder; Pulumi.yaml's `stackConfigDir`."""
NAME = re.compile(r"Pulumi\.(?P<stack>[A-Za-z0-9_.-]+)\.yaml")


class StackFileError(ValueError):
    """There is no such stack file, or it holds no settings. `missing` tells the two apart."""

    def __init__(self, message: str, missing: bool = False) -> None:
        super().__init__(message)
        self.missing = missing


def stack_file(project: Path, stack: str) -> Path:
    return project / FOLDER / f"Pulumi.{stack}.yaml"


def stack_of(path: str) -> str | None:
    """The stack whose file this is (`stacks/Pulumi.<name>.yaml`), if it is one's."""
    folder, _, name = path.rpartition("/")
    found = NAME.fullmatch(name)
    return found["stack"] if found and folder == FOLDER else None


def known_stacks(project: Path) -> list[str]:
    """The stacks that have a file, sorted."""
    found = (stack_of(f"{FOLDER}/{path.name}") for path in (project / FOLDER).glob("Pulumi.*.yaml"))
    return sorted(stack for stack in found if stack)


def read_values(project: Path, stack: str) -> dict[str, Any]:
    """The keys of a stack's file. Raises StackFileError."""
    path = stack_file(project, stack)
    try:
        return values_of(path.read_text(), str(path.relative_to(project)))
    except FileNotFoundError:
        known = ", ".join(known_stacks(project))
        message = f"found no {path.relative_to(project)}; there are: {known or 'none'}"
        raise StackFileError(message, missing=True) from None


def values_of(text: str, where: str) -> dict[str, Any]:
    """The keys that a stack file's text holds, each as the program gets it. Raises StackFileError.

    By the way that Pulumi takes: where it saves a stack file, it writes `"0"` for `0`.
    """
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise StackFileError(f"{where} is not YAML: {error}") from None
    if not isinstance(content, dict) or not isinstance(content.get("config"), dict):
        raise StackFileError(f"{where}: found no `config` with keys, wanted a stack file")
    raw = {str(k): v if isinstance(v, str) else json.dumps(v, default=str) for k, v in content["config"].items()}
    return stack_values(raw)
