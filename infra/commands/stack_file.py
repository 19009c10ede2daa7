"""A stack file's settings, for commands that look at a plan without Pulumi."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from infra.commands.complain import complain
from infra.naming import CONFIG_PREFIX


def stack_file_values(project: Path, stack: str) -> dict[str, Any]:
    """The keys of `stacks/Pulumi.STACK.yaml` without their prefix; complains of a file that is not one."""
    path = project / f"stacks/Pulumi.{stack}.yaml"
    try:
        content = yaml.safe_load(path.read_text())
    except FileNotFoundError:
        known = ", ".join(sorted(p.name.split(".")[1] for p in path.parent.glob("Pulumi.*.yaml")))
        complain(f"--stack: found no {path.relative_to(project)}; there are: {known}")
    except yaml.YAMLError as error:
        complain(f"{path.relative_to(project)} is not YAML: {error}")
    if not isinstance(content, dict) or not isinstance(content.get("config"), dict):
        complain(f"{path.relative_to(project)}: found no `config` with keys, wanted a stack file")
    return {k.removeprefix(CONFIG_PREFIX): v for k, v in content["config"].items()}
