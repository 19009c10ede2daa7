"""Where build outputs lie: a folder a kind, named by the hash of what it is made from.

A fresh clone with the same locks and recipes finds everything made; a changed one makes its own.
Layout below `${XDG_CACHE_HOME:-~/.cache}/splitserve`: engine/KEY/bin, codegen/KEY/bin, kubernetes/KEY/bin, node/KEY,
vllm/KEY/site, lws/KEY/bin, prometheus/KEY/bin, and go/ for Go's own caches while it builds.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from tools import gobuild, prometheus
from tools.engine import build as engine_build
from tools.localcluster import build as cluster_build
from tools.localcluster import groups as lws_build
from tools.localcluster import rootfs
from tools.localcluster.layout import Layout, cache_dir
from tools.localcluster.vllm import environment as vllm_environment

KEY_LENGTH = 12
TOOLS = Path(__file__).resolve().parent
CHECKOUT = TOOLS.parent


def key(*parts: Path | str) -> str:
    """A short hash of the files' contents and of the texts."""
    digest = hashlib.sha256()
    for part in parts:
        content = part.read_bytes() if isinstance(part, Path) else part.encode()
        digest.update(str(len(content)).encode() + b":" + content)
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
    groups: Path
    prometheus: Path
    codegen: Path

    @property
    def go(self) -> Path:
        return self.root / "go"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    def layout(self) -> Layout:
        return Layout(CHECKOUT, self.kubernetes, self.rootfs, self.vllm)


def cache() -> Cache:
    """The cache's folders for what this checkout's locks and recipes say."""
    root = cache_dir()
    engine = key(*_lock_files(engine_build.modules()), TOOLS / "engine/kubernetes/main.go", engine_build.recipe())
    kubernetes = key(*_lock_files(cluster_build.modules()), cluster_build.recipe())
    node = key(rootfs.recipe())
    vllm = key(vllm_environment.HERE / "uv.lock", vllm_environment.recipe())
    groups = key(*_lock_files([lws_build.TOOL.module]), lws_build.recipe())
    generator = engine_build.GENERATOR
    sources = sorted(generator.module.glob("*.go"))
    codegen = key(*_lock_files([generator.module]), *sources, gobuild.recipe([generator]))
    return Cache(
        root=root,
        engine=root / "engine" / engine / "bin",
        kubernetes=root / "kubernetes" / kubernetes / "bin",
        rootfs=root / "node" / node / "rootfs",
        vllm=root / "vllm" / vllm / "site",
        images=root / "node" / node / f"images-{vllm}.tar",
        groups=root / "lws" / groups / "bin",
        prometheus=root / "prometheus" / key(prometheus.recipe()) / "bin",
        codegen=root / "codegen" / codegen / "bin",
    )


def _lock_files(modules: list[Path]) -> list[Path]:
    return [module / name for module in modules for name in ("go.mod", "go.sum")]
