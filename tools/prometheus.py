"""Debian's Prometheus and its promtool: tests run every rule and alert with them.

Only unpacked, never installed: the package would start a service. Both programs are static but for the C library.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from tools.steps import Log, Step, StepFailed

PACKAGE = "prometheus"
PROGRAMS = ("prometheus", "promtool")


def recipe() -> str:
    return repr((PACKAGE, PROGRAMS))


def binaries(folder: Path) -> list[Path]:
    return [folder / name for name in PROGRAMS]


def steps(folder: Path) -> list[Step]:
    """One step: download the distribution's package and take its programs out."""
    return [
        Step(
            "unpack Prometheus",
            lambda: all(path.exists() for path in binaries(folder)),
            lambda log: _unpack(folder, log),
            "check that Debian's package mirror is reachable and run the same command again",
        )
    ]


def _unpack(folder: Path, log: Log) -> None:
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    _download(partial, log)
    for archive in partial.glob("*.deb"):
        log.command(["dpkg-deb", "--extract", archive, partial / "root"])
        archive.unlink()
    for name in PROGRAMS:
        (partial / "root/usr/bin" / name).rename(partial / name)
    shutil.rmtree(partial / "root")
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)


def _download(folder: Path, log: Log) -> None:
    """The lists of packages may be missing or old: they are asked for where the first try finds nothing."""
    # The folder is root's alone, which apt's own user for downloads may not write to.
    download = ["apt-get", "-o", "APT::Sandbox::User=root", "download", PACKAGE]
    try:
        log.command(download, cwd=folder)
    except StepFailed:
        log.command(["apt-get", "update", "-qq"])
        log.command(download, cwd=folder)
