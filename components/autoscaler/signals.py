"""A pod's metrics page as figures, and a tier's figures as signals. Pure.

Metric names: vllm 0.32 `v1/metrics/loggers.py`; the render server has no engine and exports what
prometheus_client (`process_cpu_seconds_total`) and prometheus-fastapi-instrumentator
(`http_request_duration_seconds`) add by themselves. Every name may be missing: a figure is None then.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

RUNNING = "vllm:num_requests_running"
WAITING = "vllm:num_requests_waiting"
WAITING_BY_REASON = "vllm:num_requests_waiting_by_reason"
KV_USAGE = "vllm:kv_cache_usage_perc"
PROMPT_TOKENS = "vllm:prompt_tokens_by_source_total"
TTFT = "vllm:time_to_first_token_seconds_bucket"
ITL = "vllm:inter_token_latency_seconds_bucket"
CPU = "process_cpu_seconds_total"
HTTP = "http_request_duration_seconds_sum"
WANTED = frozenset({RUNNING, WAITING, WAITING_BY_REASON, KV_USAGE, PROMPT_TOKENS, TTFT, ITL, CPU, HTTP})

LINE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?$")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

DEFAULT_TARGETS: Mapping[str, Mapping[str, float]] = {
    "prefill": {"queue": 2.0, "utilisation": 0.7, "ttft_p90_s": 0.0},
    "decode": {"kv_usage": 0.7, "kv_usage_max": 0.0, "queue": 2.0, "requests": 0.0, "itl_p99_s": 0.0},
    "collocated": {"kv_usage": 0.7, "kv_usage_max": 0.0, "queue": 2.0, "requests": 0.0, "ttft_p90_s": 0.0, "itl_p99_s": 0.0},
    "render": {"cpu": 0.7, "in_flight": 0.0},
}  # fmt: skip
"""Each tier's signals, per pod; 0 is off until somebody gives a target, since it depends on the model or the
promise made to clients. `queue` requests, `utilisation` and `kv_usage` shares, `cpu` cores."""

Buckets = Mapping[float, float]


@dataclass(frozen=True)
class Page:
    """One scrape of one pod, its data-parallel engines taken together.

    `queue` is what waits for room. `waiting` has in addition what waits for something else, on a decoder
    for its KV: another decoder would not bring that sooner.
    """

    running: float | None = None
    waiting: float | None = None
    queue: float | None = None
    kv_usage: float | None = None
    kv_usage_max: float | None = None
    computed_tokens: float | None = None
    cpu_s: float | None = None
    http_s: float | None = None
    ttft: Buckets = field(default_factory=dict)
    itl: Buckets = field(default_factory=dict)

    @property
    def held(self) -> float | None:
        """Requests that the pod runs or keeps; None where it doesn't say (the render tier)."""
        return None if self.running is None else self.running + (self.waiting or 0)

    @property
    def says_nothing(self) -> bool:
        return self == Page()


@dataclass(frozen=True)
class Sample:
    """One pod's newest page and the oldest within the rate window, `seconds` apart (0: only one so far)."""

    last: Page
    first: Page
    seconds: float


@dataclass(frozen=True)
class Reading:
    """A signal of a tier: `value` against `target`, over the `pods` that had it.

    A `proportional` one halves when the pods double. A queue or a latency says that more pods are needed, not
    how many: it grows for as long as they are too few.
    """

    name: str
    value: float
    target: float
    pods: int
    proportional: bool = True


def read_page(text: str) -> Page:
    """A metrics page in Prometheus' text format. Lines that can't be read are passed over."""
    series: dict[str, list[tuple[dict[str, str], float]]] = {}
    for line in text.splitlines():
        if line.partition("{")[0].partition(" ")[0] not in WANTED:
            continue
        match = LINE.match(line)
        try:
            value = float(match[3]) if match else math.nan
        except ValueError:
            continue
        if match and math.isfinite(value):
            series.setdefault(match[1], []).append((dict(LABEL.findall(match[2] or "")), value))
    usages = [value for _, value in series.get(KV_USAGE, [])]
    waiting = _total(series.get(WAITING))
    capacity = _total(series.get(WAITING_BY_REASON), reason="capacity")
    return Page(
        running=_total(series.get(RUNNING)),
        waiting=waiting,
        queue=waiting if capacity is None else capacity,
        kv_usage=sum(usages) / len(usages) if usages else None,
        kv_usage_max=max(usages, default=None),
        computed_tokens=_total(series.get(PROMPT_TOKENS), source="local_compute"),
        cpu_s=_total(series.get(CPU)),
        http_s=_total(series.get(HTTP)),
        ttft=_buckets(series.get(TTFT, [])),
        itl=_buckets(series.get(ITL, [])),
    )


def _total(rows: list[tuple[dict[str, str], float]] | None, **wanted: str) -> float | None:
    found = [value for labels, value in rows or [] if wanted.items() <= labels.items()]
    return sum(found) if found else None


def _buckets(rows: list[tuple[dict[str, str], float]]) -> dict[float, float]:
    """Upper bound in seconds -> observations up to it."""
    buckets: dict[float, float] = {}
    for labels, count in rows:
        bound = float(labels.get("le", "inf").replace("+Inf", "inf"))
        buckets[bound] = buckets.get(bound, 0.0) + count
    return buckets


def quantile(samples: Sequence[tuple[Buckets, Buckets]], share: float) -> float | None:
    """The latency, in seconds, that `share` of the observations between (first, last) pages stayed below.

    Within a bucket they are taken to be spread evenly, as Prometheus' histogram_quantile does; beyond the
    last bound that bound is the answer. None when nothing was observed.
    """
    grown: dict[float, float] = {}
    for first, last in samples:
        for bound, count in last.items():
            grown[bound] = grown.get(bound, 0.0) + count - first.get(bound, 0.0)
    bounds = sorted(grown)
    if not bounds or grown[bounds[-1]] <= 0:
        return None
    rank, below, lower = share * grown[bounds[-1]], 0.0, 0.0
    for bound in bounds:
        if grown[bound] >= rank:
            if math.isinf(bound):
                return lower
            inside = grown[bound] - below
            return lower + (bound - lower) * ((rank - below) / inside if inside > 0 else 1.0)
        below, lower = grown[bound], bound
    return lower


def _rate(sample: Sample, figure: Callable[[Page], float | None]) -> float | None:
    last, first = figure(sample.last), figure(sample.first)
    if last is None or first is None or sample.seconds <= 0:
        return None
    return max(last - first, 0.0) / sample.seconds


def _requests(page: Page) -> float | None:
    return None if page.running is None else page.running + (page.queue or 0)


PER_POD: Mapping[str, Callable[[Sample], float | None]] = {
    "queue": lambda sample: sample.last.queue,
    "kv_usage": lambda sample: sample.last.kv_usage,
    "requests": lambda sample: _requests(sample.last),
    "cpu": lambda sample: _rate(sample, lambda page: page.cpu_s),
    # Seconds spent on requests per second: how many were in flight on average (Little's law).
    "in_flight": lambda sample: _rate(sample, lambda page: page.http_s),
}

PROPORTIONAL = frozenset({"kv_usage", "requests", "utilisation", "cpu", "in_flight"})


def read_signals(samples: Sequence[Sample], targets: Mapping[str, float],
                 pod_tokens_per_s: float | None = None) -> list[Reading]:  # fmt: skip
    """A tier's signals that have a target and data. `pod_tokens_per_s`: what one prefill pod can compute."""
    readings = []
    for name, target in targets.items():
        if target > 0 and (found := _signal(name, samples, pod_tokens_per_s)):
            readings.append(Reading(name, found[0], target, found[1], name in PROPORTIONAL))
    return readings


def _signal(name: str, samples: Sequence[Sample], pod_tokens_per_s: float | None) -> tuple[float, int] | None:
    """(value, pods that had it)."""
    if name == "ttft_p90_s":
        return _over_all(quantile([(s.first.ttft, s.last.ttft) for s in samples], 0.9), samples)
    if name == "itl_p99_s":
        return _over_all(quantile([(s.first.itl, s.last.itl) for s in samples], 0.99), samples)
    if name == "kv_usage_max":
        worst = [s.last.kv_usage_max for s in samples if s.last.kv_usage_max is not None]
        return (max(worst), len(worst)) if worst else None
    if name == "utilisation":
        rates = [_rate(sample, lambda page: page.computed_tokens) for sample in samples] if pod_tokens_per_s else []
        values = [rate / (pod_tokens_per_s or 1.0) for rate in rates if rate is not None]
    else:
        values = [value for sample in samples if (value := PER_POD[name](sample)) is not None]
    return (sum(values) / len(values), len(values)) if values else None


def _over_all(value: float | None, samples: Sequence[Sample]) -> tuple[float, int] | None:
    return None if value is None else (value, len(samples))
