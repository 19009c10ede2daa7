"""How many bytes of KV cache a model holds, and in how many pieces they move. Pure.

A model's layers are put into groups that hold alike: attention (MHA, GQA) over all tokens or over a
window, latent attention (MLA), and layers with a constant state (Mamba 2, gated delta net). Sources:
vllm 0.32 `v1/kv_cache_interface.py` (page sizes), NIXL `base_scheduler.py` (what a window sends) and
`model_executor/layers/mamba/mamba_utils.py` (states). tests/engine compares with vLLM's own code.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

DTYPE_BYTES = {
    "bfloat16": 2, "float16": 2, "float32": 4, "half": 2, "float": 4,
    "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1, "fp8_inc": 1,
}  # fmt: skip
"""Bytes per element by vLLM's `--dtype` or `--kv-cache-dtype` (vllm 0.32 `config/cache.py`)."""
INDEXER_SCALE_BYTES = 4
"""The sparse indexer keeps one float32 scale beside its fp8 key (vllm 0.32 `deepseek_v2.py`)."""
STATE_PIECES = 4
"""A layer's recurrent state, and its convolution's three parts, each for itself (vllm 0.32
`kv_connector/v1/ssm_conv_transfer_utils.py`: x, B, C of Mamba 2; q, k, v of a gated delta net)."""


class GeometryFault(ValueError):
    """Tensor parallelism that the model's heads don't allow."""


@dataclass(frozen=True)
class Attention:
    """Layers that keep keys and values of `kv_heads` heads; the last `window` tokens if there is one.

    `heads` are the query heads, which the ranks must divide, too; 0 where they aren't known.
    """

    layers: int
    kv_heads: int
    head_dim: int
    window: int | None = None
    heads: int = 0

    def blocks(self, tokens: int, block_size: int) -> int:
        """KV blocks of a layer that hold `tokens` and are sent; of a window one more than it spans."""
        whole = blocks(tokens, block_size)
        return whole if self.window is None else min(whole, blocks(self.window, block_size) + 1)

    def rank_bytes_per_token(self, dtype_bytes: int, tp: int) -> int:
        """Of one layer on one rank. With more ranks than heads every rank keeps a copy of one head."""
        heads = self.kv_heads // tp if tp <= self.kv_heads else 1
        return heads * self.head_dim * 2 * dtype_bytes

    def tp_fault(self, tp: int) -> str | None:
        if self.heads % tp:
            return f"{self.heads} attention heads can't be split over {tp} GPUs"
        large, small = max(tp, self.kv_heads), min(tp, self.kv_heads)
        return None if large % small == 0 else f"{self.kv_heads} KV heads can't be split over {tp} GPUs"


@dataclass(frozen=True)
class Latent:
    """Layers of latent attention: one vector of `width` elements a token, whole on every rank.

    `indexer_dim` elements of one byte and a scale come on top in models with a sparse indexer.
    """

    layers: int
    width: int
    indexer_dim: int = 0

    def blocks(self, tokens: int, block_size: int) -> int:
        return blocks(tokens, block_size)

    def rank_bytes_per_token(self, dtype_bytes: int, _tp: int) -> int:
        indexer = self.indexer_dim + INDEXER_SCALE_BYTES if self.indexer_dim else 0
        return self.width * dtype_bytes + indexer

    def tp_fault(self, _tp: int) -> str | None:
        return None


@dataclass(frozen=True)
class State:
    """Layers with a constant state a request: `convolution` and `recurrent` elements, shared by the
    ranks, in the model's own type; the recurrent ones in `recurrent_dtype` where the config names one."""

    layers: int
    convolution: int
    recurrent: int
    heads: int
    recurrent_dtype: str | None = None

    def rank_bytes(self, dtype_bytes: int, tp: int) -> int:
        """Of one layer on one rank."""
        own = DTYPE_BYTES[self.recurrent_dtype] if self.recurrent_dtype else dtype_bytes
        return (self.convolution * dtype_bytes + self.recurrent * own) // tp

    def tp_fault(self, tp: int) -> str | None:
        return None if self.heads % tp == 0 else f"{self.heads} state heads can't be split over {tp} GPUs"


@dataclass(frozen=True)
class Stated:
    """Layers of which only their bytes a token together are known, from the stack file."""

    layers: int
    bytes_per_token: int

    def tp_fault(self, _tp: int) -> str | None:
        return None


Group = Attention | Latent | State | Stated
KINDS: dict[str, type[Group]] = {"attention": Attention, "latent": Latent, "state": State, "stated": Stated}


@dataclass(frozen=True)
class Transfer:
    """What one prompt's KV cache moves: bytes over all ranks, and per rank bytes and pieces.

    `descriptors_fresh`: a fresh cache's blocks lie side by side, one piece a layer. `_aged`: after the
    cache has wrapped each block of each layer is its own piece (docs/measurements/nvlink-h200.md).
    """

    total_bytes: int
    rank_bytes: int
    descriptors_fresh: int
    descriptors_aged: int


@dataclass(frozen=True)
class Geometry:
    """A model's KV geometry; `dtype` is its own type, `max_positions` 0 when it doesn't say."""

    groups: tuple[Group, ...]
    vocabulary: int
    max_positions: int
    dtype: str = "bfloat16"

    @property
    def is_latent(self) -> bool:
        return any(isinstance(group, Latent) for group in self.groups)

    @property
    def has_state(self) -> bool:
        return any(isinstance(group, State) for group in self.groups)

    @property
    def has_window(self) -> bool:
        return any(isinstance(group, Attention) and group.window for group in self.groups)

    @property
    def is_uniform(self) -> bool:
        """Whether bytes grow with tokens alone, so that one figure a token says everything."""
        return not (self.has_state or self.has_window)

    def least_block_size(self, dtype: str, tp: int = 1) -> int:
        """Tokens that a block must hold for a page of attention to hold a layer's states; 1 without states.

        vLLM enlarges smaller blocks by itself (vllm 0.32 `platforms/interface.py`, "Setting attention block size").
        """
        element = DTYPE_BYTES[dtype]
        states = [group.rank_bytes(element, tp) for group in self.groups if isinstance(group, State)]
        token = [group.rank_bytes_per_token(element, tp) for group in self.groups if isinstance(group, Attention)]
        return math.ceil(max(states) / min(token)) if states and token else 1

    def kv_bytes_per_token(self, dtype: str, tp: int = 1) -> int:
        """Over all ranks, of the layers that grow with every token (no windows, no states)."""
        element = DTYPE_BYTES[dtype]
        growing = [g for g in self.groups if isinstance(g, Latent) or (isinstance(g, Attention) and g.window is None)]
        stated = sum(group.bytes_per_token for group in self.groups if isinstance(group, Stated))
        return stated + tp * sum(group.layers * group.rank_bytes_per_token(element, tp) for group in growing)

    def transfer(self, tokens: int, block_size: int, dtype: str, tp: int = 1) -> Transfer:
        """What a prompt of `tokens` moves to a decode tier of `tp` ranks. Raises GeometryFault."""
        if faults := self.tp_faults(tp):
            raise GeometryFault("; ".join(faults))
        rank_bytes, fresh, aged = 0, 0, 0
        for group in self.groups:
            moved, pieces = _moved(group, tokens, block_size, DTYPE_BYTES[dtype], tp)
            rank_bytes += moved
            fresh += group.layers * (STATE_PIECES if isinstance(group, State) else 1)
            aged += pieces
        return Transfer(rank_bytes * tp, rank_bytes, fresh, aged)

    def tp_faults(self, tp: int) -> list[str]:
        """Why the model can't be split over `tp` GPUs; empty when it can."""
        return list(dict.fromkeys(fault for group in self.groups if (fault := group.tp_fault(tp))))


def _moved(group: Group, tokens: int, block_size: int, element: int, tp: int) -> tuple[int, int]:
    """(bytes of a rank, pieces in an aged cache) that a group's layers move."""
    if isinstance(group, State):
        return group.layers * group.rank_bytes(element, tp), STATE_PIECES * group.layers
    if isinstance(group, Stated):
        count = blocks(tokens, block_size)
        return count * block_size * group.bytes_per_token // tp, group.layers * count
    count = group.blocks(tokens, block_size)
    return group.layers * count * block_size * group.rank_bytes_per_token(element, tp), group.layers * count


def groups_to_json(groups: tuple[Group, ...]) -> list[dict[str, Any]]:
    """Layer groups as plain values, for the ledger, which keeps no nulls."""
    names = {kind: name for name, kind in KINDS.items()}
    return [
        {"kind": names[type(group)], **{k: v for k, v in asdict(group).items() if v is not None}} for group in groups
    ]


def groups_from_json(content: Sequence[Mapping[str, Any]]) -> tuple[Group, ...]:
    return tuple(KINDS[entry["kind"]](**{k: v for k, v in entry.items() if k != "kind"}) for entry in content)


def blocks(tokens: int, block_size: int) -> int:
    """KV blocks that hold `tokens`; a transfer moves whole blocks."""
    return math.ceil(tokens / block_size)
