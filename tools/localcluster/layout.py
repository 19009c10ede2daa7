"""Where the local cluster lives: folders on the host, addresses, and names.

Everything the cluster writes is under `.local/` of the checkout or in the cache; the pod, service
and link ranges come from 198.18.0.0/15, which RFC 2544 keeps free for test networks, so that they
never clash with a user's LAN.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

POD_RANGE = "198.18.0.0/16"
SERVICE_RANGE = "198.19.0.0/17"
CLUSTER_RANGE = "198.18.0.0/15"
"""What the host routes to the node: pods, Services and the link itself."""
HOST_ADDRESS = "198.19.255.1"
NODE_ADDRESS = "198.19.255.2"
LINK_PREFIX = 30
HOST_LINK = "splitserve0"
NODE_NAME = "splitserve-node"
CGROUP = "splitserve"
API_PORT = 6443
TOKEN_WEBHOOK_PORT = 6444
"""On the host's end of the link; the AWS stand-in answers there."""
KUBERNETES_SERVICE_ADDRESS = "198.19.0.1"
CONTEXT = "splitserve-local"
VLLM_MOUNT = "/opt/vllm"
"""Where every container sees the node's vLLM environment (see docs/decisions/0002)."""

RUN_RECORD = Path("/run/splitserve-cluster.json")
"""Machine-wide record of the running cluster: one machine holds one, whichever checkout started it."""


def cache_dir() -> Path:
    """The folder for build outputs, shared by all checkouts of a user."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "splitserve"


@dataclass(frozen=True)
class Layout:
    """The cluster's folders for one checkout.

    `checkout` is the project's root; `binaries` holds etcd, Kubernetes and CoreDNS; `rootfs` is the
    node's Debian root; `vllm` is the Python environment of the vLLM pods.
    """

    checkout: Path
    binaries: Path
    rootfs: Path
    vllm: Path

    @property
    def local(self) -> Path:
        return self.checkout / ".local"

    @property
    def kubeconfig(self) -> Path:
        return self.local / "kubeconfig"

    @property
    def models(self) -> Path:
        return self.local / "models"

    @property
    def state(self) -> Path:
        return self.local / "cluster"

    @property
    def pki(self) -> Path:
        return self.state / "pki"

    @property
    def etc(self) -> Path:
        return self.state / "etc"

    @property
    def var(self) -> Path:
        return self.state / "var"

    @property
    def logs(self) -> Path:
        return self.var / "log" / "splitserve"

    @property
    def node_plan(self) -> Path:
        """What `node.py` mounts and runs, as JSON."""
        return self.etc / "node.json"
