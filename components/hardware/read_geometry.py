"""A model's KV geometry from its Hugging Face `config.json`. Pure.

What isn't known is refused by name, never computed as if it were plain attention; the stack file may
then state `model.kvBytesPerToken`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from components.hardware.geometry import Attention, Geometry, Latent, State
from components.hardware.model_config import ModelConfig

FULL, SLIDING, LINEAR, MAMBA, NONE = "full_attention", "sliding_attention", "linear_attention", "mamba", "mlp"
LAYER_KINDS = {FULL: FULL, SLIDING: SLIDING, LINEAR: LINEAR, MAMBA: MAMBA, "attention": FULL, "global": FULL}
NEMOTRON_KINDS = {"M": MAMBA, "*": FULL, "-": NONE, "E": NONE}
"""`hybrid_override_pattern` of Nemotron-H: Mamba, attention, MLP, experts."""
WINDOW_EVERYWHERE = ("mistral", "starcoder2")
UNKNOWN_KEYS = {
    "num_kv_shared_layers": "layers that share a KV cache",
    "attention_chunk_size": "chunked attention",
    "cross_attention_layers": "cross-attention layers",
    "is_encoder_decoder": "an encoder and a decoder",
    "rwkv_version": "RWKV layers",
    "lightning_attention": "lightning attention",
}
UNKNOWN_TYPES = {"falcon_h1": "attention and state in one layer", "jamba": "Mamba 1 layers", "mamba": "Mamba 1 layers"}


def read_geometry(content: Mapping[str, Any]) -> Geometry:
    """The geometry that a config describes. Raises ModelUnknown with every fault."""
    config = ModelConfig(content)
    for key, what in UNKNOWN_KEYS.items():
        if config.has(key):
            config.fault(f"`{key}` in config.json means {what}, whose KV cache is not computed")
    if config.model_type in UNKNOWN_TYPES:
        config.fault(f"model_type {config.model_type} means {UNKNOWN_TYPES[config.model_type]}, not computed")
    layers = config.integer("num_hidden_layers")
    kinds = _kinds(config, layers) or [FULL]
    groups = tuple(
        group for kind in (FULL, SLIDING, LINEAR, MAMBA) if (group := _group(config, kind, kinds.count(kind)))
    )
    vocabulary = config.integer("vocab_size", 0, least=0)
    positions = config.integer("max_position_embeddings", 0, least=0)
    config.check()
    return Geometry(groups, vocabulary, positions, dtype(content))


def dtype(content: Mapping[str, Any]) -> str:
    """The type that the weights are published in, as vLLM's `auto` takes it."""
    config = ModelConfig(content).content
    return str(config.get("dtype") or config.get("torch_dtype") or "bfloat16")


def _kinds(config: ModelConfig, layers: int) -> list[str]:
    """What each layer is, in order."""
    if config.has("hybrid_override_pattern"):
        kinds = [NEMOTRON_KINDS.get(c, c) for c in config.words("hybrid_override_pattern")]
    elif config.has("attn_layer_indices"):
        with_attention = set(config.content["attn_layer_indices"])
        kinds = [FULL if i in with_attention else MAMBA for i in range(layers)]
    elif config.has("layer_types") or config.has("layers_block_type"):
        words = config.words("layer_types") or config.words("layers_block_type")
        kinds = [LAYER_KINDS.get(word, word) for word in words]
    else:
        return _kinds_by_pattern(config, layers)
    for kind in sorted(set(kinds) - {FULL, SLIDING, LINEAR, MAMBA, NONE}):
        config.fault(f"config.json has layers of kind `{kind}`, whose KV cache is not computed")
    if len(kinds) != layers:
        config.fault(f"config.json names {len(kinds)} layers and says `num_hidden_layers` {layers}")
    return kinds


def _kinds_by_pattern(config: ModelConfig, layers: int) -> list[str]:
    """Older configs say by a period, or by one window, which layers are which."""
    kind = config.model_type
    if config.has("full_attention_interval"):
        every = config.integer("full_attention_interval")
        return [FULL if every and (i + 1) % every == 0 else LINEAR for i in range(layers)]
    if config.has("mamba_d_state"):
        config.fault("config.json has `mamba_d_state` but doesn't say which layers are Mamba")
    if not config.has("sliding_window") or config.content.get("use_sliding_window") is False:
        return [FULL] * layers
    if config.has("sliding_window_pattern"):
        every = config.integer("sliding_window_pattern")
        return [FULL if every and (i + 1) % every == 0 else SLIDING for i in range(layers)]
    if config.has("use_sliding_window"):
        first = config.integer("max_window_layers", layers, least=0)
        return [SLIDING if i >= first else FULL for i in range(layers)]
    if kind not in WINDOW_EVERYWHERE:
        config.fault(f"config.json has `sliding_window` but doesn't say which layers of a {kind or 'model'} use it")
    return [SLIDING] * layers


def _group(config: ModelConfig, kind: str, layers: int) -> Attention | Latent | State | None:
    if not layers:
        return None
    if kind == LINEAR:
        return _delta_net(config, layers)
    if kind == MAMBA:
        return _mamba(config, layers)
    if config.has("kv_lora_rank"):
        width = config.integer("kv_lora_rank") + config.integer("qk_rope_head_dim")
        return Latent(layers, width, config.integer("index_head_dim", 0, least=0))
    heads = config.integer("num_attention_heads")
    kv_heads = config.integer("num_key_value_heads", heads)
    if heads and kv_heads and heads % kv_heads:
        config.fault(f"config.json: `num_attention_heads` {heads} is no multiple of `num_key_value_heads` {kv_heads}")
    window = config.integer("sliding_window") if kind == SLIDING else None
    return Attention(layers, kv_heads, _head_dim(config, heads), window, heads)


def _head_dim(config: ModelConfig, heads: int) -> int:
    for key in ("head_dim", "attention_head_dim"):
        if config.has(key):
            return config.integer(key)
    hidden = config.integer("hidden_size")
    if heads and hidden % heads:
        config.fault(f"config.json lacks `head_dim`, and `hidden_size` {hidden} is no multiple of {heads} heads")
    return hidden // heads if heads else 0


def _delta_net(config: ModelConfig, layers: int) -> State:
    """Gated delta net (Qwen3-Next, Qwen3.5): vllm 0.32 `mamba_utils.py` gated_delta_net_state_shape; the type of
    the state as Qwen3.5's config names it (`models/config.py` Qwen3_5ForConditionalGenerationConfig)."""
    key = config.integer("linear_num_key_heads") * config.integer("linear_key_head_dim")
    heads, width = config.integer("linear_num_value_heads"), config.integer("linear_value_head_dim")
    kernel = config.integer("linear_conv_kernel_dim")
    recurrent = heads * width * config.integer("linear_key_head_dim")
    own = config.content.get("mamba_ssm_dtype")
    return State(layers, (2 * key + heads * width) * (kernel - 1), recurrent, heads, own)


def _mamba(config: ModelConfig, layers: int) -> State:
    """Mamba 2 (Bamba, Granite 4, Nemotron-H): vllm 0.32 `mamba_utils.py` mamba2_state_shape."""
    nemotron = config.has("hybrid_override_pattern")
    heads = config.integer("mamba_num_heads" if nemotron else "mamba_n_heads")
    width = config.integer("mamba_head_dim" if nemotron else "mamba_d_head")
    state = config.integer("ssm_state_size" if nemotron else "mamba_d_state")
    groups = config.integer("n_groups" if nemotron else "mamba_n_groups")
    kernel = config.integer("conv_kernel" if nemotron else "mamba_d_conv")
    own = config.content.get("mamba_ssm_cache_dtype")
    recurrent = heads * width * state
    return State(layers, (heads * width + 2 * groups * state) * (kernel - 1), recurrent, heads, own)
