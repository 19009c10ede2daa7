"""What a benchmark asks of a topology: the requests that it sends, and the targets that they must meet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ItlOf = Literal["p99", "mean"]

ENOUGH_REQUESTS = 100
"""From here on a p99 over requests is more than their maximum."""
MAX_GAPS = 1_000_000
"""Inter-token gaps of one run: their log line stays below the 10 MiB at which a kubelet rotates logs."""
MAX_PROMPT_TOKENS = 20_000_000
"""Prompt tokens of one run: as text they fit the generator's memory, and are made within its start limit."""


@dataclass(frozen=True)
class Load:
    """`requests` are sent at every rate, each of `prompt_tokens` in and exactly `output_tokens` out."""

    prompt_tokens: int
    output_tokens: int
    requests: int

    def faults(self, max_model_len: int, vocabulary: int, stack: str) -> list[str]:
        """Why this load can't be sent to a model, one sentence each: found, wanted, way out."""
        faults = []
        if self.prompt_tokens + self.output_tokens > max_model_len:
            faults.append(
                f"--prompt-tokens, --output-tokens: found {self.prompt_tokens:,} + {self.output_tokens:,} tokens; stack "
                f"{stack} serves contexts of {max_model_len:,} at most; give fewer, or raise engine.maxModelLen"
            )
        if self.requests * self.output_tokens > MAX_GAPS:
            faults.append(
                f"--requests, --output-tokens: found {self.requests:,} x {self.output_tokens:,} tokens at one rate; "
                f"wanted {MAX_GAPS:,} at most, which is what a pod's log can hold; give fewer"
            )
        if self.requests * self.prompt_tokens > MAX_PROMPT_TOKENS:
            faults.append(
                f"--requests, --prompt-tokens: found {self.requests:,} x {self.prompt_tokens:,} tokens at one rate; "
                f"wanted {MAX_PROMPT_TOKENS:,} at most, which is what the load generator can hold; give fewer"
            )
        if vocabulary < 2:
            faults.append(f"stack {stack}: the model's vocabulary has {vocabulary} token(s); no prompt can be drawn")
        return faults


@dataclass(frozen=True)
class Targets:
    """In milliseconds. A rate is good when at least `share` of its requests meet both.

    `itl_of` says which figure of one request's gaps is held against `itl_ms`. p99, the default, is what
    splitting is for: a request whose stream stalls once or twice behind somebody's prefill has a good mean
    and a bad p99. mean is what vLLM's own `--goodput tpot:` counts.
    """

    ttft_ms: float
    itl_ms: float
    share: float = 0.99
    itl_of: ItlOf = "p99"


def repeated_share(requests_in_all: int, vocabulary: int) -> float:
    """About which share of the last run's prompts begin like an earlier prompt, so that their KV may be cached.

    `random` prompts of `vllm bench serve` are consecutive token ids from a random start (RandomDataset of vllm
    0.32): two with the same start are the same prompt.
    """
    return 1 - (1 - 1 / vocabulary) ** requests_in_all
