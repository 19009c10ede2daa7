"""KV transfer between two GPUs, fresh and aged, over prompt lengths, block sizes, shapes and connectors.

    python3 -m benchmarks.gpu.transfer --cases qwen-16 qwen-64 qwen-128 qwen-256 llama-70b-128

All engines of the cases start at once and are measured one pair after the other. Each case ends with one line of JSON:
fresh; aged as the gate ages (one wrap and a quarter); aged more (`--wraps`); and the gate's estimate of the aged figure
from the fresh samples, with its error against what was then measured.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.gpu.measuring import OUT, Pair, said, summary
from tools.gpu.engines import NO_PEER_ACCESS, Spec, end_left_over, pair, serving
from tools.gpu.models import make

LENGTHS = (8192, 16_384)
FRESH = {8192: 4, 16_384: 2}
"""Samples: the caches must not wrap by them."""
AGED = {8192: 8, 16_384: 6}
GATE_WRAPS = 1.25
AGE_LIMIT_S = 60.0


@dataclass(frozen=True)
class Case:
    """One pair of engines. `tokens` are the prompts' lengths."""

    shape: str
    block_size: int
    connector: str = "nixl"
    cache_tokens: int = 131_072
    tokens: tuple[int, ...] = LENGTHS
    environment: dict[str, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)

    def specs(self, models: Path, port: int) -> list[Spec]:
        return pair(
            make(self.shape, models), port, block_size=self.block_size, connector=self.connector, options=self.options,
            cache_tokens=self.cache_tokens, environment=self.environment,
        )  # fmt: skip


QWEN, LLAMA = "qwen2.5-7b", "llama-70b-cache"
CASES = {
    "qwen-128": Case(QWEN, 128),
    "qwen-16": Case(QWEN, 16),
    "llama-70b-128": Case(LLAMA, 128, cache_tokens=65_536, tokens=(8192,)),
    "qwen-256": Case(QWEN, 256),
    "qwen-64": Case(QWEN, 64),
    "llama-70b-256": Case(LLAMA, 256, cache_tokens=65_536, tokens=(8192,)),
    "qwen-push-128": Case(QWEN, 128, "nixl-push"),
    "qwen-threads-16": Case(QWEN, 16, options={"num_threads": 8}, tokens=(8192,)),
    "qwen-tcp-128": Case(QWEN, 128, tokens=(8192,), environment=NO_PEER_ACCESS),
    "tiny-16": Case("tiny", 16),
}
"""The most telling first."""


def measure(one: Pair, lengths: Sequence[int], wraps: float) -> list[dict[str, Any]]:
    """A row for each length: all fresh ones before the cache is aged."""
    fresh = {tokens: one.samples(tokens, FRESH[tokens]) for tokens in lengths}
    rows: list[dict[str, Any]] = [{"tokens": tokens, "fresh": summary(samples)} for tokens, samples in fresh.items()]
    for name, times in (("aged", GATE_WRAPS), ("aged_more", wraps)):
        ageing = one.age(times, AGE_LIMIT_S)
        for row in rows:
            row[name] = summary(one.samples(row["tokens"], AGED[row["tokens"]]))
            row[f"{name}_by"] = {
                key: ageing[key] for key in ("complete", "seconds", "passed_tokens", "cache_tokens", "error")
            }
    for row in rows:
        estimate = one.estimate(fresh[row["tokens"]])
        row["estimate_ms"] = round(estimate.mean_ms, 3) if estimate else None
        row["estimate_error"] = {
            name: _error(estimate.mean_ms if estimate else None, row[name]) for name in ("aged", "aged_more")
        }
    return rows


def _error(estimate_ms: float | None, measured: dict[str, Any]) -> float | None:
    """As a share of what was measured."""
    found = measured.get("mean_ms")
    return round(estimate_ms / found - 1, 3) if estimate_ms and found else None


def run(
    names: Sequence[str], models: Path, folder: Path, wraps: float, *, port: int = 8200, python: str = sys.executable
) -> None:
    """Start every case's engines at once, and measure case by case."""
    started = time.monotonic()
    wanted = [spec for number, name in enumerate(names) for spec in CASES[name].specs(models, port + 2 * number)]
    with serving(wanted, folder / "logs", python) as engines:
        ready_s = time.monotonic() - started
        for number, name in enumerate(names):
            begun, one = time.monotonic(), Pair(*engines[2 * number : 2 * number + 2])
            rows = measure(one, CASES[name].tokens, wraps)
            case = CASES[name]
            said("transfer", folder, case=name, shape=case.shape, block=case.block_size, connector=case.connector,
                 environment=case.environment, options=case.options, path=one.path(), rows=rows, ready_s=round(ready_s, 1),
                 seconds=round(time.monotonic() - begun, 1))  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--cases", nargs="+", choices=CASES, default=["qwen-128", "qwen-16", "llama-70b-128", "qwen-256", "qwen-64"]
    )
    parser.add_argument("--wraps", type=float, default=4.0, help="how often more the caches wrap for `aged_more`")
    parser.add_argument("--models", type=Path, default=Path("/tmp/models"))
    parser.add_argument("--out", type=Path, default=OUT)
    asked = parser.parse_args()
    end_left_over()
    run(asked.cases, asked.models, asked.out, asked.wraps)


if __name__ == "__main__":
    main()
