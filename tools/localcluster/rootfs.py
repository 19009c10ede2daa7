"""The Debian root of the node, which is also the base layer of the pods' images."""

from __future__ import annotations

import shutil
from pathlib import Path

from tools.steps import Log, Step

SUITE = "bookworm"
PACKAGES = (
    # the node's own programs
    "containerd", "runc", "containernetworking-plugins", "iptables", "conntrack", "iproute2",
    "procps", "kmod", "ca-certificates",
    # what vLLM's pods need beside their Python environment
    "python3", "libnuma1", "libgomp1",
)  # fmt: skip


def recipe() -> str:
    return repr((SUITE, PACKAGES))


def steps(rootfs: Path) -> list[Step]:
    return [
        Step(
            "install debootstrap",
            lambda: rootfs.exists() or shutil.which("debootstrap") is not None,
            _install_debootstrap,
            "install the package `debootstrap` with your distribution's package manager",
        ),
        Step(
            "make the node's Debian root",
            rootfs.exists,
            lambda log: _debootstrap(rootfs, log),
            "check that Debian's package mirror is reachable and run the same command again",
        ),
    ]


def _install_debootstrap(log: Log) -> None:
    log.command(["apt-get", "update", "-qq"])
    log.command(["apt-get", "install", "-y", "-qq", "--no-install-recommends", "debootstrap"])


def _debootstrap(rootfs: Path, log: Log) -> None:
    partial = rootfs.with_name("rootfs.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.parent.mkdir(parents=True, exist_ok=True)
    log.command(["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, partial])
    # The host's resolver settings were copied in; the node's names come from its own CoreDNS.
    (partial / "etc/resolv.conf").write_text("")
    for cached in (partial / "var/cache/apt/archives").glob("*.deb"):
        cached.unlink()
    partial.rename(rootfs)
