"""A result as Prometheus text, for a textfile collector or a push gateway."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import get_args

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from components.check.result import Result
from components.release.evidence import Figures
from components.release.verdict import Outcome

PREFIX = "splitserve_check"
PAIR = ("prefill", "decode", "kv")
FIGURES = {
    "kv_transfer_seconds": ("Mean KV transfer time of one request.", lambda f: f.mean_ms / 1000),
    "kv_transfer_p90_seconds": ("90th percentile of the KV transfer time.", lambda f: f.p90_ms / 1000),
    "kv_transfer_bytes": ("Mean bytes of KV cache that one request moved.", lambda f: f.mean_bytes),
    "kv_transfer_descriptors": ("Mean pieces that one request moved.", lambda f: f.mean_descriptors),
    "kv_transfer_samples": ("Requests that the figures are of.", lambda f: f.samples),
}


def exposition(result: Result, at_s: float | None = None) -> str:
    """Gauges of one check; `verdict` is 1 for the outcome that it had. `at_s`: when, since the epoch; default now."""
    registry = CollectorRegistry()
    for name, (text, of) in FIGURES.items():
        gauge = Gauge(f"{PREFIX}_{name}", text, PAIR, registry=registry)
        for pair in result.pairs:
            for kind, figures in (("fresh", pair.fresh), ("aged", pair.aged)):
                if figures:
                    gauge.labels(pair.prefill, pair.decode, _kind(kind, figures)).set(of(figures))
    verdict = Gauge(f"{PREFIX}_verdict", "1 for the outcome of the last check.", ("outcome",), registry=registry)
    for outcome in get_args(Outcome):
        verdict.labels(outcome).set(outcome == result.outcome)
    cause = Gauge(f"{PREFIX}_cause", "1, with the cause of the last outcome.", ("cause", "basis"), registry=registry)
    cause.labels(result.cause, result.basis).set(1)
    limit = Gauge(f"{PREFIX}_limit_seconds", "What the mean transfer must stay below.", registry=registry)
    limit.set(result.limit_ms / 1000)
    stamp = Gauge(f"{PREFIX}_timestamp_seconds", "When the last check ended.", registry=registry)
    stamp.set(time.time() if at_s is None else at_s)
    return generate_latest(registry).decode()


def write(path: Path, text: str) -> None:
    """In one step: a collector reads the old file or the new one, never half. Raises OSError."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(text)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _kind(kind: str, figures: Figures) -> str:
    return f"{kind}-estimated" if figures.estimated else kind
