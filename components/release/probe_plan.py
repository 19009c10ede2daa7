"""How to measure, as the probe reads it: which pods with which, how long, how often. Pure.

What the probe does with it says `probe.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from components.release.expectation import Expectation
from components.release.pairs import cover
from components.serving.connectors.nixl import PULL
from components.serving.spec import ENCODER, RENDER, ROUTER

AGE_AUTO_LIMIT_S = 120


class Addressed(Protocol):
    """What a plan needs of a pod."""

    @property
    def name(self) -> str: ...
    @property
    def tier(self) -> str: ...
    @property
    def ip(self) -> str | None: ...


@dataclass(frozen=True)
class ProbeSettings:
    """How to measure; times in seconds."""

    samples: int
    prompt_tokens: int
    answer_tokens: int
    age: str
    ready_limit_s: int
    probe_limit_s: int


def probe_settings(settings: dict[str, Any]) -> ProbeSettings:
    """From the gate's settings, whose numbers the engine keeps as floating point."""
    return ProbeSettings(
        samples=int(settings["samples"]),
        prompt_tokens=int(settings["promptTokens"]),
        answer_tokens=int(settings["answerTokens"]),
        age=str(settings["age"]),
        ready_limit_s=int(settings["readyLimitS"]),
        probe_limit_s=int(settings["probeLimitS"]),
    )


def probe_plan(pods: Sequence[Addressed], expectation: Expectation, probe: ProbeSettings) -> dict[str, Any]:
    """The probe's plan (see probe.py) for these pods."""

    def of(tier: str) -> list[Addressed]:
        return sorted((pod for pod in pods if pod.tier == tier), key=lambda pod: pod.name)

    def target(pod: Addressed, port: int | None = None) -> dict[str, str]:
        return {"name": pod.name, "url": f"http://{pod.ip}:{port or expectation.engine_port}"}

    pairs = cover(of("prefill"), of("decode"))
    router, engines = of(ROUTER), of("prefill") or of("collocated")
    age_limit_s = AGE_AUTO_LIMIT_S if probe.age == "auto" else 0 if probe.age == "off" else int(float(probe.age))
    return {
        "pairs": [[target(prefill), target(decode)] for prefill, decode in pairs],
        "router": f"http://{router[0].ip}:{expectation.router_port}" if router else None,
        "render": [target(pod, expectation.render_port) for pod in of(RENDER)],
        "embeddings": [[target(encoder), target(consumer)] for encoder, consumer in cover(of(ENCODER), engines)],
        "reference": target(engines[0])["url"] if engines else None,
        "measurement": expectation.measurement or PULL.measurement.to_json(),
        "model": expectation.model,
        "vocabulary": expectation.vocabulary,
        "prompt_tokens": probe.prompt_tokens,
        "answer_tokens": probe.answer_tokens,
        "samples": probe.samples,
        "age": {"mode": "off" if probe.age == "off" else "on", "limit_s": age_limit_s},
        "max_model_len": expectation.max_model_len,
        "request_limit_s": 60,
    }
