"""What the benchmarks on GPUs share: samples of one pair of engines by the gate's own probe, and their figures."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from components.check.client import Client
from components.check.connector import stated
from components.check.engine import Target, inspect
from components.hardware.geometry import Geometry
from components.hardware.read_geometry import read_geometry
from components.release import probe
from components.release.evidence import Evidence, Figures, Sample, estimate_aged, figures, read_evidence
from components.topology.evidence import read_topology
from tools.gpu.engines import Engine
from tools.localcluster.model import VOCABULARY

REQUEST_LIMIT_S = 120.0
ANSWER_TOKENS = 8
OUT = Path(os.environ.get("SPLITSERVE_OUT", ".gpu/out"))
"""Where lines and logs are kept."""


class Pair:
    """A prefill and a decode engine that serve, and the probe's plan for them."""

    def __init__(self, prefill: Engine, decode: Engine) -> None:
        self.prefill, self.decode = prefill, decode
        self.client = Client(REQUEST_LIMIT_S)
        connector = prefill.spec.connector or "nixl"
        self.measurement = stated(connector, [inspect(self.client, Target("decode", decode.url))]).measurement

    @property
    def geometry(self) -> Geometry:
        return read_geometry(json.loads((self.prefill.spec.model / "config.json").read_text()))

    def plan(self, tokens: int, samples: int, age_limit_s: float = 0.0) -> dict[str, Any]:
        """As components/release/probe.py has it."""
        targets = [Target(engine.spec.tier, engine.url).to_json() for engine in (self.prefill, self.decode)]
        return {
            "pairs": [targets], "router": None, "render": [], "embeddings": [], "reference": self.prefill.url,
            "measurement": self.measurement, "model": "model", "vocabulary": VOCABULARY, "prompt_tokens": tokens,
            "answer_tokens": ANSWER_TOKENS, "samples": samples,
            "age": {"mode": "on" if age_limit_s else "off", "limit_s": age_limit_s},
            "max_model_len": self.decode.spec.max_model_len - 64, "request_limit_s": REQUEST_LIMIT_S,
        }  # fmt: skip

    def samples(self, tokens: int, samples: int) -> list[Sample]:
        """Transfers of prompts of a length, on the cache as it is. Raises SystemExit with what kept them from it."""
        return self._read(self.plan(tokens, samples)).pairs[0].fresh

    def age(self, wraps: float, limit_s: float) -> dict[str, Any]:
        """Load the caches until they have wrapped so often; what the probe says of it."""
        margin, probe.AGEING_MARGIN = probe.AGEING_MARGIN, wraps
        try:
            plan = self.plan(1024, 1, limit_s)
            return probe.age(self.client, plan, plan["pairs"])
        finally:
            probe.AGEING_MARGIN = margin

    def estimate(self, fresh: Sequence[Sample]) -> Figures | None:
        """What the gate says an aged cache would take, from fresh samples alone."""
        found = figures(fresh)
        if found is None:
            return None
        moved = self.geometry.transfer(fresh[0].tokens, self.decode.spec.block_size, self.geometry.dtype, 1)
        return estimate_aged(found, moved.descriptors_aged)

    def path(self) -> str:
        """Which way the blocks went, by the engines' logs."""
        logs = {engine.log.name: engine.log.read_text(errors="replace") for engine in (self.prefill, self.decode)}
        return read_topology(logs).path

    def _read(self, plan: dict[str, Any]) -> Evidence:
        evidence = read_evidence(probe.probe(plan, self.client))
        if error := evidence.pairs[0].error:
            raise SystemExit(f"{self.prefill.log.name} -> {self.decode.log.name}: {error}")
        return evidence


def summary(samples: Sequence[Sample]) -> dict[str, Any]:
    """Figures of some transfers, in one shape for all benchmarks. Times in ms."""
    found = figures(samples)
    if found is None:
        return {"samples": len(samples), "moved": 0}
    times = [sample.ms or 0.0 for sample in samples if sample.moved]
    return {
        "samples": found.samples, "mean_ms": round(found.mean_ms, 3), "min_ms": round(min(times), 3),
        "max_ms": round(max(times), 3), "post_ms": round(found.mean_post_ms, 3), "bytes": found.mean_bytes,
        "descriptors": found.mean_descriptors, "gb_per_s": round(found.gb_per_s, 2),
        "most_descriptors": max(sample.descriptors or 0 for sample in samples),
        "arrived": min(sample.external_tokens or 0 for sample in samples),
        "same_answers": sum(sample.answer == sample.reference for sample in samples),
    }  # fmt: skip


def said(name: str, folder: Path, **content: Any) -> None:
    """The benchmark's one line of JSON, printed and kept."""
    line = json.dumps({"benchmark": name, **content})
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.jsonl").open("a") as file:
        file.write(line + "\n")
    print(line, flush=True)
