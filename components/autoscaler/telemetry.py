"""What the autoscaler says: metrics `splitserve_autoscaler_*`, /health, and one JSON line per decision."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from .policy import Decision
from .signals import Reading

PREFIX = "splitserve_autoscaler_"


class Telemetry:
    """Each tier's series are made at start, where their labels are known: a missing series looks like a quiet one."""

    def __init__(self, targets: Mapping[str, Mapping[str, float]], stale_s: float) -> None:
        self.registry = CollectorRegistry()
        self._targets, self._stale_s = targets, stale_s
        self._last_end = time.monotonic()
        self._said: dict[str, tuple[object, ...]] = {}
        self.value = self._gauge("signal_value", "A signal's value; NaN while there is none", "tier", "signal")
        self.target = self._gauge("signal_target", "What the signal shall be", "tier", "signal")
        self.current = self._gauge("current_replicas", "What the tier is set to", "tier")
        self.recommended = self._gauge("recommended_replicas", "What the signals ask for, within bounds", "tier")
        self.wanted = self._gauge("wanted_replicas", "What the tier shall be set to now", "tier")
        self.ready = self._gauge("ready_pods", "Ready pods", "tier")
        self.capacity = self._gauge("prefill_pod_tokens_per_s", "Prompt tokens that a prefill pod can compute a second")
        self.release = self._gauge("live_release", "1 for the release that has the traffic", "release")
        self.decisions = self._counter("decisions", "Decisions by what was done and why", "tier", "action", "reason")
        self.silent = self._counter("scrape_failures", "Ready pods that did not answer", "tier")
        self.rounds = self._counter("rounds", "Rounds by outcome: decided, no_release, failed", "outcome")
        self.faults = self._counter("set_failures", "Sizes that could not be set", "tier", "kind")
        self.last_round = self._gauge("last_round_timestamp_seconds", "When the last round ended, Unix time")
        for tier, signals in targets.items():
            self.silent.labels(tier)
            for signal, target in signals.items():
                self.value.labels(tier, signal).set(float("nan"))
                self.target.labels(tier, signal).set(target)
        for outcome in ("decided", "no_release", "failed"):
            self.rounds.labels(outcome)

    def _gauge(self, name: str, about: str, *labels: str) -> Gauge:
        return Gauge(PREFIX + name, about, labels, registry=self.registry)

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(PREFIX + name, about, labels, registry=self.registry)

    def ended(self, outcome: str) -> None:
        self.rounds.labels(outcome).inc()
        self.last_round.set_to_current_time()
        self._last_end = time.monotonic()

    def follows(self, release: str | None) -> None:
        """Another release: what was said of the one before is over."""
        self.release.clear()
        self._said.clear()
        if release:
            self.release.labels(release).set(1)
        self.say(event="release", release=release)

    def saw(self, tier: str, readings: Sequence[Reading], ready: int, silent: int) -> None:
        found = {reading.name: reading.value for reading in readings}
        for signal in self._targets.get(tier, {}):
            self.value.labels(tier, signal).set(found.get(signal, float("nan")))
        self.ready.labels(tier).set(ready)
        self.silent.labels(tier).inc(silent)

    def decided(self, tier: str, decision: Decision, evidence: dict[str, Any]) -> None:
        """Count the decision; say it unless it is the one said last."""
        self.current.labels(tier).set(decision.current)
        self.recommended.labels(tier).set(decision.recommended)
        self.wanted.labels(tier).set(decision.wanted)
        self.decisions.labels(tier, decision.action, decision.reason).inc()
        words = (decision.current, decision.wanted, decision.reason)
        if self._said.get(tier) != words:
            self.say(
                event="decision", tier=tier, action=decision.action, reason=decision.reason, signal=decision.signal,
                current=decision.current, recommended=decision.recommended, wanted=decision.wanted, **evidence,
            )  # fmt: skip
        self._said[tier] = words

    def say(self, **words: Any) -> None:
        print(json.dumps({"time": round(time.time(), 3), **words}), file=sys.stdout, flush=True)

    @property
    def healthy(self) -> bool:
        """Rounds come to an end, be it a bad one: a restart brings no API server back."""
        return time.monotonic() - self._last_end < self._stale_s

    def routes(self) -> Iterable[web.RouteDef]:
        async def metrics(_: web.Request) -> web.Response:
            headers = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
            return web.Response(body=generate_latest(self.registry), headers=headers)

        async def health(_: web.Request) -> web.Response:
            return web.Response(
                status=200 if self.healthy else 503, text="ok" if self.healthy else "no round ended lately"
            )

        return [web.get("/metrics", metrics), web.get("/health", health)]
