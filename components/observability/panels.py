"""What the dashboard shows, row by row, KV path first: titles, units, expressions, limits. Pure, without Grafana."""

from __future__ import annotations

from dataclasses import dataclass

from components.observability.limits import AlertLimits
from components.observability.recording import (
    BY_POD,
    BY_RELEASE,
    BY_SOURCE,
    BY_TIER,
    IN_FRONT,
    queued,
)
from components.observability.serving_alerts import ASKED
from components.observability.targets import RELEASE, TIER
from components.observability.transfer_series import selected, transfer_series

SCOPE = f'namespace="$namespace",{RELEASE}=~"$release"'
POD_LEGEND = "{{pod}}"
TIER_LEGEND = "{{" + TIER + "}}"


@dataclass(frozen=True)
class Query:
    expr: str
    legend: str


@dataclass(frozen=True)
class Graph:
    """One graph over time. `unit` is Grafana's; `limit` a line in that unit; `about` says how to read it."""

    title: str
    unit: str
    about: str
    queries: tuple[Query, ...]
    limit: float | None = None


@dataclass(frozen=True)
class Section:
    """A row of graphs."""

    title: str
    graphs: tuple[Graph, ...]


def sections(limits: AlertLimits) -> tuple[Section, ...]:
    """Every row, in the order of reading: does KV move, is it fast, what do clients feel, where do they wait."""
    return (
        Section(
            "KV path", (_time(limits), _moved(limits), _failed(limits), _speed(limits), _pieces(limits), _p90(limits))
        ),
        Section("What clients feel", (_ttft(limits), _itl(limits), _queue(limits))),
        Section("Engines", (_running(), _cache(), _preemptions(limits))),
        Section("Router", (_router_errors(limits), _breaker(), _answers(limits), _legs(limits))),
    )


def rate(series: str, limits: AlertLimits, by: str, function: str = "rate") -> str:
    """A counter's rate (or increase) over the alerts' own window, within the chosen namespace and release."""
    return f"sum by ({by}) ({function}({selected(series, SCOPE)}[{limits.window}]))"


def _each(limits: AlertLimits, upper: str, lower: str, by: str) -> str:
    return f"{rate(upper, limits, by)} / ({rate(lower, limits, by)} > 0)"


def _time(limits: AlertLimits) -> Graph:
    queries = tuple(
        Query(f"1000 * {_each(limits, s.seconds_sum, s.count, BY_POD)}", f"{POD_LEGEND} {s.family}")
        for s in transfer_series()
    )
    return Graph(
        "KV transfer, mean", "ms", "Per transfer, by the pod that counts it (the decoder; with NIXL push the prefiller). "
        "The line is gate.limitMs.", queries, limits.transfer_ms,
    )  # fmt: skip


def _moved(limits: AlertLimits) -> Graph:
    tokens = selected(BY_SOURCE, f'{TIER}="decode"')
    return Graph(
        "Decoders' prompt tokens by source", "short", "external_kv_transfer is KV that arrived. If it stays at 0 while "
        "local_compute grows, decoders compute every prompt again.",
        (Query(rate(tokens, limits, "source"), "{{source}}"),),
    )  # fmt: skip


def _failed(limits: AlertLimits) -> Graph:
    failed = tuple(
        Query(rate(s.failed, limits, BY_POD, "increase"), f"{POD_LEGEND} failed, {s.family}") for s in transfer_series()
    )
    expired = Query(rate("vllm:nixl_num_kv_expired_reqs_total", limits, BY_POD, "increase"), f"{POD_LEGEND} expired")
    return Graph(
        "Failed transfers, expired KV", "short", "In the window. Expired: no decoder fetched the blocks in time.",
        (*failed, expired),
    )  # fmt: skip


def _speed(limits: AlertLimits) -> Graph:
    queries = tuple(
        Query(_each(limits, s.bytes_sum, s.seconds_sum, BY_POD), f"{POD_LEGEND} {s.family}") for s in transfer_series()
    )
    return Graph(
        "Speed of a transfer", "Bps", "Bytes over the transfers' own time. Under load it understates the link: transfers "
        "that run at once share it (vllm issue 48224).", queries,
    )  # fmt: skip


def _pieces(limits: AlertLimits) -> Graph:
    descriptors = _each(limits, "vllm:nixl_num_descriptors_sum", "vllm:nixl_num_descriptors_count", BY_POD)
    return Graph(
        "Descriptors a transfer", "short", "A fresh cache moves in few pieces, an aged one in one for each block of each "
        "layer: more pieces, more time for the same bytes.", (Query(descriptors, POD_LEGEND),),
    )  # fmt: skip


def _p90(limits: AlertLimits) -> Graph:
    queries = tuple(
        Query(
            f"1000 * histogram_quantile(0.9, {rate(s.seconds_bucket, limits, f'{BY_RELEASE}, le')})",
            "{{" + RELEASE + "}} " + s.family,
        )
        for s in transfer_series()
    )
    return Graph("KV transfer, p90", "ms", "Coarse: within vLLM's buckets, of which 100 and 200 ms are two edges.",
                 queries, limits.transfer_ms)  # fmt: skip


def _ttft(limits: AlertLimits) -> Graph:
    ttft = "vllm:time_to_first_token_seconds"
    of_tier = _each(limits, selected(f"{ttft}_sum", IN_FRONT), selected(f"{ttft}_count", IN_FRONT), BY_TIER)
    return Graph(
        "TTFT, mean", "ms", "By tier, and added up: a request passes prefill and decode. The decoder's share holds the "
        "transfer.",
        (Query(f"1000 * {of_tier}", TIER_LEGEND), Query(f"1000 * sum by ({BY_RELEASE}) ({of_tier})", "both")), limits.ttft_ms,
    )  # fmt: skip


def _itl(limits: AlertLimits) -> Graph:
    buckets = selected("vllm:inter_token_latency_seconds_bucket", f'{TIER}=~"decode|collocated"')
    p99 = f"1000 * histogram_quantile(0.99, {rate(buckets, limits, f'{BY_TIER}, le')})"
    return Graph("ITL, p99", "ms", "The gap between two tokens of an answer.", (Query(p99, TIER_LEGEND),),
                 limits.itl_p99_ms)  # fmt: skip


def _queue(limits: AlertLimits) -> Graph:
    scoped = queued("1m").replace(IN_FRONT, f"{IN_FRONT},{SCOPE}")
    return Graph("Requests that wait for room, a pod", "short", "Those that wait for their KV are not counted, where vLLM "
                 "tells them apart.", (Query(scoped, TIER_LEGEND),), limits.queued_per_pod)  # fmt: skip


def _running() -> Graph:
    series = selected("vllm:num_requests_running", SCOPE)
    return Graph("Requests in a batch", "short", "By pod.", (Query(f"sum by ({BY_POD}) ({series})", POD_LEGEND),))


def _cache() -> Graph:
    series = selected("vllm:kv_cache_usage_perc", SCOPE)
    return Graph("KV cache in use", "percentunit", "Of the fullest rank of each pod. Near 1, requests queue.",
                 (Query(f"max by ({BY_POD}) ({series})", POD_LEGEND),))  # fmt: skip


def _preemptions(limits: AlertLimits) -> Graph:
    return Graph("Preemptions", "short", "Requests that lost their KV cache to others, and begin again. In the window.",
                 (Query(rate("vllm:num_preemptions_total", limits, BY_POD, "increase"), POD_LEGEND),))  # fmt: skip


def _router_errors(limits: AlertLimits) -> Graph:
    queries = tuple(
        Query(rate(f"vllm_router_pd_{tier}_errors_total", limits, "worker"), tier + " {{worker}}")
        for tier in ("prefill", "decode")
    )
    return Graph("vllm-router: errors of engines a second", "short", "With prefill and decode apart.", queries)


def _breaker() -> Graph:
    state = selected("vllm_router_cb_state", SCOPE)
    return Graph("vllm-router: circuit breaker", "short", "0 closed, 1 open, 2 half open. Of 0.1.17 before collocated "
                 "engines alone.", (Query(f"max by (worker) ({state})", "{{worker}}"),))  # fmt: skip


def _answers(limits: AlertLimits) -> Graph:
    answers = Query(rate(ASKED, limits, "status"), "{{status}}")
    without = Query(
        rate("splitserve_gateway_prefill_answers_without_kv_params_total", limits, BY_RELEASE), "without KV"
    )
    return Graph("Gateway: answers a second by status", "short", "`without KV`: prefill named no KV cache to transfer.",
                 (answers, without))  # fmt: skip


def _legs(limits: AlertLimits) -> Graph:
    leg = "splitserve_gateway_leg_seconds"
    mean = f"1000 * {_each(limits, f'{leg}_sum', f'{leg}_count', 'leg')}"
    return Graph("Gateway: legs of a request, mean", "ms", "decode_first_token holds the transfer; decode is the whole "
                 "answer.", (Query(mean, "{{leg}}"),))  # fmt: skip
