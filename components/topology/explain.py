"""Say of a slow transfer why it was slow, as far as the topology tells; and of any, how it went. Pure.

Only causes of a slow path are explained: nothing here changes an outcome, and nothing makes a pass.
"""

from __future__ import annotations

from dataclasses import dataclass

from components.topology.evidence import ASK_LINKS, ASK_PEERS, ASK_TRANSPORT, Topology, lanes, peer_words

SLOW_CAUSES = frozenset({"slow-link", "slower-than-expected"})
BY_HOST = ("tcp", "host-staged")
PATHS = {
    "peer-access": "from GPU to GPU by peer access",
    "gpudirect-rdma": "from GPU to GPU by GPUDirect RDMA",
    "host-staged": "by the host's memory",
    "tcp": "by TCP, through the host's memory",
    "host-memory": "from the host's memory to the host's memory",
    "not-known": "in a way that is not known",
}
NO_SUPPORT = (
    "put both tiers on GPUs with peer access: joined by NVLink, or PCIe whose chipset, virtualization (IOMMU, ACS) and "
    "driver allow it; else give them RDMA devices"
)
GET_OVER_PCIE = (
    "set UCX_CUDA_IPC_ENABLE_GET_ZCOPY=on on both tiers (UCX reads over cuda_ipc by itself only where it finds NVLink), or "
    "take the connector that pushes (NixlPushConnector)"
)
NOT_CHOSEN = (
    "remove UCX_TLS, or add cuda_ipc to it, on both tiers; engines in two containers need the same IPC and PID namespace "
    "and both GPUs visible for cuda_ipc, else RDMA devices"
)
NO_RDMA = (
    "give both tiers RDMA devices that reach the GPUs' memory (GPUDirect RDMA: nvidia-peermem or dmabuf), and let "
    "UCX_TLS and UCX_NET_DEVICES take them"
)


@dataclass(frozen=True)
class Reason:
    """`found` ends the verdict's message, `fix` takes the place of its way out."""

    found: str
    fix: str


def reason(cause: str, topology: Topology) -> Reason | None:
    """Why a slow transfer was slow; None where the topology does not tell."""
    if cause not in SLOW_CAUSES:
        return None
    if topology.path in BY_HOST:
        return _by_host(topology)
    if topology.path == "not-known" and topology.peer_access == "not-supported":
        return Reason(
            f"peer access not used: it is not supported: {peer_words(topology)}; what moved the blocks is not known",
            f"fix peer access: {NO_SUPPORT}",
        )
    return None


def _by_host(topology: Topology) -> Reason:
    moved = f"{lanes(topology.slowest)} moved the blocks {PATHS[topology.path]}"
    if topology.same_host is False:
        return Reason(f"RDMA not used: {moved}", f"fix RDMA: {NO_RDMA}")
    if topology.same_host:
        return Reason(f"peer access not used: {moved}{_support(topology)}", f"fix peer access: {_fix(topology)}")
    return Reason(
        f"neither peer access nor RDMA used: {moved}; whether within one host is not known",
        f"on one host fix peer access: {_fix(topology)}; between hosts fix RDMA: {NO_RDMA}",
    )


def _support(topology: Topology) -> str:
    if topology.peer_access == "not-supported":
        return f"; it is not supported: {peer_words(topology)}"
    if topology.peer_access == "supported":
        link = "" if topology.link == "not-known" else f", by {topology.link}"
        return f"; the GPUs support it{link}"
    return "; whether the GPUs support it is not known"


def _fix(topology: Topology) -> str:
    if topology.peer_access == "not-supported":
        return NO_SUPPORT
    if topology.peer_access == "supported":
        return NOT_CHOSEN if topology.nvlink is not False else f"{GET_OVER_PCIE}; and {NOT_CHOSEN}"
    return f"see whether the GPUs support it: {ASK_PEERS}; where they do: {NOT_CHOSEN}"


def path_line(topology: Topology) -> str:
    """How the blocks went, what joins the GPUs, and which NICs are near, in one line."""
    parts = [f"blocks went {PATHS[topology.path]}" + (f": {lanes(topology.transports)}" if topology.transports else "")]
    joined = "GPUs not known to be joined" if topology.link == "not-known" else f"GPUs joined by {topology.link}"
    lacking = peer_words(topology)
    parts.append(f"{joined}, peer access {topology.peer_access.replace('-', ' ')}{f': {lacking}' if lacking else ''}")
    if topology.nics:
        parts.append("nearest NICs " + ", ".join(f"{gpu} {nics or 'none'}" for gpu, nics in topology.nics.items()))
    return "; ".join(parts)


def asks_line(topology: Topology) -> str | None:
    """What to run to tell what is not known, and how to give it; None where all is known."""
    how = []
    commands = [ask for ask in topology.asks if ask in (ASK_LINKS, ASK_PEERS)]
    if commands:
        how.append(f"on the machine of the GPUs run `{' ; '.join(commands)}`")
    if ASK_TRANSPORT in topology.asks:
        how.append(f"start the engines with {ASK_TRANSPORT} and keep their logs")
    return f"{'; '.join(how)}; give the outputs: --topology FILE" if how else None
