"""Where build outputs lie: a folder a kind, named by the hash of what it is made from.

A fresh clone with the same lock files finds everything made; a changed lock file makes its own.
Layout below `${XDG_CACHE_HOME:-~/.cache}/splitserve`: engine/KEY/bin, kubernetes/KEY/bin, node/KEY,
vllm/KEY/site, and go/ for Go's own caches while it builds.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from tools.localcluster.layout import Layout, cache_dir

KEY_LENGTH = 12
TOOLS = Path(__file__).resolve().parent
CHECKOUT = TOOLS.parent


def key(*paths: Path) -> str:
    """A short hash of the files' contents."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:KEY_LENGTH]


@dataclass(frozen=True)
class Cache:
    """The folders of this checkout's lock files."""

    root: Path
    engine: Path
    kubernetes: Path
    rootfs: Path
    vllm: Path
    images: Path

    @property
    def go(self) -> Path:
        return self.root / "go"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    def layout(self) -> Layout:
        return Layout(CHECKOUT, self.kubernetes, self.rootfs, self.vllm)


def cache() -> Cache:
    root = cache_dir()
    engine, cluster = TOOLS / "engine", TOOLS / "localcluster"
    modules = [
        engine / "pulumi/go.sum", engine / "pulumi/go.mod", engine / "kubernetes/go.sum",
        engine / "kubernetes/go.mod", engine / "kubernetes/main.go", engine / "build.py",
    ]  # fmt: skip
    parts = [cluster / part / name for part in ("etcd", "kubernetes", "coredns") for name in ("go.mod", "go.sum")]
    node = key(cluster / "rootfs.py")
    vllm = key(cluster / "vllm/uv.lock", cluster / "vllm/environment.py")
    return Cache(
        root=root,
        engine=root / "engine" / key(*modules) / "bin",
        kubernetes=root / "kubernetes" / key(*parts, cluster / "build.py") / "bin",
        rootfs=root / "node" / node / "rootfs",
        vllm=root / "vllm" / vllm / "site",
        images=root / "node" / node / f"images-{vllm}.tar",
    )
