"""Another team's project on the real engine: `examples/consumer`, in a folder of its own.

Tests on a cluster build on `Consumer`, too: `up` deploys the Job and waits for its answer.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.cache import CHECKOUT
from tools.deployment import Finished

STACK = "test"
EXAMPLE = CHECKOUT / "examples" / "consumer"


@dataclass(frozen=True)
class Consumer:
    """The project, and the environment of its commands; `config` are keys as `pulumi config set` has them."""

    folder: Path
    environment: Mapping[str, str]

    @staticmethod
    def of(folder: Path, environment: Mapping[str, str]) -> Consumer:
        """A copy of the example with a stack, on the backend that the environment names."""
        shutil.copytree(EXAMPLE, folder)
        # As if installed: this checkout's reader, and not what a virtual environment was made from.
        made = Consumer(folder, {**environment, "PYTHONPATH": str(CHECKOUT)})
        initiated = made.run("stack", "init", STACK)
        assert initiated.code == 0, initiated.text
        return made

    def preview(self, llm: str, config: Mapping[str, str] | None = None) -> Finished:
        """`pulumi preview` against the serving stack `llm`."""
        return self.run("preview", "--stack", STACK, *_config(llm, config))

    def up(self, llm: str, config: Mapping[str, str] | None = None) -> Finished:
        return self.run("up", "--yes", "--skip-preview", "--stack", STACK, *_config(llm, config))

    def destroy(self) -> Finished:
        return self.run("destroy", "--yes", "--skip-preview", "--stack", STACK)

    def outputs(self) -> dict[str, Any]:
        return json.loads(self.run("stack", "output", "--json", "--stack", STACK).text)

    def run(self, *arguments: str) -> Finished:
        done = subprocess.run(
            ["pulumi", *arguments, "--non-interactive"], cwd=self.folder, env=dict(self.environment), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        return Finished(done.returncode, done.stdout)


def _config(llm: str, more: Mapping[str, str] | None) -> list[str]:
    settings = {"chat-client:llm": llm, **(more or {})}
    return [part for key, value in settings.items() for part in ("--config", f"{key}={value}")]
