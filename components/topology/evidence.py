"""What is known of the way between two tiers' GPUs, from every text that was given. Pure.

What nobody said is "not known", never "fine".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any, Literal

from components.topology.matrix import NVLINK, PEER_STATES, Links, PeerAccess, read_links, read_peer_access
from components.topology.transport import Path, Transport, read_transports

State = Literal["supported", "not-supported", "not-known"]
ASK_LINKS = "nvidia-smi topo -m"
ASK_PEERS = "nvidia-smi topo -p2p r"
ASK_TRANSPORT = "UCX_LOG_LEVEL=info UCX_PROTO_INFO=y NIXL_LOG_LEVEL=info"
WORST: tuple[Path, ...] = ("tcp", "host-staged", "not-known", "gpudirect-rdma", "host-memory", "peer-access")


@dataclass(frozen=True)
class Gpus:
    """Indices of the GPUs of both tiers, as nvidia-smi counts them; empty: not known, then all are compared."""

    prefill: tuple[int, ...] = ()
    decode: tuple[int, ...] = ()

    def pairs(self, known: tuple[str, ...]) -> list[tuple[str, str]]:
        """(prefill's GPU, decode's GPU): those that were named, else each with each other."""
        prefill = [f"GPU{index}" for index in self.prefill] or list(known)
        decode = [f"GPU{index}" for index in self.decode] or list(known)
        return [(one, other) for one, other in product(prefill, decode) if one != other]


@dataclass(frozen=True)
class Topology:
    """`peer_access` as `nvidia-smi topo -p2p r` has it, `link` as topo -m; `peers` has the states that were found, by
    pair of GPUs. `path` is how the blocks went by the engines' own logs, `transports` what says so. `asks` are the
    commands that would tell what is not known."""

    peer_access: State = "not-known"
    peers: Mapping[str, str] | None = None
    link: str = "not-known"
    nics: Mapping[str, str] | None = None
    path: Path = "not-known"
    transports: tuple[Transport, ...] = ()
    unread: tuple[str, ...] = ()

    @property
    def nvlink(self) -> bool | None:
        """Whether all pairs are joined by NVLink; None: not known."""
        return None if self.link == "not-known" else all(NVLINK.fullmatch(one) for one in self.link.split(", "))

    @property
    def slowest(self) -> tuple[Transport, ...]:
        """Those that went the way that is judged."""
        return tuple(one for one in self.transports if one.path == self.path)

    @property
    def same_host(self) -> bool | None:
        """Whether the slowest went within one host, by UCX's word; None: it did not say, or some did."""
        places = {one.place for one in self.slowest}
        return None if len(places) != 1 or "" in places else places != {"inter-node"}

    @property
    def asks(self) -> tuple[str, ...]:
        asked = []
        if self.same_host is not False:
            asked += [ASK_LINKS] if self.link == "not-known" else []
            asked += [ASK_PEERS] if self.peer_access == "not-known" else []
        return (*asked, *([ASK_TRANSPORT] if self.path == "not-known" else []))

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "same_host": self.same_host, "asks": list(self.asks)}


def read_topology(texts: Mapping[str, str], gpus: Gpus | None = None) -> Topology:
    """From texts by name: what nvidia-smi printed, and engines' logs, in any order. `unread` names those that hold
    neither; where two matrices of one kind differ, neither is believed."""
    chosen = gpus or Gpus()
    links, peers, transports, unread = [], [], [], []
    for name, text in texts.items():
        one, other, moved = read_links(text), read_peer_access(text), read_transports(name, text.splitlines())
        links += [one] if one else []
        peers += [other] if other else []
        transports += moved
        if not (one or other or moved):
            unread.append(name)
    access, states = _peer_access(_one(peers), chosen)
    return Topology(access, states, _link(_one(links), chosen), _nics(_one(links), chosen), _worst(transports),
                    tuple(transports), tuple(unread))  # fmt: skip


def _one(found: list[Any]) -> Any:
    return found[0] if found and all(other == found[0] for other in found) else None


def _peer_access(peers: PeerAccess | None, gpus: Gpus) -> tuple[State, Mapping[str, str] | None]:
    """Known only where all pairs that may be meant agree; reading must be supported both ways: a pull reads one way,
    a push writes the other."""
    if peers is None:
        return "not-known", None
    pairs = gpus.pairs(peers.gpus)
    both = [*pairs, *((decode, prefill) for prefill, decode in pairs)]
    states = {f"{row}-{column}": peers.cells.get((row, column), "U") for row, column in dict.fromkeys(both)}
    found = set(states.values())
    if not found or "U" in found:
        return "not-known", states
    if found == {"OK"}:
        return "supported", states
    return ("not-known" if "OK" in found and not (gpus.prefill and gpus.decode) else "not-supported"), states


def _link(links: Links | None, gpus: Gpus) -> str:
    found = [links.cells.get(pair) for pair in gpus.pairs(links.gpus)] if links else []
    return ", ".join(dict.fromkeys(str(one) for one in found)) if found and None not in found else "not-known"


def _nics(links: Links | None, gpus: Gpus) -> Mapping[str, str] | None:
    """The nearest NICs of each GPU that may be meant, in words."""
    if links is None or not links.nics:
        return None
    chosen = [f"GPU{index}" for index in (*gpus.prefill, *gpus.decode)] or links.gpus
    return {
        gpu: ", ".join(f"{name} ({link})" for name, link in links.nearest_nics(gpu))
        for gpu in dict.fromkeys(chosen)
        if gpu in links.gpus
    }


def _worst(transports: Iterable[Transport]) -> Path:
    """The slowest way that any block went."""
    found: set[Path] = {one.path for one in transports}
    for path in WORST:
        if path in found:
            return path
    return "not-known"


def lanes(transports: Iterable[Transport]) -> str:
    """What moved the blocks, in words: `tcp/eth0 (software emulation)`."""
    return "; ".join(dict.fromkeys(f"{', '.join(one.lanes) or one.operation} ({one.how})" for one in transports))


def peer_words(topology: Topology) -> str:
    """`GPU0-GPU1 CNS (chipset not supported)` for the pairs that lack peer access."""
    lacking = [(pair, state) for pair, state in (topology.peers or {}).items() if state != "OK"]
    return ", ".join(f"{pair} {state} ({PEER_STATES[state]})" for pair, state in lacking[:4])
