"""The models that are served on a GPU machine: shapes of public ones, without their weights.

A vocabulary of 2,048 keeps the tokenizer small; the weights are `--load-format dummy`, so that the files hold none.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from components.hardware.known_models import known_model
from tools.localcluster.model import VOCABULARY, write_model

TOGETHER: dict[str, Any] = {
    "vocab_size": VOCABULARY, "eos_token_id": 2, "bos_token_id": 0, "pad_token_id": 0, "max_position_embeddings": 32768,
}  # fmt: skip
CORPUS = ("README.md", "docs/explanation", "docs/how-to", "docs/reference")


def qwen_7b() -> dict[str, Any]:
    """Qwen2.5-7B: 28 layers, 4 KV heads of 128: 56 KiB a token."""
    return known_model("qwen2.5-7b") | TOGETHER


def llama_70b_cache() -> dict[str, Any]:
    """The KV cache of Llama 3.1 70B (80 layers, 8 heads of 128: 320 KiB a token) over layers that hold little else."""
    whole = known_model("llama-3.1-70b")
    small = {
        "hidden_size": 1024,
        "intermediate_size": 512,
        "num_attention_heads": 8,
        "num_key_value_heads": 8,
        "head_dim": 128,
    }
    return whole | TOGETHER | small | {"tie_word_embeddings": False}


def tiny() -> dict[str, Any]:
    """Four layers, to try the harness."""
    small = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4,
             "num_key_value_heads": 2, "max_window_layers": 4}  # fmt: skip
    return known_model("qwen2.5-7b") | TOGETHER | small


SHAPES = {"qwen2.5-7b": qwen_7b, "llama-70b-cache": llama_70b_cache, "tiny": tiny}


def make(name: str, folder: Path) -> Path:
    """The folder of a model, made where it is not there yet."""
    path = folder / name
    if not path.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        write_model(path, corpus(), SHAPES[name](), {})
    return path


def corpus() -> str:
    """This project's own pages, which are at hand wherever its checkout is."""
    root = Path(__file__).resolve().parents[2]
    found = [
        path
        for part in CORPUS
        for path in sorted([root / part] if (root / part).is_file() else (root / part).glob("*.md"))
    ]
    return "\n".join(path.read_text() for path in found)


if __name__ == "__main__":
    for shape in sys.argv[2:] or SHAPES:
        print(make(shape, Path(sys.argv[1])))
