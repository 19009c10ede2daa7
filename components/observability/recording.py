"""Recording rules: what alerts and dashboard have in common, by pod or by release. Pure.

Names are `level:subject_unit:operation` (https://prometheus.io/docs/practices/rules/), subjects of ours begin with
`splitserve_`. Every raw series is one that tests hold against recorded pages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from components.observability.limits import AlertLimits
from components.observability.targets import RELEASE, TIER
from components.observability.transfer_series import TransferSeries, selected, transfer_series

BY_RELEASE = f"namespace, {RELEASE}"
BY_TIER = f"{BY_RELEASE}, {TIER}"
BY_POD = f"{BY_TIER}, pod"

TRANSFER_MEAN = "pod:splitserve_kv_transfer_seconds:mean"
TRANSFER_P90 = "release:splitserve_kv_transfer_seconds:p90"
TRANSFERS = "pod:splitserve_kv_transfers:increase"
TRANSFER_BYTES = "release:splitserve_kv_transfer_bytes:rate"
FAILED = "pod:splitserve_kv_failed_transfers:increase"
PROMPT_TOKENS = "pod:splitserve_prompt_tokens:increase"
EXTERNAL_TOKENS = "pod:splitserve_external_prompt_tokens:increase"
COMPUTED_TOKENS = "pod:splitserve_computed_prompt_tokens:increase"
TTFT_OF_TIER = "tier:splitserve_ttft_seconds:mean"
TTFT = "release:splitserve_ttft_seconds:mean"
ITL = "tier:splitserve_itl_seconds:p99"
QUEUED = "tier:splitserve_queued_requests:mean"

BY_SOURCE = "vllm:prompt_tokens_by_source_total"
IN_FRONT = f'{TIER}=~"prefill|decode|collocated"'
"""An encoder's tokens and times are not part of a prompt's way."""
ANSWERING = f'{TIER}=~"decode|collocated"'
QUEUE_WINDOW = "5m"


@dataclass(frozen=True)
class Recording:
    """One rule: what is recorded, by which expression, with which labels besides those of the expression."""

    record: str
    expr: str
    labels: dict[str, str] = field(default_factory=dict)


def recordings(limits: AlertLimits) -> list[Recording]:
    """All of them; each comes before those that read it."""
    return [*_transfers(limits.window), *_tokens(limits.window), *_latencies(limits.window)]


def _transfers(window: str) -> Iterator[Recording]:
    for series in transfer_series():
        labels = {"family": series.family}
        for record, expr in _transfer_expressions(series, window).items():
            yield Recording(record, expr, labels)


def _transfer_expressions(series: TransferSeries, window: str) -> dict[str, str]:
    def summed(function: str, name: str, by: str) -> str:
        return f"sum by ({by}) ({function}({name}[{window}]))"

    count = summed("rate", series.count, BY_POD)
    buckets = summed("rate", series.seconds_bucket, f"{BY_RELEASE}, le")
    return {
        # Where nothing was transferred there is no mean: 0 / 0 would be one that no alert compares.
        TRANSFER_MEAN: f"{summed('rate', series.seconds_sum, BY_POD)} / ({count} > 0)",
        TRANSFER_P90: f"histogram_quantile(0.9, {buckets})",
        TRANSFERS: summed("increase", series.count, BY_POD),
        TRANSFER_BYTES: summed("rate", series.bytes_sum, BY_RELEASE),
        FAILED: summed("increase", series.failed, BY_POD),
    }


def _tokens(window: str) -> Iterator[Recording]:
    """Prompt tokens by pod: counted, received as KV cache, computed."""
    named = {
        PROMPT_TOKENS: selected("vllm:prompt_tokens_total", IN_FRONT),
        EXTERNAL_TOKENS: selected(BY_SOURCE, 'source="external_kv_transfer"', IN_FRONT),
        COMPUTED_TOKENS: selected(BY_SOURCE, 'source="local_compute"', IN_FRONT),
    }
    for record, series in named.items():
        yield Recording(record, f"sum by ({BY_POD}) (increase({series}[{window}]))")


def _latencies(window: str) -> Iterator[Recording]:
    """Means of TTFT add up over the tiers that a request passes, percentiles would not."""
    ttft = "vllm:time_to_first_token_seconds"
    summed = f"sum by ({BY_TIER}) (rate({selected(f'{ttft}_sum', IN_FRONT)}[{window}]))"
    count = f"sum by ({BY_TIER}) (rate({selected(f'{ttft}_count', IN_FRONT)}[{window}]))"
    yield Recording(TTFT_OF_TIER, f"{summed} / ({count} > 0)")
    yield Recording(TTFT, f"sum by ({BY_RELEASE}) ({TTFT_OF_TIER})")
    gaps = selected("vllm:inter_token_latency_seconds_bucket", ANSWERING)
    yield Recording(ITL, f"histogram_quantile(0.99, sum by ({BY_TIER}, le) (rate({gaps}[{window}])))")
    yield Recording(QUEUED, queued(QUEUE_WINDOW))


def queued(window: str) -> str:
    """Requests that wait for room, a pod. A decoder's whole queue has those in addition that wait for their KV, which
    room would not help; engines without the reason (before vLLM 0.32) have the whole queue alone."""
    for_room = selected("vllm:num_requests_waiting_by_reason", 'reason="capacity"', IN_FRONT)
    whole = selected("vllm:num_requests_waiting", IN_FRONT)
    of_pods = [f"sum by ({BY_POD}) (avg_over_time({series}[{window}]))" for series in (for_room, whole)]
    return f"avg by ({BY_TIER}) ({' or '.join(of_pods)})"
