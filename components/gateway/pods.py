"""Which pod serves a leg: the healthy ones, by load in flight from this gateway, with prefix affinity on wish.

Load is this gateway's own: two gateways each see half. Least loaded still evens out, since each of
them spreads its half.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from .faults import Fault

OVERLOAD_FACTOR = 2.0
OVERLOAD_TOKENS = 16384
"""Affinity is worth a prefix, not a queue: a pod is passed over when it has more than twice the mean in
flight and more than one full prefill batch of a large GPU (vLLM's default `max_num_batched_tokens`)."""


@dataclass(eq=False)
class Pod:
    """One server. `requests` and `tokens` (prompt tokens) are in flight from here; `down_until` is monotonic."""

    tier: str
    name: str
    url: str
    requests: int = 0
    tokens: int = 0
    down_until: float = 0.0


class Pods:
    def __init__(self, tiers: Collection[str], *, unhealthy_s: float, policy: str = "least_loaded") -> None:
        self._pods: dict[str, dict[tuple[str, str], Pod]] = {tier: {} for tier in tiers}
        self._unhealthy_s = unhealthy_s
        self._policy = policy

    def put(self, tier: str, found: Mapping[str, str]) -> None:
        """Replace a tier's pods by `found`, name -> URL. A pod that stays keeps its load and its health."""
        before = self._pods[tier]
        self._pods[tier] = {
            (name, url): before.get((name, url)) or Pod(tier, name, url) for name, url in sorted(found.items())
        }

    def all(self, tier: str) -> list[Pod]:
        return list(self._pods[tier].values())

    def healthy(self, tier: str) -> list[Pod]:
        now = time.monotonic()
        return [pod for pod in self._pods[tier].values() if pod.down_until <= now]

    def without(self) -> list[str]:
        """The tiers that have no pod at all."""
        return [tier for tier, pods in self._pods.items() if not pods]

    def mark_down(self, pod: Pod) -> None:
        pod.down_until = time.monotonic() + self._unhealthy_s

    def pick(
        self, tier: str, tried: Collection[Pod] = (), prefix: bytes | None = None, prefer: Pod | None = None
    ) -> Pod | None:
        """The pod for one leg, `prefer` if it may be had, or None when each was tried.

        When none is healthy the unhealthy are asked: a mark is a guess, and a guess may not stop service.
        Raises: Fault 503 when the tier has no pod.
        """
        if not self._pods[tier]:
            raise Fault(503, f"no {tier} pod is ready", reason=f"no_{tier}_pod", retry_after_s=5)
        left = [pod for pod in self.healthy(tier) if pod not in tried] or [
            pod for pod in self.all(tier) if pod not in tried
        ]
        if not left:
            return None
        if prefer in left:
            return prefer
        if tier == "prefill":
            if prefix is not None and self._policy == "prefix_aware":
                return self._with_prefix(left, prefix)
            return min(left, key=lambda pod: (pod.tokens, pod.requests, random.random()))
        return min(left, key=lambda pod: (pod.requests, random.random()))

    def _with_prefix(self, left: list[Pod], prefix: bytes) -> Pod:
        """Rendezvous hashing: a pod that comes or goes moves only its own share of prefixes."""
        ranked = sorted(left, key=lambda pod: hashlib.sha256(prefix + pod.name.encode()).digest())
        mean = sum(pod.tokens for pod in left) / len(left)
        limit = max(OVERLOAD_FACTOR * mean, OVERLOAD_TOKENS)
        return next((pod for pod in ranked if pod.tokens <= limit), min(left, key=lambda pod: pod.tokens))

    @contextmanager
    def load(self, pod: Pod, tokens: int = 0) -> Iterator[None]:
        """Count one leg, of `tokens` prompt tokens, while it runs."""
        pod.requests += 1
        pod.tokens += tokens
        try:
            yield
        finally:
            pod.requests -= 1
            pod.tokens -= tokens


def prefix_of(token_ids: list[int], count: int) -> bytes:
    """A stable name for the first `count` tokens (Python's own hash differs between replicas)."""
    head = token_ids[:count]
    return hashlib.sha256(b"".join(token.to_bytes(8, "little") for token in head)).digest()
