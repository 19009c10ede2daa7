"""Whether a model fits its GPUs, and how long its weights take to load. Pure.

What vLLM needs beside weights and KV cache it measures itself at start-up; here it is estimated, and
said to be.
"""

from __future__ import annotations

from dataclasses import dataclass

from components.hardware.geometry import Geometry

UTILIZATION = 0.92
"""vllm 0.32 `config/cache.py`: gpu_memory_utilization."""
BATCHED_TOKENS = 8192
"""vllm 0.32 `engine/arg_utils.py`: max_num_batched_tokens of an API server on GPUs of 70 GiB and more."""
RESERVE_BYTES = 1 << 30
"""CUDA context, NCCL and graph pools: an assumption, unmeasured here."""
MIB = 1 << 20


@dataclass(frozen=True)
class Fit:
    """Bytes on each GPU. `kv_tokens` is how many tokens of KV cache are left room for; below one
    longest prompt vLLM refuses to start."""

    weights_bytes: int
    activation_bytes: int
    usable_bytes: int
    kv_tokens: int

    @property
    def left_bytes(self) -> int:
        return self.usable_bytes - self.weights_bytes - self.activation_bytes


def fit(weights_bytes: int, geometry: Geometry, gpu_memory_mib: int, tp: int, dtype: str, hidden_size: int,
        utilization: float = UTILIZATION) -> Fit:  # fmt: skip
    """How a model lies in the memory of `tp` GPUs of `gpu_memory_mib` each."""
    usable = int(gpu_memory_mib * MIB * utilization)
    activation = _activation(hidden_size, geometry.vocabulary, tp)
    weights = weights_bytes // tp
    per_token = _rank_bytes_per_token(geometry, dtype, tp)
    left = usable - weights - activation
    return Fit(weights, activation, usable, max(0, int(left / per_token)) if per_token else 0)


def smallest_tp(weights_bytes: int, geometry: Geometry, gpu_memory_mib: int, gpus: int, dtype: str, hidden_size: int,
                tokens: int) -> int | None:  # fmt: skip
    """The fewest GPUs of a node that hold the model and one prompt of `tokens`; None if none do."""
    for tp in (1, 2, 4, 8, 16):
        if tp > gpus:
            return None
        if geometry.tp_faults(tp):
            continue
        if fit(weights_bytes, geometry, gpu_memory_mib, tp, dtype, hidden_size).kv_tokens >= tokens:
            return tp
    return None


def load_s(weights_bytes: int, gb_per_s: float) -> float:
    """Seconds to read the weights once at a storage's rate; every rank reads its own share."""
    return weights_bytes / (gb_per_s * 1e9)


def _activation(hidden_size: int, vocabulary: int, tp: int) -> int:
    """A profile run's peak, estimated: a few hidden states and MLP rows of every batched token in
    bfloat16, and one batch of logits in float32."""
    rows = BATCHED_TOKENS * hidden_size * 2 * 8
    logits = 1024 * vocabulary * 4 // tp
    return rows + logits + RESERVE_BYTES


def _rank_bytes_per_token(geometry: Geometry, dtype: str, tp: int) -> float:
    """Of one rank, windows counted as if they grew: a cache holds many prompts."""
    window_free = geometry.transfer(4096, 16, dtype, tp)
    return window_free.rank_bytes / 4096
