"""How large a model's weights are, from its `config.json`. Pure.

Counted from the shapes of the transformer families that vLLM serves most (gated MLP, experts, MHA, GQA,
MLA, gated delta net, Mamba 2); norms and biases are left out, under one in a thousand. Small errors
don't matter to a memory check, a wrong family does: tests compare with published counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from components.hardware.geometry import DTYPE_BYTES, Attention, Group, Latent, Stated
from components.hardware.model_config import ModelConfig, ModelUnknown
from components.hardware.read_geometry import dtype, read_geometry

UNGATED = ("nemotron_h", "gpt2", "opt", "falcon", "starcoder2")
"""Families whose MLP has two matrices, not three."""
QUANTIZED_BITS = {"fp8": 8.0, "mxfp4": 4.25, "nvfp4": 4.5, "awq": 4.25, "gptq": 4.25, "modelopt": 8.0}
"""Bits a weight with its scales: 4-bit formats keep one 8-bit scale for 32 (MXFP4) or 16 (NVFP4)."""


def parameters(content: Mapping[str, Any]) -> int:
    """The number of weights. Raises ModelUnknown."""
    config = ModelConfig(content)
    geometry = read_geometry(content)
    hidden = config.integer("hidden_size")
    embeddings = config.integer("vocab_size") * hidden * (1 if config.content.get("tie_word_embeddings") else 2)
    mixers = sum(group.layers * _mixer(config, group, hidden) for group in geometry.groups)
    total = embeddings + mixers + _feed_forward(config, hidden)
    config.check()
    return total


def weights_bytes(content: Mapping[str, Any]) -> int:
    """Bytes of the weights as they are loaded. Raises ModelUnknown for a quantization not listed."""
    config = ModelConfig(content)
    quantization = config.content.get("quantization_config")
    if isinstance(quantization, Mapping):
        method = str(quantization.get("quant_method", ""))
        bits = quantization.get("bits", QUANTIZED_BITS.get(method))
        if not isinstance(bits, int | float) or not 1 <= bits <= 32:
            config.fault(f"`quantization_config` in config.json: how large weights of `{method}` are is unknown")
            config.check()
            return 0
        return int(parameters(content) * bits / 8)
    return parameters(content) * DTYPE_BYTES.get(dtype(content), 2)


def _mixer(config: ModelConfig, group: Group, hidden: int) -> int:
    if isinstance(group, Attention):
        queries = config.integer("num_attention_heads") * group.head_dim
        gate = queries if config.model_type == "qwen3_next" else 0
        return hidden * (queries + gate + 2 * group.kv_heads * group.head_dim) + queries * hidden
    if isinstance(group, Latent):
        return _latent(config, hidden)
    if isinstance(group, Stated):
        raise ModelUnknown(["the layers' shapes are not known"])
    if config.has("linear_num_value_heads"):
        values = group.heads * config.integer("linear_value_head_dim")
        keys = config.integer("linear_num_key_heads") * config.integer("linear_key_head_dim")
        return hidden * (2 * keys + 2 * values + 2 * group.heads) + values * hidden
    inner = group.heads * config.integer("mamba_head_dim", config.integer("mamba_d_head", 0, least=0))
    convolved = group.convolution // (config.integer("conv_kernel", config.integer("mamba_d_conv", 4)) - 1)
    return hidden * (inner + convolved + group.heads) + inner * hidden


def _latent(config: ModelConfig, hidden: int) -> int:
    heads = config.integer("num_attention_heads")
    rank, rope = config.integer("kv_lora_rank"), config.integer("qk_rope_head_dim")
    plain, value = config.integer("qk_nope_head_dim"), config.integer("v_head_dim")
    query_rank = config.integer("q_lora_rank", 0, least=0)
    queries = heads * (plain + rope)
    asked = (hidden + queries) * query_rank if query_rank else hidden * queries
    return asked + hidden * (rank + rope) + rank * heads * (plain + value) + heads * value * hidden


def _feed_forward(config: ModelConfig, hidden: int) -> int:
    """All layers' MLPs and experts, routers included."""
    matrices = 2 if config.model_type in UNGATED else 3
    dense = matrices * hidden * config.integer("intermediate_size", 0, least=0)
    experts = next((config.integer(key) for key in ("n_routed_experts", "num_experts", "num_local_experts")
                    if config.has(key)), 0)  # fmt: skip
    layers = _feed_forward_layers(config)
    if not experts:
        return layers * dense
    width = config.integer("moe_intermediate_size", config.integer("intermediate_size", 0, least=0))
    shared = config.integer("n_shared_experts", 0, least=0) * width or config.integer(
        "shared_expert_intermediate_size", 0, least=0)  # fmt: skip
    shared = config.integer("moe_shared_expert_intermediate_size", shared, least=0)
    first_dense = config.integer("first_k_dense_replace", 0, least=0)
    sparse = matrices * hidden * (experts * width + shared) + hidden * experts
    return first_dense * dense + (layers - first_dense) * sparse


def _feed_forward_layers(config: ModelConfig) -> int:
    """In Nemotron-H a layer is a mixer or an MLP; elsewhere it is both."""
    pattern = config.content.get("hybrid_override_pattern")
    if isinstance(pattern, str):
        return pattern.count("-") + pattern.count("E")
    return config.integer("num_hidden_layers")
