"""Alerts on what clients feel (TTFT, ITL, queues) and on what routes their requests."""

from __future__ import annotations

from components.observability.alert import Alert
from components.observability.limits import AlertLimits, Part
from components.observability.recording import BY_RELEASE, ITL, QUEUED, TTFT
from components.observability.targets import RELEASE, TIER
from components.observability.transfer_series import selected

HOLDS_S = 300
GATEWAY = "splitserve_gateway_"
OF_CLIENTS = 'route=~"/v1/.+"'
"""The kubelet asks for `/health` and `/liveness` far more often than few clients for answers."""
ASKED = f"{GATEWAY}requests_total{{{OF_CLIENTS}}}"
AT_RELEASE = "release {{ $labels." + RELEASE + " }}"
AT_TIER = "{{ $labels." + TIER + " }} of " + AT_RELEASE
BY_GATEWAY: frozenset[Part] = frozenset({"gateway"})
BY_ROUTER: frozenset[Part] = frozenset({"vllm-router"})


def ttft_slow(limits: AlertLimits) -> str:
    return f"{TTFT} > {limits.ttft_ms / 1000:g}"


def itl_slow(limits: AlertLimits) -> str:
    return f"{ITL} > {limits.itl_p99_ms / 1000:g}"


def queue_long(limits: AlertLimits) -> str:
    return f"{QUEUED} > {limits.queued_per_pod:g}"


def circuit_open(_: AlertLimits) -> str:
    return f"max by ({BY_RELEASE}, worker) (vllm_router_cb_state) == 1"


def engine_unhealthy(_: AlertLimits) -> str:
    return f"min by ({BY_RELEASE}, worker) (vllm_router_worker_health) == 0"


def engine_errors(limits: AlertLimits) -> str:
    """A counter that is not there yet has counted nothing: each of the two may be missing."""
    errors = " or ".join(f"rate(vllm_router_pd_{tier}_errors_total[{limits.window}])" for tier in ("prefill", "decode"))
    asked = f"sum by ({BY_RELEASE}) (rate(vllm_router_pd_requests_total[{limits.window}]))"
    return f"sum by ({BY_RELEASE}) ({errors}) / ({asked} > 0) > {limits.failed_share:g}"


def without_kv(limits: AlertLimits) -> str:
    counted = f"{GATEWAY}prefill_answers_without_kv_params_total[{limits.window}]"
    return f"sum by ({BY_RELEASE}) (increase({counted})) > 0"


def requests_fail(limits: AlertLimits) -> str:
    def asked(*matchers: str) -> str:
        return f"sum by ({BY_RELEASE}) (rate({selected(ASKED, *matchers)}[{limits.window}]))"

    failing = asked('status=~"429|5.."')
    return f"{failing} / ({asked()} > 0) > {limits.failed_share:g}"


def upstream_fails(limits: AlertLimits) -> str:
    failures = f"sum by ({BY_RELEASE}, tier) (rate({GATEWAY}upstream_failures_total[{limits.window}]))"
    asked = f"sum by ({BY_RELEASE}) (rate({ASKED}[{limits.window}]))"
    return f"{failures} / on ({BY_RELEASE}) group_left () ({asked} > 0) > {limits.failed_share:g}"


def no_healthy_pod(_: AlertLimits) -> str:
    return f"max by ({BY_RELEASE}, tier) ({GATEWAY}healthy_pods) == 0"


def first_byte_slow(limits: AlertLimits) -> str:
    of = {name: f"sum by ({BY_RELEASE}) (rate({GATEWAY}time_to_first_byte_seconds_{name}{{{OF_CLIENTS}}}[{limits.window}]))"
          for name in ("sum", "count")}  # fmt: skip
    return f"{of['sum']} / ({of['count']} > 0) > {limits.ttft_ms / 1000:g}"


ALERTS = (
    Alert(
        "TtftSlow", "warning", HOLDS_S, ttft_slow,
        "TTFT of " + AT_RELEASE + " is {{ $value | humanizeDuration }} on average",
        "The mean time to first token, prefill's and decode's added up, is above `traffic.ttftTargetMs` (5 s where there is "
        "none). Time in the router is not in it.",
        "TTFT by tier on the dashboard. Prefill's share: its queue, or long prompts. Decode's share: the KV transfer, or its "
        "queue.",
        "Prefill's share: more prefill replicas. Decode's share: as for KvTransferSlow. Both low and clients slow: the "
        "router or the render tier.",
    ),
    Alert(
        "ItlSlow", "warning", HOLDS_S, itl_slow,
        "ITL p99 of " + AT_TIER + " is {{ $value | humanizeDuration }}",
        "One gap between tokens in a hundred is longer than `traffic.itlP99TargetMs` (200 ms where there is none).",
        "KV cache in use, running requests and preemptions of the decode tier; prompt tokens that decoders compute "
        "themselves, which stop every answer beside them.",
        "Decoders compute prompts: as for KvNotMoved. Else more decode replicas, or fewer requests at once a pod.",
    ),
    Alert(
        "RequestsQueue", "warning", HOLDS_S, queue_long,
        "{{ $value | humanize }} requests wait for each pod of " + AT_TIER,
        "The tier has less room than traffic needs. Requests that wait for their KV are not counted, where vLLM tells them "
        "apart.",
        "The queue by tier and KV cache in use on the dashboard; with `autoscale`, `splitserve_autoscaler_wanted_replicas`.",
        "More replicas of that tier, or a higher `autoscale.TIER.max`.",
    ),
    Alert(
        "RouterCircuitOpen", "critical", 60, circuit_open,
        "The router of " + AT_RELEASE + " sends nothing to {{ $labels.worker }}",
        "vllm-router opened its circuit breaker: ten failures in a row, and it asks that engine nothing for a minute. Of "
        "vllm-router 0.1.17, measured: it has one before collocated engines alone; with prefill and decode apart it has "
        "neither breaker nor series, and RouterEngineErrors tells.",
        "The engine's log; `vllm_router_cb_outcomes_total` by worker.",
        "Restart the engine if it hangs, else what its log says.",
        ("router-failed",), BY_ROUTER,
    ),
    Alert(
        "RouterEngineUnhealthy", "warning", 120, engine_unhealthy,
        "The router of " + AT_RELEASE + " finds {{ $labels.worker }} unhealthy",
        "An engine that the router knows fails its health checks.",
        "The engine's log and readiness.",
        "What its log says. A pod that is gone stays so for the router until it is told by the API server.",
        ("router-failed", "not-ready"), BY_ROUTER,
    ),
    Alert(
        "RouterEngineErrors", "critical", 120, engine_errors,
        "{{ $value | humanizePercentage }} of the requests through the router of " + AT_RELEASE + " failed in an engine",
        "Engines answer the router with errors, which it passes on to clients: with prefill and decode apart, vllm-router "
        "0.1.17 tries no other engine.",
        "`vllm_router_pd_prefill_errors_total` and `vllm_router_pd_decode_errors_total` by worker, then that engine's log.",
        "One engine: restart it. All of a tier: what changed last; KvTransfersFailed if transfers fail too.",
        ("router-failed",), frozenset({"vllm-router", "split"}),
    ),
    Alert(
        "GatewayPrefillWithoutKv", "critical", 0, without_kv,
        "{{ $value | humanize }} prefill answers of " + AT_RELEASE + " named no KV to transfer",
        "A prefiller answered without `kv_transfer_params`: it runs without its connector, so that decoders compute the "
        "prompts, or the gateway refuses (without `--allow-local-prefill`).",
        "The prefill pods' arguments and log: `no KVConnector found`.",
        "Look for what overrides `--kv-transfer-config` on the prefill tier.",
        ("never-disaggregated", "router-not-disaggregated"), frozenset({"gateway", "names-kv"}),
    ),
    Alert(
        "GatewayRequestsFail", "critical", 120, requests_fail,
        "{{ $value | humanizePercentage }} of the requests to " + AT_RELEASE + " end in 429 or 5xx",
        "Clients are turned away: too much is queued (429), or no engine could serve them.",
        "`splitserve_gateway_rejected_requests_total` by reason.",
        "`queue_full` and the like: more replicas, or a longer queue in `gateway`. `no_TIER_pod`: that tier's pods.",
        ("router-failed", "render-failed"), BY_GATEWAY,
    ),
    Alert(
        "GatewayUpstreamFails", "warning", 120, upstream_fails,
        "The gateway's calls to {{ $labels.tier }} of " + AT_RELEASE + " fail, {{ $value | humanizePercentage }} of requests",
        "Calls to a tier fail and are tried elsewhere or started again from prefill: clients may not notice yet.",
        "`splitserve_gateway_upstream_failures_total` by kind: connect, timeout, broken, status; `_restarts_total`.",
        "connect: pods that ended, or ports that are closed; timeout: a tier that hangs; broken: engines that crash.",
        ("router-failed", "render-failed", "encoder-failed"), BY_GATEWAY,
    ),
    Alert(
        "GatewayNoHealthyPod", "critical", 60, no_healthy_pod,
        "The gateway of " + AT_RELEASE + " finds no healthy {{ $labels.tier }} pod",
        "A tier has no pod that is ready and can be reached: requests are refused with 503.",
        "`kubectl get pods` of that tier; the gateway's log.",
        "What keeps the pods from getting ready.",
        ("router-failed", "not-ready"), BY_GATEWAY,
    ),
    Alert(
        "GatewayFirstByteSlow", "warning", HOLDS_S, first_byte_slow,
        "First bytes of " + AT_RELEASE + " take {{ $value | humanizeDuration }} on average",
        "What clients wait for, everything included: queue, render, prefill, transfer, first token. Requests that are not "
        "streamed count with their whole answer.",
        "`splitserve_gateway_leg_seconds` by leg on the dashboard.",
        "The leg that grew: render (CPU), prefill (queue), decode_first_token (transfer or queue).",
        (), BY_GATEWAY,
    ),
)  # fmt: skip
