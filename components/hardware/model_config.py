"""Read single facts from a Hugging Face `config.json`, gathering every fault. Pure.

A multimodal model keeps its language model's facts under `text_config`; those are read from there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

DEFAULTS: dict[str, dict[str, Any]] = {
    "gemma2": {"sliding_window_pattern": 2, "tie_word_embeddings": True},
    "gemma3_text": {"sliding_window_pattern": 6, "tie_word_embeddings": True, "vocab_size": 262208},
    "nemotron_h": {"mamba_ssm_cache_dtype": "float32"},
    "cohere2": {"sliding_window_pattern": 4, "tie_word_embeddings": True},
}
"""What published configs of a model type leave out: the defaults of transformers' class of that name."""
LARGEST = 10**8
"""No dimension of a published model comes near; a larger one is a mistake."""


class ModelUnknown(ValueError):
    """The config doesn't say what is asked; `faults` has a line for each reason."""

    def __init__(self, faults: list[str]) -> None:
        self.faults = faults
        super().__init__("; ".join(faults))


class ModelConfig:
    """A config's facts by name. Faults are gathered; `check` raises them all at once."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        inner = content.get("text_config")
        merged = {**content, **inner} if isinstance(inner, Mapping) else dict(content)
        self.content: Mapping[str, Any] = {**DEFAULTS.get(str(merged.get("model_type")), {}), **merged}
        self.faults: list[str] = []

    @property
    def model_type(self) -> str:
        return str(self.content.get("model_type", ""))

    def has(self, key: str) -> bool:
        return self.content.get(key) not in (None, False, [], {})

    def integer(self, key: str, default: int | None = None, *, least: int = 1) -> int:
        """A whole number, or the default; 0 (and a fault) when there is neither."""
        value = self.content.get(key)
        if value is None:
            if default is None:
                self.faults.append(f"config.json lacks `{key}`")
            return default or 0
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not math.isfinite(value)
            or value != int(value)
        ):
            self.faults.append(f"`{key}` in config.json: found {value!r}, wanted a whole number")
            return 0
        if not least <= value <= LARGEST:
            self.faults.append(f"`{key}` in config.json: found {value:g}, allowed {least} to {LARGEST:.0e}")
            return 0
        return int(value)

    def words(self, key: str) -> list[str]:
        """A list of words; empty when it is not there."""
        value = self.content.get(key)
        if value is None:
            return []
        if not isinstance(value, list | str) or not all(isinstance(word, str) for word in value):
            self.faults.append(f"`{key}` in config.json: found {value!r}, wanted a list of words")
            return []
        return list(value)

    def fault(self, text: str) -> None:
        self.faults.append(text)

    def check(self) -> None:
        if self.faults:
            raise ModelUnknown(list(dict.fromkeys(self.faults)))
