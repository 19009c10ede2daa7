"""How many bytes of KV cache a model holds per token, from its Hugging Face `config.json`.

Knows attention with one head size in every layer (MHA, GQA). Any other architecture is refused by
name instead of being computed wrongly; the stack file may then state `model.kvBytesPerToken`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

DTYPE_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4, "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1}
"""Bytes per element by vLLM's `--dtype` or `--kv-cache-dtype` (vllm 0.32 `config/cache.py`)."""

# Keys whose presence means that not every layer holds 2 x kv_heads x head_dim per token.
_OTHER_GEOMETRIES = {
    "kv_lora_rank": "multi-head latent attention",
    "layer_types": "mixed layers",
    "mamba_d_state": "state-space layers",
    "linear_num_value_heads": "linear attention layers",
}


class GeometryUnknown(ValueError):
    """The model's KV geometry can't be told from its config; the message says why."""


@dataclass(frozen=True)
class Geometry:
    """A model's KV geometry. `kv_bytes_per_token` is for the whole model, all layers and heads."""

    layers: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    max_positions: int

    def kv_bytes_per_token(self, dtype: str) -> int:
        """Keys and values of every layer: layers x heads x head size x 2 x bytes per element.

        Source: vllm 0.32 `v1/kv_cache_interface.py`, AttentionSpec.page_size_bytes.
        """
        return self.layers * self.kv_heads * self.head_dim * 2 * DTYPE_BYTES[dtype]


def geometry(config: Mapping[str, Any]) -> Geometry:
    """Read a `config.json`. Raises GeometryUnknown for an architecture not listed above."""
    for key, what in _OTHER_GEOMETRIES.items():
        values = config.get(key)
        if values and not (key == "layer_types" and set(values) == {"full_attention"}):
            raise GeometryUnknown(f"`{key}` in config.json means {what}")
    if config.get("use_sliding_window") and config.get("sliding_window"):
        raise GeometryUnknown("`use_sliding_window` in config.json means sliding-window layers")
    missing = [k for k in ("num_hidden_layers", "num_attention_heads", "hidden_size") if k not in config]
    if missing:
        raise GeometryUnknown(f"config.json lacks {', '.join(f'`{key}`' for key in missing)}")
    heads = int(config["num_attention_heads"])
    return Geometry(
        layers=int(config["num_hidden_layers"]),
        kv_heads=int(config.get("num_key_value_heads") or heads),
        head_dim=int(config.get("head_dim") or int(config["hidden_size"]) // heads),
        vocabulary=int(config.get("vocab_size", 0)),
        max_positions=int(config.get("max_position_embeddings", 0)),
    )


def blocks(tokens: int, block_size: int) -> int:
    """KV blocks that hold `tokens`; a transfer moves whole blocks."""
    return math.ceil(tokens / block_size)


def transfer_bytes(tokens: int, block_size: int, kv_bytes_per_token: int) -> int:
    """Bytes that one prompt's KV cache moves: its blocks, each of them whole."""
    return blocks(tokens, block_size) * block_size * kv_bytes_per_token
