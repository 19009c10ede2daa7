"""The figures of one rate: percentiles, and how many requests met the targets. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from components.bench.load import ENOUGH_REQUESTS, Targets
from components.bench.reading import Request, Run


@dataclass(frozen=True)
class Point:
    """One rate. Times in milliseconds, None where no request was answered.

    TTFT percentiles are over requests, ITL percentiles over all gaps of all requests, as vLLM prints them.
    `met` counts requests that met both targets; a failed one met neither. `sent_per_s` is the rate at which
    requests really left, `answered_per_s` that of good answers until the last one.
    """

    rate_per_s: float
    requests: int
    failed: int
    met: int
    met_ttft: int
    met_itl: int
    ttft_p50_ms: float | None
    ttft_p99_ms: float | None
    itl_p50_ms: float | None
    itl_p99_ms: float | None
    sent_per_s: float
    answered_per_s: float
    late: bool
    failures: tuple[tuple[str, int], ...] = ()

    @property
    def share(self) -> float:
        return self.met / self.requests if self.requests else 0.0

    @property
    def enough(self) -> bool:
        return self.requests >= ENOUGH_REQUESTS

    def good(self, targets: Targets) -> bool:
        """Whether this rate was sustained. A generator that was late has not shown it."""
        return self.requests > 0 and not self.late and self.share >= targets.share


def percentile(values: Sequence[float], percent: float) -> float | None:
    """By linear interpolation, as numpy's default; None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def point(rate_per_s: float, runs: Sequence[Run], targets: Targets) -> Point:
    """All runs at one rate as one."""
    requests = [request for run in runs for request in run.requests]
    answered = [request for request in requests if request.error is None]
    ttfts = [request.ttft_ms for request in answered]
    gaps = [gap for request in answered for gap in request.gaps_ms]
    met_ttft = [request.ttft_ms <= targets.ttft_ms for request in answered]
    met_itl = [_met_itl(request, targets) for request in answered]
    span_s = sum(run.span_s for run in runs)
    duration_s = sum(run.duration_s for run in runs)
    failures = Counter(request.error for request in requests if request.error is not None)
    return Point(
        rate_per_s=rate_per_s,
        requests=len(requests),
        failed=len(requests) - len(answered),
        met=sum(both for both in map(_and, met_ttft, met_itl)),
        met_ttft=sum(met_ttft),
        met_itl=sum(met_itl),
        ttft_p50_ms=percentile(ttfts, 50),
        ttft_p99_ms=percentile(ttfts, 99),
        itl_p50_ms=percentile(gaps, 50),
        itl_p99_ms=percentile(gaps, 99),
        sent_per_s=(len(requests) - len(runs)) / span_s if span_s > 0 else 0.0,
        answered_per_s=len(answered) / duration_s if duration_s > 0 else 0.0,
        late=any(run.late for run in runs),
        failures=tuple(failures.most_common(3)),
    )


def _and(first: bool, second: bool) -> bool:
    return first and second


def _met_itl(request: Request, targets: Targets) -> bool:
    if not request.gaps_ms:
        return True
    if targets.itl_of == "mean":
        return sum(request.gaps_ms) / len(request.gaps_ms) <= targets.itl_ms
    found = percentile(request.gaps_ms, 99)
    return found is not None and found <= targets.itl_ms
