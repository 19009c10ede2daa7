"""The gateway's metrics, `splitserve_gateway_*`. Served on a port of their own, without a key."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
PREFIX = "splitserve_gateway_"


class Telemetry:
    """Each series is made at start where its labels are known: a missing series would look like a quiet one."""

    def __init__(self, tiers: tuple[str, ...] = ()) -> None:
        self.registry = CollectorRegistry()
        counter = self._counter
        self.requests = counter("requests", "Requests by route and status", "route", "status")
        self.rejected = counter("rejected_requests", "Requests refused by the gateway itself", "reason")
        self.stripped = counter("stripped_params", "Transfer parameters that clients sent", "param")
        self.without_kv = counter("prefill_answers_without_kv_params", "Prefill answers that name no KV to transfer")
        self.encoded = counter("encoded_items", "Images, videos and sounds that the encoder tier encoded")
        self.reused = counter("reused_items", "Items that were encoded before, or are being so for another request")
        self.without_embedding = counter(
            "encoder_answers_without_embedding", "Encoder answers that name no embedding to load"
        )
        self.upstream_failures = counter("upstream_failures", "Failed calls by tier and kind", "tier", "kind")
        self.restarts = counter("restarts", "Requests started again from prefill")
        self.disconnects = counter("client_disconnects", "Clients that left before their answer was whole")
        self.in_flight = self._gauge("in_flight_requests", "Requests being served")
        self.queued = self._gauge("queued_requests", "Requests that wait")
        self.connections = self._gauge("open_connections", "Client connections")
        self.body_bytes = self._gauge("held_body_bytes", "Request bodies held in memory")
        self.healthy = self._gauge("healthy_pods", "Pods that are ready and reachable", "tier")
        self.first_byte = self._histogram("time_to_first_byte_seconds", "Accepted until the first byte out", "route")
        self.leg = self._histogram(
            "leg_seconds", "Each leg: render, encode, prefill, decode_first_token, decode, derender", "leg"
        )
        for name in ("kv_transfer_params", "ec_transfer_params"):
            self.stripped.labels(name)
        for tier in tiers:
            for kind in ("connect", "timeout", "broken", "status"):
                self.upstream_failures.labels(tier, kind)

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(PREFIX + name, about, labels, registry=self.registry)

    def _gauge(self, name: str, about: str, *labels: str) -> Gauge:
        return Gauge(PREFIX + name, about, labels, registry=self.registry)

    def _histogram(self, name: str, about: str, *labels: str) -> Histogram:
        return Histogram(PREFIX + name, about, labels, registry=self.registry, buckets=SECONDS)

    @contextmanager
    def timed(self, leg: str) -> Iterator[None]:
        """Observe a leg that came to an end; one that failed says nothing about how long it takes."""
        start = time.perf_counter()
        yield
        self.leg.labels(leg).observe(time.perf_counter() - start)
