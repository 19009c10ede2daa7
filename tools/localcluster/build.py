"""The cluster's own binaries from pinned Go modules: etcd, Kubernetes, CoreDNS."""

from __future__ import annotations

from pathlib import Path

from tools import gobuild
from tools.gobuild import GoTool, build_step
from tools.steps import Step

HERE = Path(__file__).resolve().parent
KUBERNETES = "1.34.4"
_MAJOR, _MINOR, _ = KUBERNETES.split(".")
_VERSION = "k8s.io/component-base/version"
_LINK_FLAGS = f"-X {_VERSION}.gitVersion=v{KUBERNETES} -X {_VERSION}.gitMajor={_MAJOR} -X {_VERSION}.gitMinor={_MINOR}"
# The API server first: it compiles what the others share.
COMPONENTS = (
    "kube-apiserver",
    "kubelet",
    "kube-controller-manager",
    "kube-scheduler",
    "kube-proxy",
    "kubectl",
)
TOOLS = (
    *(GoTool(name, HERE / "kubernetes", f"k8s.io/kubernetes/cmd/{name}", _LINK_FLAGS) for name in COMPONENTS),
    GoTool("etcd", HERE / "etcd", "go.etcd.io/etcd/server/v3"),
    GoTool("coredns", HERE / "coredns", "github.com/coredns/coredns"),
)


def recipe() -> str:
    return gobuild.recipe(TOOLS)


def modules() -> list[Path]:
    return [HERE / part for part in ("kubernetes", "etcd", "coredns")]


def binaries(bin_folder: Path) -> list[Path]:
    return [bin_folder / tool.name for tool in TOOLS]


def steps(bin_folder: Path, go_cache: Path) -> list[Step]:
    return [build_step(tool, bin_folder, go_cache) for tool in TOOLS]
