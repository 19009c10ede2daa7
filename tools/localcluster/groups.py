"""The controller of LeaderWorkerSets for the local cluster, from its pinned Go module.

Apart from `make up`: only engines over several nodes need it. The module's version is that of the image that
components/nodes/images.py pins for other clusters.
"""

from __future__ import annotations

from pathlib import Path

from tools import gobuild
from tools.gobuild import GoTool, build_step, download_step
from tools.localcluster import images
from tools.steps import Step

VERSION = "0.7.0"
REPOSITORY = "splitserve.local/lws"
_LINK_FLAGS = f"-X sigs.k8s.io/lws/pkg/version.GitVersion=v{VERSION}"
TOOL = GoTool("manager", Path(__file__).resolve().parent / "lws", "sigs.k8s.io/lws/cmd", _LINK_FLAGS)


def recipe() -> str:
    return gobuild.recipe([TOOL])


def image(bin_folder: Path) -> str:
    """The controller's image on the node; its tag is the key of what the binary is made from."""
    return f"{REPOSITORY}:{bin_folder.parent.name}"


def steps(bin_folder: Path, go_cache: Path) -> list[Step]:
    """Download, compile, pack, and load into the node, which must run."""
    program, archive = bin_folder / TOOL.name, bin_folder / "image.tar"
    name = image(bin_folder)
    return [
        download_step("the LeaderWorkerSet controller's modules", [TOOL.module], [program], go_cache),
        build_step(TOOL, bin_folder, go_cache),
        Step("pack the controller's image", archive.exists, lambda _: images.pack_program(program, archive, name),
             "free some disk and run it again"),
        Step("load the controller's image", lambda: images.has(name), lambda _: images.load(archive), "run it again"),
    ]  # fmt: skip
