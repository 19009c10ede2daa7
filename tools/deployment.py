"""One Pulumi stack on the local cluster, as demos and tests drive it: through the `pulumi` command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
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


MARK = "SPLITSERVE_UPDATE"
"""In the environment of everything that one update starts, so that its processes can be told."""


@dataclass(frozen=True)
class Update:
    """A running `pulumi up`."""

    process: subprocess.Popen[str]
    mark: str

    def lines(self) -> Iterator[str]:
        assert self.process.stdout is not None
        yield from self.process.stdout

    def kill(self) -> None:
        """End `pulumi` itself without warning, as a crash would. Its plugins are left to themselves."""
        self.process.kill()
        self.process.wait()

    def left(self) -> dict[int, str]:
        """The processes of this update that still run: {id: command line}."""
        found = {}
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and f"{MARK}={self.mark}".encode() in (entry / "environ").read_bytes():
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue  # it ended meanwhile
        return found

    def end_left(self) -> None:
        for process in self.left():
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue


@dataclass(frozen=True)
class Deployment:
    """A stack, the environment of its commands, and the namespace that it deploys to."""

    stack: str = STACK
    namespace: str = "splitserve"
    environment: Mapping[str, str] = field(default_factory=_local_environment)
    show: bool = True
    """Whether the output of `up` is shown while it runs."""
    base: Path = STACK_FILE
    """The stack file that changes are made to."""

    def stack_file(self, *changes: Change) -> Path:
        """A temporary copy of the stack file for this namespace, with the changes made."""
        content = yaml.safe_load(self.base.read_text())
        settings = content["config"]
        settings["splitserve:platform"]["namespace"] = self.namespace
        for change in changes:
            change(settings)
        with tempfile.NamedTemporaryFile("w", prefix="Pulumi.", suffix=".yaml", delete=False) as file:
            yaml.safe_dump(content, file)
        return Path(file.name)

    def up(self, *changes: Change) -> Finished:
        """`pulumi up` with a changed stack file."""
        update = self.start_up(*changes)
        text = self._read(update)
        return Finished(update.process.wait(), text)

    def start_up(self, *changes: Change) -> Update:
        """Start `pulumi up` with a changed stack file."""
        mark = uuid.uuid4().hex
        arguments = ["--yes", "--skip-preview", "--suppress-progress", "--suppress-outputs"]
        command = self._command("up", *arguments, "--config-file", str(self.stack_file(*changes)))
        process = subprocess.Popen(
            command, cwd=CHECKOUT, env={**self.environment, MARK: mark}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        return Update(process, mark)

    def _read(self, update: Update) -> str:
        lines = []
        for line in update.lines():
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
