"""KV bytes per token follow from a model's config; architectures that are not computed are refused."""

from __future__ import annotations

from typing import Any

import pytest

from components.hardware.geometry import GeometryUnknown, geometry, transfer_bytes

# layers, heads, KV heads, head size, and KiB per token in BF16, from each model's own config.json
MODELS = [
    ("Qwen2.5-7B", 28, 28, 4, 128, 56),
    ("Qwen3-0.6B", 28, 16, 8, 128, 112),
    ("Llama-3.1-8B", 32, 32, 8, 128, 128),
    ("Qwen3-32B", 64, 64, 8, 128, 256),
    ("Llama-3.1-70B", 80, 64, 8, 128, 320),
]


def config(layers: int, heads: int, kv_heads: int, head_dim: int, **more: Any) -> dict[str, Any]:
    return {
        "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv_heads,
        "head_dim": head_dim, "hidden_size": heads * head_dim, "vocab_size": 1000, **more,
    }  # fmt: skip


@pytest.mark.parametrize(("name", "layers", "heads", "kv_heads", "head_dim", "kib"), MODELS)
def test_bytes_per_token(name: str, layers: int, heads: int, kv_heads: int, head_dim: int, kib: int) -> None:
    assert geometry(config(layers, heads, kv_heads, head_dim)).kv_bytes_per_token("bfloat16") == kib * 1024, name


def test_a_prompt_of_8192_tokens_of_qwen2_5_7b_moves_about_470_mb() -> None:
    assert transfer_bytes(8192, 16, 56 * 1024) == pytest.approx(470e6, rel=0.001)


def test_whole_blocks_move() -> None:
    assert transfer_bytes(4434, 128, 8192) == 36_700_160  # measured on vLLM 0.32


@pytest.mark.parametrize(
    "other",
    [
        {"kv_lora_rank": 512},
        {"layer_types": ["full_attention", "sliding_attention"]},
        {"mamba_d_state": 128},
        {"use_sliding_window": True, "sliding_window": 4096},
    ],
)
def test_another_geometry_is_refused_by_name(other: dict[str, Any]) -> None:
    with pytest.raises(GeometryUnknown, match=next(iter(other))):
        geometry(config(28, 28, 4, 128, **other))


def test_layers_that_are_all_full_attention_are_known() -> None:
    assert geometry(config(2, 4, 2, 64, layer_types=["full_attention"] * 2)).layers == 2


def test_a_config_without_layers_says_what_it_lacks() -> None:
    with pytest.raises(GeometryUnknown, match="num_hidden_layers"):
        geometry({"hidden_size": 8, "num_attention_heads": 2})
