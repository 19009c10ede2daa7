"""Make the pods' container images on the machine, without a registry, and load them into the node.

Two images share one layer, the Debian root file system: `base` (also the pause image) and
`vllm-cpu`, whose Python environment is the node's mount (docs/decisions/0002). The tag of
`vllm-cpu` is the key of that environment, so that another environment is another image.
"""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
from pathlib import Path

from tools.localcluster import cluster
from tools.localcluster.configuration import PAUSE_IMAGE
from tools.localcluster.layout import VLLM_MOUNT, Layout
from tools.localcluster.vllm.environment import CACHE

REPOSITORY = "splitserve.local/vllm-cpu"
# The node's own programs have no place in a pod.
NODE_ONLY = (
    "usr/bin/containerd", "usr/bin/ctr", "usr/sbin/runc", "usr/lib/cni", "var/cache/apt",
    "var/lib/apt", "usr/share/doc", "usr/share/man", "usr/share/locale", "proc", "sys", "dev",
)  # fmt: skip
ENVIRONMENT = [
    f"PATH={VLLM_MOUNT}/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    f"PYTHONPATH={VLLM_MOUNT}",
    "LANG=C.UTF-8",
    "HOME=/tmp",
    "VLLM_TARGET_DEVICE=cpu",
    f"VLLM_CACHE_ROOT={VLLM_MOUNT}/{CACHE}",
]


def vllm_image(layout: Layout) -> str:
    """The image name of the vLLM pods for this cache's environment."""
    return f"{REPOSITORY}:{layout.vllm.parent.name}"


def pack(rootfs: Path, archive: Path, vllm_name: str) -> None:
    """Write a docker archive that holds both images."""
    layer = archive.with_suffix(".layer.tar")
    _pack_layer(rootfs, layer)
    digest = _sha256(layer)
    base = _config(digest, ["PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"], vllm_name)
    vllm = _config(digest, ENVIRONMENT, vllm_name)
    manifest = [
        {"Config": f"{name}.json", "RepoTags": [tag], "Layers": ["layer.tar"]}
        for name, tag in (("base", PAUSE_IMAGE), ("vllm", vllm_name))
    ]
    partial = archive.with_suffix(".partial")
    with tarfile.open(partial, "w") as tar:
        _add(tar, "base.json", base)
        _add(tar, "vllm.json", vllm)
        _add(tar, "manifest.json", json.dumps(manifest).encode())
        tar.add(layer, "layer.tar")
    layer.unlink()
    partial.rename(archive)


def pack_program(program: Path, archive: Path, name: str) -> None:
    """Write a docker archive of an image that is one static program, at the root of its file system."""
    layer, partial = archive.with_suffix(".layer.tar"), archive.with_suffix(".partial")
    with tarfile.open(layer, "w") as tar:
        tar.add(program, program.name, filter=_of_root)
    config = _config(_sha256(layer), ["PATH=/"], name)
    manifest = [{"Config": "program.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(partial, "w") as tar:
        _add(tar, "program.json", config)
        _add(tar, "manifest.json", json.dumps(manifest).encode())
        tar.add(layer, "layer.tar")
    layer.unlink()
    partial.rename(archive)


def _of_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Anybody may run it, and the archive says nothing of who made it or when."""
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = "root"
    entry.mode = 0o755
    return entry


def loaded(layout: Layout) -> bool:
    """Whether the node's containerd already holds the vLLM image."""
    return has(vllm_image(layout))


def has(name: str) -> bool:
    """Whether the node's containerd holds an image."""
    listed = subprocess.run(_ctr("images", "ls", "-q"), capture_output=True, text=True, check=True)
    return name in listed.stdout.split()


def load(archive: Path) -> None:
    """Import the archive into the node's containerd."""
    with archive.open("rb") as file:
        subprocess.run(_ctr("images", "import", "-"), stdin=file, check=True, capture_output=True)


def _ctr(*arguments: str) -> list[str]:
    return cluster.node_command(
        ["/usr/bin/ctr", "--namespace=k8s.io", "--address=/run/containerd/containerd.sock", *arguments]
    )


def _pack_layer(rootfs: Path, layer: Path) -> None:
    excludes = [f"--exclude=./{path}*" for path in NODE_ONLY]
    subprocess.run(
        ["tar", "--create", "--numeric-owner", f"--file={layer}", *excludes, f"--directory={rootfs}", "."],
        check=True,
    )


def _config(layer_digest: str, environment: list[str], label: str) -> bytes:
    return json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {
                "Env": environment,
                "Cmd": ["sleep", "infinity"],
                "Labels": {"dev.splitserve.environment": label},
            },
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_digest}"]},
            "history": [{"created_by": "splitserve tools.localcluster.images"}],
        }
    ).encode()


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
