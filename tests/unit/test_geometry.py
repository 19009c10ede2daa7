"""A model's KV cache follows from its config; vLLM's own code says the same; the rest is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.hardware.geometry import (
    Attention,
    Geometry,
    GeometryFault,
    State,
    Stated,
    groups_from_json,
    groups_to_json,
)
from components.hardware.known_models import UnknownModel, known_model, known_models
from components.hardware.model_config import ModelUnknown
from components.hardware.read_geometry import read_geometry
from tools.localcluster.hybrid_model import granite_config, qwen_config

RECORDED = Path(__file__).resolve().parents[1] / "data/vllm-0.32-kv-cache.jsonl"
VLLM = [json.loads(line) for line in RECORDED.read_text().splitlines()]
ANSWERED = [row for row in VLLM if row["error"] is None]
REFUSED = [row for row in VLLM if row["error"]]

# The published table: model, KiB a token in BF16, MB of 8,192 tokens.
TABLE = [
    ("qwen2.5-7b", 56, 470),
    ("qwen3-0.6b", 112, 940),
    ("llama-3.1-8b", 128, 1074),
    ("qwen3-32b", 256, 2147),
    ("llama-3.1-70b", 320, 2684),
    ("qwen3-235b-a22b", 188, 1577),
    ("deepseek-v3", 68.625, 576),
]


def name_of(row: dict[str, Any]) -> str:
    return f"{row['model']} tp {row['tp']}"


@pytest.mark.parametrize(("name", "kib", "megabytes"), TABLE)
def test_the_published_table_is_reproduced(name: str, kib: float, megabytes: float) -> None:
    geometry = read_geometry(known_model(name))
    assert geometry.kv_bytes_per_token("bfloat16") == kib * 1024
    assert geometry.transfer(8192, 16, "bfloat16").total_bytes / 1e6 == pytest.approx(megabytes, abs=0.5)


def test_ten_thousand_tokens_of_a_70b_model_are_about_3_gb() -> None:
    moved = read_geometry(known_model("llama-3.1-70b")).transfer(10_000, 16, "bfloat16").total_bytes
    assert moved == pytest.approx(3.28e9, rel=0.001)


@pytest.mark.parametrize("row", ANSWERED, ids=name_of)
def test_vllm_itself_allocates_the_same_for_each_model_and_rank(row: dict[str, Any]) -> None:
    """Bytes a token of layers that grow, of each window's layers, and of states, on one GPU."""
    geometry, tp = read_geometry(known_model(row["model"])), row["tp"]
    assert geometry.kv_bytes_per_token("bfloat16", tp) == row["kv_bytes_per_token_full"] * tp
    states = [group for group in geometry.groups if isinstance(group, State)]
    assert sum(group.layers * group.rank_bytes(2, tp) for group in states) == row["state_bytes"]
    windows = {
        group.window: group.layers * group.rank_bytes_per_token(2, tp)
        for group in geometry.groups
        if isinstance(group, Attention) and group.window
    }
    assert windows == {
        group["sliding_window"]: group["layers"] * group["page_size_bytes"] // group["block_size"]
        for group in row["groups"]
        if group["sliding_window"]
    }


@pytest.mark.parametrize("row", REFUSED, ids=name_of)
def test_what_vllm_refuses_to_split_is_refused(row: dict[str, Any]) -> None:
    assert read_geometry(known_model(row["model"])).tp_faults(row["tp"])


def test_at_least_twelve_models_are_held_against_vllm() -> None:
    assert len({row["model"] for row in ANSWERED}) >= 12
    assert {row["model"] for row in VLLM} == set(known_models())


def test_a_window_sends_its_own_blocks_and_one_more() -> None:
    layers = Attention(1, 1, 64, window=1024)
    assert layers.blocks(100_000, 128) == 9
    assert layers.blocks(200, 128) == 2


def test_an_aged_cache_moves_a_piece_for_each_block_of_each_layer() -> None:
    moved = read_geometry(known_model("qwen2.5-7b")).transfer(8192, 16, "bfloat16")
    assert (moved.descriptors_fresh, moved.descriptors_aged) == (28, 28 * 512)


def test_states_move_in_four_pieces_a_layer_as_measured() -> None:
    """docs/measurements/connectors-cpu.md: 361 and 777 tokens of the tiny Granite, blocks of 288 tokens."""
    geometry = read_geometry(granite_config())
    assert geometry.least_block_size("bfloat16") == 264
    moved = {tokens: geometry.transfer(tokens, 288, "bfloat16") for tokens in (24, 361, 777)}
    assert {tokens: one.total_bytes for tokens, one in moved.items()} == {24: 1_104_384, 361: 1_399_296, 777: 1_694_208}
    assert (moved[361].descriptors_fresh, moved[777].descriptors_aged) == (26, 30)


def test_the_type_of_a_delta_net_s_state_is_the_one_that_the_config_names() -> None:
    named = read_geometry(qwen_config())
    unnamed = read_geometry({key: value for key, value in qwen_config().items() if key != "mamba_ssm_dtype"})
    states = 6 * 8 * 64 * 64
    assert (
        named.transfer(1, 160, "bfloat16").total_bytes - unnamed.transfer(1, 160, "bfloat16").total_bytes == 2 * states
    )


def test_latent_attention_goes_whole_to_every_rank() -> None:
    geometry = read_geometry(known_model("deepseek-v3"))
    one, eight = (geometry.transfer(4096, 64, "bfloat16", tp) for tp in (1, 8))
    assert eight.rank_bytes == one.rank_bytes and eight.total_bytes == 8 * one.total_bytes


@pytest.mark.parametrize("dtype", ["fp8", "fp8_e4m3", "fp8_e5m2"])
def test_an_fp8_cache_is_half_as_large(dtype: str) -> None:
    geometry = read_geometry(known_model("llama-3.1-70b"))
    assert geometry.kv_bytes_per_token(dtype) * 2 == geometry.kv_bytes_per_token("bfloat16")


def test_whole_blocks_move() -> None:
    assert Geometry((Stated(1, 8192),), 0, 0).transfer(4434, 128, "bfloat16").total_bytes == 36_700_160  # on vLLM 0.32


def test_ranks_that_do_not_divide_the_heads_are_refused() -> None:
    with pytest.raises(GeometryFault, match="28 attention heads can't be split over 8 GPUs"):
        read_geometry(known_model("qwen2.5-7b")).transfer(100, 16, "bfloat16", 8)


@given(st.sampled_from(known_models()), st.integers(1, 10**6), st.integers(1, 10**6), st.sampled_from([16, 64, 128]))
def test_more_tokens_never_move_fewer_bytes_or_pieces(name: str, left: int, right: int, block: int) -> None:
    geometry = read_geometry(known_model(name))
    small, large = (geometry.transfer(n, block, "bfloat16") for n in sorted((left, right)))
    assert small.total_bytes <= large.total_bytes
    assert small.descriptors_aged <= large.descriptors_aged
    assert small.descriptors_fresh == large.descriptors_fresh


@given(st.sampled_from(["llama-3.1-8b", "deepseek-v3", "qwen3-32b"]), st.integers(1, 10**5), st.integers(1, 50))
def test_bytes_are_proportional_to_blocks_where_every_layer_grows(name: str, blocks: int, times: int) -> None:
    geometry = read_geometry(known_model(name))
    assert geometry.is_uniform
    one, many = (geometry.transfer(n * 128, 128, "bfloat16").total_bytes for n in (blocks, blocks * times))
    assert many == times * one


@given(st.sampled_from(known_models()))
def test_a_geometry_survives_the_ledger(name: str) -> None:
    groups = read_geometry(known_model(name)).groups
    assert groups_from_json(json.loads(json.dumps(groups_to_json(groups)))) == groups


def spoiled(**changes: Any) -> dict[str, Any]:
    return known_model("llama-3.1-8b") | changes


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "lacks `num_hidden_layers`"),
        (spoiled(num_hidden_layers=-1), "`num_hidden_layers` in config.json: found -1, allowed 1 to"),
        (spoiled(num_hidden_layers=float("nan")), "found nan, wanted a whole number"),
        (spoiled(hidden_size=10**12, head_dim=None), "`hidden_size` in config.json: found 1e+12"),
        (spoiled(num_key_value_heads=5), "is no multiple of `num_key_value_heads` 5"),
        (spoiled(num_key_value_heads="8"), "`num_key_value_heads` in config.json: found '8', wanted a whole number"),
        (spoiled(head_dim=None, hidden_size=4097), "`hidden_size` 4097 is no multiple of 32 heads"),
        (spoiled(layer_types=["full_attention"]), "names 1 layers and says `num_hidden_layers` 32"),
        (spoiled(layer_types=["retention"] * 32), "layers of kind `retention`"),
        (spoiled(sliding_window=4096), "doesn't say which layers"),
        (spoiled(mamba_d_state=128), "doesn't say which layers are Mamba"),
        (spoiled(attention_chunk_size=8192), "chunked attention"),
        (spoiled(num_kv_shared_layers=4), "share a KV cache"),
        (spoiled(model_type="falcon_h1"), "attention and state in one layer"),
    ],
)
def test_a_config_that_does_not_tell_is_refused_by_name(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelUnknown) as caught:
        read_geometry(config)
    assert any(message in fault for fault in caught.value.faults), caught.value.faults


def test_all_faults_of_a_config_come_at_once() -> None:
    with pytest.raises(ModelUnknown) as caught:
        read_geometry({"num_hidden_layers": -1, "num_attention_heads": "x"})
    assert len(caught.value.faults) >= 3


def test_an_unknown_model_names_the_nearest() -> None:
    with pytest.raises(UnknownModel, match=r"did you mean llama-3\.1-70b"):
        known_model("meta-llama/Llama-3.1-71B-Instruct")
