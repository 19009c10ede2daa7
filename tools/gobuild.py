"""Build pinned Go tools into the cache.

Go's module and build caches lie in our cache too while a build runs, and are removed once everything
is made: together they would hold 12 GB that nothing needs any more.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.steps import Log, Step

GO_HINT = "see the log; an interrupted download is resumed by running the same command again"


@dataclass(frozen=True)
class GoTool:
    """One binary: its module's folder, package, link flags and build tags."""

    name: str
    module: Path
    package: str
    link_flags: str = ""
    tags: str = ""


def recipe(tools: Sequence[GoTool]) -> str:
    """What, beside the lock files, decides the binaries."""
    return repr([(tool.name, tool.package, tool.link_flags, tool.tags) for tool in tools])


def build_step(tool: GoTool, bin_folder: Path, go_cache: Path, after: tuple[str, ...] = ()) -> Step:
    """A step that compiles the tool, if its binary is not there yet."""
    target = bin_folder / tool.name

    def run(log: Log) -> None:
        bin_folder.mkdir(parents=True, exist_ok=True)
        partial = target.with_suffix(".partial")
        command = ["go", "build", "-trimpath", "-ldflags", f"-s -w {tool.link_flags}".strip()]
        if tool.tags:
            command += ["-tags", tool.tags]
        log.command([*command, "-o", partial, tool.package], cwd=tool.module, environment=go_environment(go_cache))
        partial.rename(target)

    return Step(f"build {tool.name}", target.exists, run, GO_HINT, after)


def download_step(name: str, modules: Sequence[Path], wanted: Sequence[Path], go_cache: Path) -> Step:
    """A step that fetches modules ahead of the builds, unless all binaries are there."""

    def run(log: Log) -> None:
        for module in modules:
            log.command(["go", "mod", "download"], cwd=module, environment=go_environment(go_cache))

    return Step(f"download {name}", lambda: all(p.exists() for p in wanted), run, GO_HINT)


def remove_go_caches(go_cache: Path) -> None:
    """Remove Go's caches; module files are read-only, so Go itself has to."""
    if go_cache.exists():
        subprocess.run(["go", "clean", "-modcache"], env=go_environment(go_cache), check=False)
        shutil.rmtree(go_cache, ignore_errors=True)


def go_environment(go_cache: Path) -> dict[str, str]:
    """The user's environment, with pinned, pure Go builds and caches of our own."""
    return os.environ | {
        "CGO_ENABLED": "0",
        # The compiler spends much of its time collecting garbage; a process stays below 3 GB with this.
        "GOGC": os.environ.get("GOGC", "400"),
        "GOFLAGS": "-buildvcs=false -mod=readonly",
        "GOMODCACHE": str(go_cache / "mod"),
        "GOCACHE": str(go_cache / "build"),
    }
