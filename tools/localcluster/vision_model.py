"""Make the tiny vision model of the encoder tier's tests: Qwen2-VL's architecture, random weights.

Seeded and scaled as `model.py` does it, for the same reasons: each answer depends on the whole prompt, the
image included, so a wrong or missing embedding shows in the text.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tools.localcluster.model import MAX_POSITIONS, VOCABULARY, write_model

SEED = 20261130
HIDDEN, INTERMEDIATE, LAYERS, HEADS, KV_HEADS, HEAD_DIM = 256, 512, 4, 4, 2, 64
VISION, VISION_LAYERS, VISION_HEADS, VISION_RATIO = 128, 2, 2, 2
PATCH, TEMPORAL, MERGE, CHANNELS = 14, 2, 2, 3
QUERY_SCALE = 2.0
"""On queries and keys each: attention logits of a standard deviation of about 4 are peaked."""
IMAGE_SCALE = 4.0
"""On the projector: without it the answer would hardly depend on the image."""
SPECIAL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>",
                  "<|image_pad|>", "<|video_pad|>"]  # fmt: skip

# The form of Qwen2-VL's own template without tools:
# https://huggingface.co/Qwen/Qwen2-VL-2B-Instruct/blob/main/chat_template.json
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% if message.content is string %}{{ message.content }}{% else %}{% for part in message.content %}"
    "{% if part.type in ('image', 'image_url') or 'image' in part %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif part.type in ('video', 'video_url') or 'video' in part %}<|vision_start|><|video_pad|><|vision_end|>"
    "{% elif 'text' in part %}{{ part.text }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
MEAN = [0.48145466, 0.4578275, 0.40821073]
DEVIATION = [0.26862954, 0.26130258, 0.27577711]
PIXELS = {"shortest_edge": 56 * 56, "longest_edge": 448 * 448}


def make_vision_model(folder: Path, corpus: str) -> None:
    """Write config, weights, tokenizer, chat template and processors; `corpus` trains the tokenizer."""
    write_model(
        folder, corpus, config(), text_weights() | vision_weights(), special_tokens=SPECIAL_TOKENS, template=CHAT_TEMPLATE,
        more={
            "preprocessor_config.json": processor("Qwen2VLImageProcessor", "image_processor_type"),
            "video_preprocessor_config.json": processor("Qwen2VLVideoProcessor", "video_processor_type"),
        },
    )  # fmt: skip


def config() -> dict[str, object]:
    return {
        "architectures": ["Qwen2VLForConditionalGeneration"],
        "model_type": "qwen2_vl",
        "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": MAX_POSITIONS,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": 1000000.0,
        # Sections of half a head for time, height and width.
        "rope_scaling": {"type": "mrope", "mrope_section": [8, 12, 12]},
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
        "eos_token_id": 2,
        "bos_token_id": 0,
        "vision_start_token_id": SPECIAL_TOKENS.index("<|vision_start|>"),
        "vision_end_token_id": SPECIAL_TOKENS.index("<|vision_end|>"),
        "image_token_id": SPECIAL_TOKENS.index("<|image_pad|>"),
        "video_token_id": SPECIAL_TOKENS.index("<|video_pad|>"),
        "vision_config": {
            "model_type": "qwen2_vl",
            "depth": VISION_LAYERS,
            "embed_dim": VISION,
            "hidden_size": HIDDEN,
            "num_heads": VISION_HEADS,
            "mlp_ratio": VISION_RATIO,
            "in_channels": CHANNELS,
            "patch_size": PATCH,
            "spatial_merge_size": MERGE,
            "temporal_patch_size": TEMPORAL,
        },
    }


def processor(name: str, kind: str) -> dict[str, object]:
    """Settings of one of transformers' processors."""
    return {
        kind: name,
        "processor_class": "Qwen2VLProcessor",
        "image_mean": MEAN,
        "image_std": DEVIATION,
        "patch_size": PATCH,
        "temporal_patch_size": TEMPORAL,
        "merge_size": MERGE,
        "size": PIXELS,
        "min_pixels": PIXELS["shortest_edge"],
        "max_pixels": PIXELS["longest_edge"],
    }


def text_weights() -> dict[str, NDArray[np.float32]]:
    random = np.random.default_rng(SEED)
    tensors = {
        "model.embed_tokens.weight": random.standard_normal((VOCABULARY, HIDDEN), np.float32),
        "model.norm.weight": _ones(HIDDEN),
        "lm_head.weight": _matrix(random, VOCABULARY, HIDDEN, 4),
    }
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        tensors |= {
            prefix + "input_layernorm.weight": _ones(HIDDEN),
            prefix + "post_attention_layernorm.weight": _ones(HIDDEN),
            prefix + "self_attn.q_proj.weight": _matrix(random, HEADS * HEAD_DIM, HIDDEN, QUERY_SCALE),
            prefix + "self_attn.k_proj.weight": _matrix(random, KV_HEADS * HEAD_DIM, HIDDEN, QUERY_SCALE),
            prefix + "self_attn.v_proj.weight": _matrix(random, KV_HEADS * HEAD_DIM, HIDDEN),
            prefix + "self_attn.q_proj.bias": _zeros(HEADS * HEAD_DIM),
            prefix + "self_attn.k_proj.bias": _zeros(KV_HEADS * HEAD_DIM),
            prefix + "self_attn.v_proj.bias": _zeros(KV_HEADS * HEAD_DIM),
            prefix + "self_attn.o_proj.weight": _matrix(random, HIDDEN, HEADS * HEAD_DIM),
            prefix + "mlp.gate_proj.weight": _matrix(random, INTERMEDIATE, HIDDEN),
            prefix + "mlp.up_proj.weight": _matrix(random, INTERMEDIATE, HIDDEN),
            prefix + "mlp.down_proj.weight": _matrix(random, HIDDEN, INTERMEDIATE),
        }
    return tensors


def vision_weights() -> dict[str, NDArray[np.float32]]:
    random = np.random.default_rng(SEED + 1)
    merged, wide = VISION * MERGE**2, VISION * VISION_RATIO
    patch = _matrix(random, VISION, CHANNELS * TEMPORAL * PATCH**2)
    tensors = {
        "visual.patch_embed.proj.weight": patch.reshape(VISION, CHANNELS, TEMPORAL, PATCH, PATCH),
        **_norm("visual.merger.ln_q", VISION),
        **_linear(random, "visual.merger.mlp.0", merged, merged),
        **_linear(random, "visual.merger.mlp.2", HIDDEN, merged, IMAGE_SCALE),
    }
    for layer in range(VISION_LAYERS):
        prefix = f"visual.blocks.{layer}."
        tensors |= {
            **_norm(prefix + "norm1", VISION),
            **_norm(prefix + "norm2", VISION),
            **_linear(random, prefix + "attn.qkv", 3 * VISION, VISION),
            **_linear(random, prefix + "attn.proj", VISION, VISION),
            **_linear(random, prefix + "mlp.fc1", wide, VISION),
            **_linear(random, prefix + "mlp.fc2", VISION, wide),
        }
    return tensors


def _matrix(random: np.random.Generator, rows: int, columns: int, scale: float = 1.0) -> NDArray[np.float32]:
    """Of the variance that keeps its input's scale, times `scale`."""
    return random.standard_normal((rows, columns), np.float32) * np.float32(scale / np.sqrt(columns))


def _linear(random: np.random.Generator, name: str, rows: int, columns: int,
            scale: float = 1.0) -> dict[str, NDArray[np.float32]]:  # fmt: skip
    return {f"{name}.weight": _matrix(random, rows, columns, scale), f"{name}.bias": _zeros(rows)}


def _norm(name: str, size: int) -> dict[str, NDArray[np.float32]]:
    return {f"{name}.weight": _ones(size), f"{name}.bias": _zeros(size)}


def _ones(size: int) -> NDArray[np.float32]:
    return np.ones(size, np.float32)


def _zeros(size: int) -> NDArray[np.float32]:
    return np.zeros(size, np.float32)
