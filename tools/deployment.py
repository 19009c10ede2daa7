"""One Pulumi stack on the local cluster, as demos and tests drive it: through the `pulumi` command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tools.cache import CHECKOUT, cache
from tools.local import STACK, full_environment

STACK_FILE = CHECKOUT / "stacks" / f"Pulumi.{STACK}.yaml"
Change = Callable[[dict[str, Any]], None]


def _local_environment() -> dict[str, str]:
    return {**os.environ, **full_environment(cache())}


@dataclass(frozen=True)
class Finished:
    """A `pulumi` run that ended: its exit code and everything that it printed."""

    code: int
    text: str


@dataclass(frozen=True)
class Deployment:
    """A stack, the environment of its commands, and the namespace that it deploys to."""

    stack: str = STACK
    namespace: str = "splitserve"
    environment: Mapping[str, str] = field(default_factory=_local_environment)
    show: bool = True
    """Whether the output of `up` is shown while it runs."""

    def stack_file(self, *changes: Change) -> Path:
        """A temporary copy of the local stack file for this namespace, with the changes made."""
        content = yaml.safe_load(STACK_FILE.read_text())
        settings = content["config"]
        settings["splitserve:platform"]["namespace"] = self.namespace
        for change in changes:
            change(settings)
        with tempfile.NamedTemporaryFile("w", prefix="Pulumi.", suffix=".yaml", delete=False) as file:
            yaml.safe_dump(content, file)
        return Path(file.name)

    def up(self, *changes: Change) -> Finished:
        """`pulumi up` with a changed stack file."""
        process = self.start_up(*changes)
        text = self._read(process)
        return Finished(process.wait(), text)

    def start_up(self, *changes: Change) -> subprocess.Popen[str]:
        """`pulumi up` in a process group of its own, so that all of it can be killed."""
        arguments = ["--yes", "--skip-preview", "--suppress-progress", "--suppress-outputs"]
        command = self._command("up", *arguments, "--config-file", str(self.stack_file(*changes)))
        return subprocess.Popen(
            command, cwd=CHECKOUT, env=dict(self.environment), text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def _read(self, process: subprocess.Popen[str]) -> str:
        lines = []
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if self.show:
                print(line, end="", flush=True)
        return "".join(lines)

    def run(self, *arguments: str) -> Finished:
        """Any other `pulumi` command on this stack."""
        done = subprocess.run(
            self._command(*arguments), cwd=CHECKOUT, env=dict(self.environment), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        return Finished(done.returncode, done.stdout)

    def outputs(self) -> dict[str, Any]:
        return json.loads(self.run("stack", "output", "--json").text)

    def _command(self, *arguments: str) -> list[str]:
        return ["pulumi", *arguments, "--stack", self.stack, "--non-interactive"]


def kill(process: subprocess.Popen[str]) -> None:
    """End a `pulumi up` with everything that it started, as a crash or a closed laptop would."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
