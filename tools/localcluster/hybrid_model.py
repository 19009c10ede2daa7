"""Make tiny models of attention and recurrent states: Granite 4's architecture (Mamba 2) and Qwen3.5's (gated
delta net).

Seeded and scaled as the other tiny model is, and with memories that last: each step forgets between a thousandth
and a half of a state, so that an answer depends on states that were moved as it does on moved attention blocks.
Names and shapes of tensors: transformers 5.19 `models/granitemoehybrid`, `models/qwen3_5`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tools.localcluster.model import ATTENTION_NORM, MAX_POSITIONS, SEED, VOCABULARY, write_model

Tensors = dict[str, NDArray[np.float32]]
HIDDEN, INTERMEDIATE = 256, 512
HEADS, KV_HEADS, HEAD_DIM = 8, 4, 64
STATE_HEADS, STATE_HEAD_DIM, STATE_DIM, KERNEL = 8, 64, 64, 4
KEY_HEADS = 4
"""Of a gated delta net; its value heads are STATE_HEADS."""
PERIOD, LAYERS = 4, 8
"""Every fourth layer is attention, as in Qwen3.5."""
STEP_LEAST, STEP_MOST = 0.001, 0.1
"""Mamba's own range of initial time steps (state-spaces/mamba `modules/mamba2.py`, dt_min and dt_max)."""
COMMON: dict[str, object] = {
    "vocab_size": VOCABULARY,
    "hidden_size": HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "max_position_embeddings": MAX_POSITIONS,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
    "torch_dtype": "float32",
    "bos_token_id": 0,
    "eos_token_id": 2,
    "pad_token_id": 0,
}


def make_hybrid(kind: str, folder: Path, corpus: str) -> None:
    """Write the model of a kind of MODELS; `corpus` trains its tokenizer."""
    config, weights = MODELS[kind]
    write_model(folder, corpus, config(), weights())


def granite_config() -> dict[str, object]:
    """Dense: no experts, one MLP a layer."""
    return COMMON | {
        "architectures": ["GraniteMoeHybridForCausalLM"],
        "model_type": "granitemoehybrid",
        "layer_types": _kinds("mamba", "attention"),
        "num_local_experts": 0,
        "num_experts_per_tok": 0,
        "shared_intermediate_size": INTERMEDIATE,
        "position_embedding_type": "nope",
        # Query and key have no norms here: the scale peaks the attention.
        "attention_multiplier": ATTENTION_NORM**2 / (HIDDEN // HEADS) ** 0.5,
        "mamba_n_heads": STATE_HEADS,
        "mamba_d_head": STATE_HEAD_DIM,
        "mamba_d_state": STATE_DIM,
        "mamba_n_groups": 1,
        "mamba_d_conv": KERNEL,
        # What vLLM takes on CPU whatever is named (vllm 0.32 `platforms/cpu.py`); here for the gate's expectation.
        "mamba_ssm_cache_dtype": "float32",
        "mamba_expand": STATE_HEADS * STATE_HEAD_DIM // HIDDEN,
    }


def qwen_config() -> dict[str, object]:
    return COMMON | {
        "architectures": ["Qwen3_5ForCausalLM"],
        "model_type": "qwen3_5_text",
        "layer_types": _kinds("linear_attention", "full_attention"),
        "head_dim": HEAD_DIM,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0, "partial_rotary_factor": 0.25},
        "intermediate_size": INTERMEDIATE,
        "linear_num_key_heads": KEY_HEADS,
        "linear_num_value_heads": STATE_HEADS,
        "linear_key_head_dim": STATE_DIM,
        "linear_value_head_dim": STATE_HEAD_DIM,
        "linear_conv_kernel_dim": KERNEL,
        # As Qwen3.5 has it: on GPUs the states would else be of the type of the model.
        "mamba_ssm_dtype": "float32",
    }


def granite_weights() -> Tensors:
    random = np.random.default_rng(SEED)
    inner, groups = STATE_HEADS * STATE_HEAD_DIM, 2 * STATE_DIM
    head_dim = HIDDEN // HEADS
    tensors = _outer(random)
    for layer, kind in enumerate(_kinds("mamba", "attention")):
        prefix = f"model.layers.{layer}."
        tensors |= _norms(prefix) | {
            prefix + "shared_mlp.input_linear.weight": _matrix(random, 2 * INTERMEDIATE, HIDDEN),
            prefix + "shared_mlp.output_linear.weight": _matrix(random, HIDDEN, INTERMEDIATE),
        }
        if kind == "attention":
            tensors |= _attention(random, prefix, HEADS * head_dim, HEADS * head_dim, KV_HEADS * head_dim)
            continue
        tensors |= _memory(random, prefix + "mamba.", inner + groups) | {
            prefix + "mamba.D": np.ones(STATE_HEADS, np.float32),
            prefix + "mamba.conv1d.bias": np.zeros(inner + groups, np.float32),
            prefix + "mamba.in_proj.weight": _matrix(random, 2 * inner + groups + STATE_HEADS, HIDDEN),
            prefix + "mamba.norm.weight": np.ones(inner, np.float32),
            prefix + "mamba.out_proj.weight": _matrix(random, HIDDEN, inner),
        }
    return tensors


def qwen_weights() -> Tensors:
    """Norms of this architecture are kept less one, but for the one within a delta net."""
    random = np.random.default_rng(SEED)
    keys, inner = KEY_HEADS * STATE_DIM, STATE_HEADS * STATE_HEAD_DIM
    tensors = _outer(random, norm=0.0)
    for layer, kind in enumerate(_kinds("linear", "full")):
        prefix = f"model.layers.{layer}."
        tensors |= _norms(prefix, norm=0.0) | {
            prefix + "mlp.gate_proj.weight": _matrix(random, INTERMEDIATE, HIDDEN),
            prefix + "mlp.up_proj.weight": _matrix(random, INTERMEDIATE, HIDDEN),
            prefix + "mlp.down_proj.weight": _matrix(random, HIDDEN, INTERMEDIATE),
        }
        if kind == "full":
            # The query's projection holds an output gate beside each head.
            tensors |= _attention(random, prefix, 2 * HEADS * HEAD_DIM, HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM) | {
                prefix + f"self_attn.{side}_norm.weight": np.full(HEAD_DIM, ATTENTION_NORM - 1, np.float32)
                for side in "qk"
            }
            continue
        tensors |= _memory(random, prefix + "linear_attn.", 2 * keys + inner) | {
            prefix + "linear_attn.in_proj_qkv.weight": _matrix(random, 2 * keys + inner, HIDDEN),
            prefix + "linear_attn.in_proj_z.weight": _matrix(random, inner, HIDDEN),
            prefix + "linear_attn.in_proj_b.weight": _matrix(random, STATE_HEADS, HIDDEN),
            prefix + "linear_attn.in_proj_a.weight": _matrix(random, STATE_HEADS, HIDDEN),
            prefix + "linear_attn.norm.weight": np.ones(STATE_HEAD_DIM, np.float32),
            prefix + "linear_attn.out_proj.weight": _matrix(random, HIDDEN, inner),
        }
    return tensors


def _kinds(state: str, attention: str) -> list[str]:
    return [attention if (layer + 1) % PERIOD == 0 else state for layer in range(LAYERS)]


def _matrix(random: np.random.Generator, rows: int, columns: int) -> NDArray[np.float32]:
    """Of the variance that keeps its input's scale."""
    return random.standard_normal((rows, columns), np.float32) / np.float32(np.sqrt(columns))


def _outer(random: np.random.Generator, norm: float = 1.0) -> Tensors:
    return {
        "model.embed_tokens.weight": random.standard_normal((VOCABULARY, HIDDEN), np.float32),
        "model.norm.weight": np.full(HIDDEN, norm, np.float32),
        "lm_head.weight": _matrix(random, VOCABULARY, HIDDEN) * np.float32(4),
    }


def _norms(prefix: str, norm: float = 1.0) -> Tensors:
    names = ("input_layernorm.weight", "post_attention_layernorm.weight")
    return {prefix + name: np.full(HIDDEN, norm, np.float32) for name in names}


def _attention(random: np.random.Generator, prefix: str, queries: int, outputs: int, keys: int) -> Tensors:
    return {
        prefix + "self_attn.q_proj.weight": _matrix(random, queries, HIDDEN),
        prefix + "self_attn.k_proj.weight": _matrix(random, keys, HIDDEN),
        prefix + "self_attn.v_proj.weight": _matrix(random, keys, HIDDEN),
        prefix + "self_attn.o_proj.weight": _matrix(random, HIDDEN, outputs),
    }


def _memory(random: np.random.Generator, prefix: str, channels: int) -> Tensors:
    """What a state forgets a step, exp(-A dt), and the convolution before it."""
    steps = np.exp(np.linspace(np.log(STEP_LEAST), np.log(STEP_MOST), STATE_HEADS))
    return {
        prefix + "A_log": np.log(np.arange(1, STATE_HEADS + 1)).astype(np.float32),
        # The inverse of softplus, through which the step goes.
        prefix + "dt_bias": (steps + np.log(-np.expm1(-steps))).astype(np.float32),
        prefix + "conv1d.weight": random.standard_normal((channels, 1, KERNEL), np.float32) / np.float32(KERNEL**0.5),
    }


MODELS: dict[str, tuple[Callable[[], dict[str, object]], Callable[[], Tensors]]] = {
    "tiny-granite-hybrid": (granite_config, granite_weights),
    "tiny-qwen3.5": (qwen_config, qwen_weights),
}
