"""For each alert, series in which it fires and then resolves, and series of the same kind in which it must not.

Values are promtool's: `0+5x15` is 0 and then 5 more in each of 15 minutes, `_` no sample
(https://prometheus.io/docs/prometheus/latest/configuration/unit_testing_rules/).
"""

from __future__ import annotations

from dataclasses import dataclass, field

PLACE = 'namespace="splitserve",splitserve_release="r1"'


@dataclass(frozen=True)
class Scenario:
    """`alert` without its prefix. Firing at minute `fires`, not any more at minute `resolves`; `fires` None: never, seen
    at minute `resolves`. `labels`: what the alert must carry."""

    name: str
    alert: str
    series: dict[str, str]
    fires: int | None
    resolves: int
    labels: dict[str, str] = field(default_factory=dict)


def at(name: str, tier: str, pod: str, more: str = "") -> str:
    return f'{name}{{{PLACE},splitserve_tier="{tier}",pod="{pod}"{"," + more if more else ""}}}'


def router(name: str, more: str = "") -> str:
    return at(name, "router", "router-1", more)


def transfers(tier: str, pod: str, seconds: str, count: str = "0+5x60") -> dict[str, str]:
    return {
        at("vllm:nixl_xfer_time_seconds_sum", tier, pod, 'engine="0"'): seconds,
        at("vllm:nixl_xfer_time_seconds_count", tier, pod, 'engine="0"'): count,
    }


def prompts(tier: str, pod: str, counted: str, external: str = "0x60", computed: str = "0x60") -> dict[str, str]:
    by_source = "vllm:prompt_tokens_by_source_total"
    return {
        at("vllm:prompt_tokens_total", tier, pod): counted,
        at(by_source, tier, pod, 'source="external_kv_transfer"'): external,
        at(by_source, tier, pod, 'source="local_compute"'): computed,
    }


SLOW_THEN_FAST = "0+1x15 15.25+0.25x45"
"""Five transfers a minute, of 200 ms and then of 50 ms."""
FAST = "0+0.25x60"
GROWS = "0+1000x60"
SERVED_LATER = "0x15 1000+1000x45"
STORE = 'operation="load_get"'

KV_PATH = (
    Scenario("pull, counted by the decoder", "KvTransferSlow", transfers("decode", "decode-1", SLOW_THEN_FAST), 10, 25,
             {"pod": "decode-1", "family": "nixl", "severity": "critical"}),
    Scenario("push, counted by the prefiller", "KvTransferSlow",
             transfers("prefill", "prefill-1", SLOW_THEN_FAST) | transfers("decode", "decode-1", "0x60", "0x60"), 10, 25,
             {"pod": "prefill-1"}),
    Scenario("one slow pod of two is named", "KvTransferSlow",
             transfers("decode", "decode-1", FAST) | transfers("decode", "decode-2", SLOW_THEN_FAST), 10, 25,
             {"pod": "decode-2"}),
    Scenario("through a store", "KvTransferSlow", {
        at("vllm:mooncake_store_operation_time_seconds_sum", "decode", "decode-1", STORE): SLOW_THEN_FAST,
        at("vllm:mooncake_store_operation_time_seconds_count", "decode", "decode-1", STORE): "0+5x60",
    }, 10, 25, {"family": "mooncake-store"}),
    Scenario("fast ones", "KvTransferSlow", transfers("decode", "decode-1", FAST), None, 20),
    Scenario("one slow transfer says little", "KvTransferSlow",
             transfers("decode", "decode-1", "0x5 9x55", "0x5 1x55"), None, 8),
    Scenario("none at all", "KvTransferSlow", transfers("decode", "decode-1", "0x60", "0x60"), None, 20),
    Scenario("seen by the decoder", "KvTransfersFailed",
             {at("vllm:nixl_num_failed_transfers_total", "decode", "decode-1"): "0x5 2x55"}, 7, 20, {"pod": "decode-1"}),
    Scenario("seen by the prefiller that pushes", "KvTransfersFailed",
             {at("vllm:nixl_num_failed_transfers_total", "prefill", "prefill-1"): "0x5 2x55"}, 7, 20,
             {"pod": "prefill-1"}),
    Scenario("failures of long ago", "KvTransfersFailed",
             {at("vllm:nixl_num_failed_transfers_total", "decode", "decode-1"): "7x60"}, None, 20),
    Scenario("200 OK and no KV", "KvNotMoved",
             prompts("prefill", "prefill-1", GROWS) | prompts("decode", "decode-1", GROWS, SERVED_LATER, GROWS), 10, 25,
             {"pod": "decode-1", "severity": "critical"}),
    Scenario("one decoder of two lost its connector", "KvNotMoved",
             prompts("prefill", "prefill-1", GROWS) | prompts("decode", "decode-1", GROWS, GROWS)
             | prompts("decode", "decode-2", GROWS, SERVED_LATER, GROWS), 10, 25, {"pod": "decode-2"}),
    Scenario("KV moves", "KvNotMoved",
             prompts("prefill", "prefill-1", GROWS) | prompts("decode", "decode-1", GROWS, GROWS), None, 20),
    Scenario("nobody asks", "KvNotMoved",
             prompts("prefill", "prefill-1", "0x60") | prompts("decode", "decode-1", "0x60"), None, 20),
    Scenario("a few tokens of a warm-up", "KvNotMoved",
             prompts("prefill", "prefill-1", GROWS) | prompts("decode", "decode-1", "0+20x60"), None, 20),
    Scenario("around the prefill tier", "PrefillNotServed",
             prompts("prefill", "prefill-1", SERVED_LATER) | prompts("decode", "decode-1", GROWS), 10, 25,
             {"splitserve_release": "r1"}),
    Scenario("both tiers serve", "PrefillNotServed",
             prompts("prefill", "prefill-1", GROWS) | prompts("decode", "decode-1", GROWS), None, 20),
    Scenario("most is computed again", "KvPartlyMoved",
             prompts("decode", "decode-1", GROWS, "0+100x25 3400+900x35", "0+900x25 22600+100x35"), 20, 45,
             {"pod": "decode-1", "severity": "warning"}),
    Scenario("the last block alone is computed", "KvPartlyMoved",
             prompts("decode", "decode-1", GROWS, "0+900x60", "0+100x60"), None, 30),
    Scenario("no decoder came", "KvExpired",
             {at("vllm:nixl_num_kv_expired_reqs_total", "prefill", "prefill-1"): "0x5 1x55"}, 7, 20,
             {"pod": "prefill-1"}),
    Scenario("no transfer by anybody", "KvPathUnproved", prompts("decode", "decode-1", "0x60", "0x30 1024x45"), 20, 32,
             {"namespace": "splitserve"}),
    Scenario("no engine has counters", "KvPathUnproved", {at("up", "decode", "decode-1"): "1x130"}, 20, 120),
    Scenario("the engines have no series", "MetricsMissing",
             {at("vllm:prompt_tokens_total", "decode", "decode-1"): "_x15 0x45"}, 12, 20, {"severity": "critical"}),
    Scenario("another namespace's engines don't count", "MetricsMissing",
             {'vllm:prompt_tokens_total{namespace="other"}': "0x60"}, 12, 120),
    Scenario("a pod that hangs", "PodNotScraped", {at("up", "decode", "decode-1"): "1x2 0x15 1x45"}, 15, 22,
             {"pod": "decode-1"}),
    Scenario("a pod that loads its model for long", "PodNotScraped", {at("up", "decode", "decode-1"): "0x60"}, None, 40),
)  # fmt: skip


def ttft(tier: str, pod: str, seconds: str) -> dict[str, str]:
    return {
        at("vllm:time_to_first_token_seconds_sum", tier, pod): seconds,
        at("vllm:time_to_first_token_seconds_count", tier, pod): "0+10x60",
    }


def gaps(below_100_ms: str) -> dict[str, str]:
    name = "vllm:inter_token_latency_seconds_bucket"
    bounds = {"0.1": below_100_ms, "0.5": "0+100x60", "+Inf": "0+100x60"}
    return {at(name, "decode", "decode-1", f'le="{bound}"'): values for bound, values in bounds.items()}


def queue(capacity: str | None, whole: str) -> dict[str, str]:
    of_reason = at("vllm:num_requests_waiting_by_reason", "decode", "decode-1", 'reason="capacity"')
    waiting = {at("vllm:num_requests_waiting", "decode", "decode-1"): whole}
    return waiting if capacity is None else {of_reason: capacity, **waiting}


WORKER = 'worker="http://10.0.0.7:8000"'
GATEWAY = "splitserve_gateway_"
CLIENTS = (
    Scenario("prefill's and decode's add up", "TtftSlow",
             ttft("prefill", "prefill-1", "0+35x20 710+10x40") | ttft("decode", "decode-1", "0+20x60"), 15, 35),
    Scenario("either alone is quick enough", "TtftSlow", ttft("prefill", "prefill-1", "0+45x60"), None, 20),
    Scenario("gaps of 100 ms and more", "ItlSlow", gaps("0x15 100+100x45"), 12, 30, {"splitserve_tier": "decode"}),
    Scenario("gaps below 100 ms", "ItlSlow", gaps("0+100x60"), None, 20),
    Scenario("too little room", "RequestsQueue", queue("20x20 0x40", "25x20 5x40"), 12, 32, {"splitserve_tier": "decode"}),
    Scenario("an engine that tells no reasons", "RequestsQueue", queue(None, "20x20 0x40"), 12, 32),
    Scenario("those that wait for KV alone", "RequestsQueue", queue("0x60", "20x60"), None, 20),
)  # fmt: skip
ROUTERS = (
    Scenario("the breaker opens", "RouterCircuitOpen", {router("vllm_router_cb_state", WORKER): "0x2 1x10 2x2 0x40"},
             5, 20, {"worker": "http://10.0.0.7:8000"}),
    Scenario("an engine fails its checks", "RouterEngineUnhealthy",
             {router("vllm_router_worker_health", WORKER): "1x2 0x10 1x40"}, 8, 20, {"worker": "http://10.0.0.7:8000"}),
    Scenario("decoders answer with errors, and no prefiller ever did", "RouterEngineErrors", {
        router("vllm_router_pd_decode_errors_total", WORKER): "0+2x15 30x45",
        router("vllm_router_pd_requests_total", 'route="/v1/completions"'): "0+10x60"}, 10, 25),
    Scenario("errors of both tiers are added", "RouterEngineErrors", {
        router("vllm_router_pd_decode_errors_total", WORKER): "0+3x15 45x45",
        router("vllm_router_pd_prefill_errors_total", 'worker="http://10.0.0.8:8000"'): "0+3x15 45x45",
        router("vllm_router_pd_requests_total", 'route="/v1/completions"'): "0+100x60"}, 10, 25),
    Scenario("an error in a hundred", "RouterEngineErrors", {
        router("vllm_router_pd_decode_errors_total", WORKER): "0+1x60",
        router("vllm_router_pd_requests_total", 'route="/v1/completions"'): "0+100x60"}, None, 20),
    Scenario("prefill names no KV", "GatewayPrefillWithoutKv",
             {router(f"{GATEWAY}prefill_answers_without_kv_params_total"): "0x5 3x55"}, 7, 20),
    Scenario("clients are turned away", "GatewayRequestsFail", {
        router(f"{GATEWAY}requests_total", 'route="/v1/completions",status="200"'): "0+90x60",
        router(f"{GATEWAY}requests_total", 'route="/v1/completions",status="429"'): "0+10x15 150x45"}, 10, 25),
    Scenario("clients are turned away, and the kubelet is not", "GatewayRequestsFail", {
        router(f"{GATEWAY}requests_total", 'route="/health",status="200"'): "0+600x60",
        router(f"{GATEWAY}requests_total", 'route="/v1/completions",status="503"'): "0+10x15 150x45"}, 10, 25),
    Scenario("the kubelet asks a gateway that is not ready", "GatewayRequestsFail", {
        router(f"{GATEWAY}requests_total", 'route="/health",status="503"'): "0+12x60"}, None, 20),
    Scenario("clients that err", "GatewayRequestsFail", {
        router(f"{GATEWAY}requests_total", 'route="/v1/completions",status="200"'): "0+10x60",
        router(f"{GATEWAY}requests_total", 'route="/v1/completions",status="400"'): "0+90x60"}, None, 20),
    Scenario("calls to decode fail", "GatewayUpstreamFails", {
        router(f"{GATEWAY}requests_total", 'route="/v1/completions",status="200"'): "0+100x60",
        router(f"{GATEWAY}upstream_failures_total", 'tier="decode",kind="connect"'): "0+10x15 150x45",
        router(f"{GATEWAY}upstream_failures_total", 'tier="prefill",kind="connect"'): "0x60"}, 10, 25,
        {"tier": "decode"}),
    Scenario("no prefill pod is left", "GatewayNoHealthyPod", {
        router(f"{GATEWAY}healthy_pods", 'tier="prefill"'): "1x2 0x10 1x40",
        router(f"{GATEWAY}healthy_pods", 'tier="decode"'): "1x60"}, 6, 20, {"tier": "prefill"}),
    Scenario("first bytes come late", "GatewayFirstByteSlow", {
        router(f"{GATEWAY}time_to_first_byte_seconds_sum", 'route="/v1/completions"'): "0+70x20 1410+10x40",
        router(f"{GATEWAY}time_to_first_byte_seconds_count", 'route="/v1/completions"'): "0+10x60"}, 15, 35),
)  # fmt: skip
SCENARIOS = (*KV_PATH, *CLIENTS, *ROUTERS)
