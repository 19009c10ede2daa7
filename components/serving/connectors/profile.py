"""What a connector profile says: everything that differs between vLLM's KV connectors.

Facts are those of vllm 0.32; files are named relative to its `distributed/kv_transfer/kv_connector/v1/`
unless they begin with another folder of vLLM.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from components.serving.connectors.chosen import Chosen
from components.serving.connectors.measurement import NOT_BETWEEN_TIERS, Measurement
from components.serving.spec import EngineSpec, EngineTier

Moves = Literal["between-tiers", "through-store", "to-host"]
"""From the prefiller to the decoder, through something that both of them know, or only within one pod."""
Dispatch = Literal["sequential", "concurrent", "none"]
"""Whether a proxy asks prefill and decode one after the other or at once; `none`: there is one tier."""
DecodeParams = Literal["answer", "learned", "bootstrap", "none"]
"""What a proxy sends to the decoder as `kv_transfer_params`: the prefiller's answer as it is; its address
and engine id, learned from an earlier answer; what its bootstrap server says; nothing."""
PerRank = Literal["one", "data", "data-and-tensor"]
"""How many ports follow the first: none, one for each further data-parallel rank, or as many as data-parallel
and tensor-parallel rank add up to."""
RouterUse = Literal["yes", "inferred", "no"]
"""`inferred`: by its source or its symbols, not measured."""
SPLIT: Mapping[EngineTier, str] = {"prefill": "kv_producer", "decode": "kv_consumer"}
EVERYWHERE: Mapping[EngineTier, str] = {"prefill": "kv_both", "decode": "kv_both", "collocated": "kv_both"}


@dataclass(frozen=True)
class Place:
    """Where a connector runs. `backend` is NIXL's, resolved."""

    tier: EngineTier
    engine: EngineSpec
    backend: str


@dataclass(frozen=True)
class Port:
    """A port that the connector listens on: `engine.sideChannelPort` and `offset` beyond."""

    name: str
    offset: int
    per_rank: PerRank
    tiers: tuple[EngineTier, ...]


@dataclass(frozen=True)
class Package:
    """What the image must hold: vLLM imports `imports`, which comes with any of `distributions`."""

    imports: str
    distributions: tuple[str, ...]
    note: str = ""
    with_vllm: bool = False
    """Whether vLLM's own image has it."""


@dataclass(frozen=True)
class Requests:
    """How a proxy dispatches a request.

    `prefill` are the `kv_transfer_params` that the prefiller gets (`$transfer_id`: a fresh one, the same in
    both legs). `same_request_id`: both legs must carry one `X-Request-Id`. `router` is the value of
    vllm-router's `--kv-connector`, None where it has none; `why` says why `routed` holds. `gateway` are the
    flags of our own gateway beyond its defaults (`$port`: the prefillers' side channel), None where it can't
    dispatch for the connector.
    """

    dispatch: Dispatch
    prefill: Mapping[str, Any] | None
    decode: DecodeParams
    same_request_id: bool
    router: str | None
    routed: RouterUse
    why: str
    gateway: tuple[str, ...] | None = ()


STORE_REQUESTS = Requests(
    "sequential", None, "none", False, "nixl", "inferred",
    "needs no parameters, and its prefiller ignores those that vllm-router sends in NIXL's words",
    ("--allow-local-prefill",),
)  # fmt: skip
"""Of a connector that leaves the KV cache in a store: the tiers are asked in turn, and told nothing of each other."""


@dataclass(frozen=True)
class Limit:
    """What does not work, and where that is said."""

    what: str
    source: str


@dataclass(frozen=True)
class ConnectorProfile:
    """One connector. `options` makes its extra config out of what was chosen; `reads` are the keys that its
    source reads there, a trailing `*` for every key that begins so. `roles` has the tiers that it can serve.
    `environment` maps variables to values, or to a field of the pod where they begin with `field:`; the
    value `$port` is the side channel's. `hybrid` says whether it works with vLLM's hybrid KV cache manager,
    None: not known. `own_statistics`: it records transfers; `exports`: and has Prometheus series for them.
    """

    name: str
    vllm_class: str
    sources: tuple[str, ...]
    moves: Moves
    roles: Mapping[EngineTier, str]
    options: Callable[[Chosen, Place], dict[str, Any]]
    reads: tuple[str, ...]
    requests: Requests
    measurement: Measurement = NOT_BETWEEN_TIERS
    ports: tuple[Port, ...] = ()
    environment: Mapping[str, str] | None = None
    packages: tuple[Package, ...] = ()
    devices: str = "none of its own"
    matches: tuple[str, ...] = ()
    hybrid: bool | None = True
    own_statistics: bool = True
    exports: bool = True
    limits: tuple[Limit, ...] = ()

    def knows(self, option: str) -> bool:
        """Whether the connector reads an option of that name."""
        return any(option.startswith(key[:-1]) if key.endswith("*") else option == key for key in self.reads)


def chosen_options(chosen: Chosen, _place: Place) -> dict[str, Any]:
    """The options as they stand in the stack file."""
    return dict(chosen.options)
