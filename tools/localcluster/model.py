"""Make the tiny model that the local cluster serves: Qwen3's architecture, random weights.

The weights are seeded, so that every machine makes the same model, and scaled so that each answer
depends on the whole prompt: attention is peaked and the output layer is untied. With weights near
zero (`--load-format dummy`) all answers would look alike, and a wrong KV cache would go unseen.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

SEED = 20261129
HIDDEN, INTERMEDIATE, LAYERS, HEADS, KV_HEADS, HEAD_DIM = 256, 512, 8, 8, 4, 64
VOCABULARY = 2048
MAX_POSITIONS = 32768
# Query and key norms of 2 give attention logits a standard deviation of about 4: peaked.
ATTENTION_NORM = 2.0
SPECIAL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]

# The form of Qwen's own template without tools or reasoning:
# https://huggingface.co/Qwen/Qwen3-0.6B/blob/main/tokenizer_config.json
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def make_model(folder: Path, corpus: str) -> None:
    """Write config, weights, tokenizer and chat template; `corpus` trains the tokenizer."""
    write_model(folder, corpus, config(), weights())


def write_model(folder: Path, corpus: str, config: dict[str, object], tensors: dict[str, NDArray[np.float32]], *,
                special_tokens: Sequence[str] = SPECIAL_TOKENS, template: str = CHAT_TEMPLATE,
                more: Mapping[str, object] | None = None) -> None:  # fmt: skip
    """Write a model of VOCABULARY tokens whole or not at all; `more` are further JSON files by name."""
    partial = folder.with_name(folder.name + ".partial")
    partial.mkdir(parents=True, exist_ok=True)
    files = {"config.json": config, "generation_config.json": {"eos_token_id": 2, "pad_token_id": 0}, **(more or {})}
    for name, content in files.items():
        _write_json(partial / name, content)
    _write_tokenizer(partial, corpus, special_tokens, template)
    save_file(tensors, partial / "model.safetensors", metadata={"format": "pt"})
    partial.rename(folder)


def config() -> dict[str, object]:
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": MAX_POSITIONS,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": 1000000.0,
        "attention_bias": False,
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
        "eos_token_id": 2,
        "bos_token_id": 0,
    }


def weights() -> dict[str, NDArray[np.float32]]:
    """Random weights by name, each of the variance that keeps its input's scale."""
    random = np.random.default_rng(SEED)

    def matrix(rows: int, columns: int) -> NDArray[np.float32]:
        return random.standard_normal((rows, columns), np.float32) / np.float32(np.sqrt(columns))

    def ones(size: int, value: float = 1.0) -> NDArray[np.float32]:
        return np.full(size, value, np.float32)

    tensors = {
        "model.embed_tokens.weight": random.standard_normal((VOCABULARY, HIDDEN), np.float32),
        "model.norm.weight": ones(HIDDEN),
        "lm_head.weight": matrix(VOCABULARY, HIDDEN) * np.float32(4),
    }
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        tensors |= {
            prefix + "input_layernorm.weight": ones(HIDDEN),
            prefix + "post_attention_layernorm.weight": ones(HIDDEN),
            prefix + "self_attn.q_norm.weight": ones(HEAD_DIM, ATTENTION_NORM),
            prefix + "self_attn.k_norm.weight": ones(HEAD_DIM, ATTENTION_NORM),
            prefix + "self_attn.q_proj.weight": matrix(HEADS * HEAD_DIM, HIDDEN),
            prefix + "self_attn.k_proj.weight": matrix(KV_HEADS * HEAD_DIM, HIDDEN),
            prefix + "self_attn.v_proj.weight": matrix(KV_HEADS * HEAD_DIM, HIDDEN),
            prefix + "self_attn.o_proj.weight": matrix(HIDDEN, HEADS * HEAD_DIM),
            prefix + "mlp.gate_proj.weight": matrix(INTERMEDIATE, HIDDEN),
            prefix + "mlp.up_proj.weight": matrix(INTERMEDIATE, HIDDEN),
            prefix + "mlp.down_proj.weight": matrix(HIDDEN, INTERMEDIATE),
        }
    return tensors


def _write_tokenizer(folder: Path, corpus: str, special_tokens: Sequence[str], template: str) -> None:
    """A byte-level BPE tokenizer of VOCABULARY tokens; of the special ones the first pads, the third ends."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(special_tokens),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([corpus], trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    _write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": MAX_POSITIONS,
            "eos_token": special_tokens[2],
            "pad_token": special_tokens[0],
            "chat_template": template,
        },
    )


def _write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")
