"""Alerts on the KV path, from real traffic: the gate's own questions, asked for as long as a release is live."""

from __future__ import annotations

from components.observability.alert import Alert
from components.observability.limits import AlertLimits, Part
from components.observability.recording import (
    BY_RELEASE,
    COMPUTED_TOKENS,
    EXTERNAL_TOKENS,
    FAILED,
    PROMPT_TOKENS,
    TRANSFER_MEAN,
    TRANSFERS,
)
from components.observability.targets import RELEASE, TIER

HOLDS_S = 120
"""The windows average already; this keeps a single odd scrape from waking anybody."""
UNPROVED_S = 900
"""A release that has just got the traffic, or a Prometheus that has just started, has seen no idle probe yet."""
DECODE = f'{{{TIER}="decode"}}'
PREFILL = f'{{{TIER}="prefill"}}'
SPLIT: frozenset[Part] = frozenset({"split"})
MEASURED: frozenset[Part] = frozenset({"split", "measured"})
POD = "{{ $labels.pod }}, release {{ $labels." + RELEASE + " }}"


def slow(limits: AlertLimits) -> str:
    return (
        f"{TRANSFER_MEAN} > {limits.transfer_ms / 1000:g}\n"
        f"and {TRANSFERS} >= {limits.least_transfers}"
    )  # fmt: skip


def failed(_: AlertLimits) -> str:
    return f"{FAILED} > 0"


def not_moved(limits: AlertLimits) -> str:
    """By decode pod: among many, one alone may have lost its connector."""
    return (
        f"{EXTERNAL_TOKENS}{DECODE} == 0\n"
        f"and {PROMPT_TOKENS}{DECODE} >= {limits.least_tokens}\n"
        f"and on ({BY_RELEASE}) sum by ({BY_RELEASE}) ({PROMPT_TOKENS}{PREFILL}) >= {limits.least_tokens}"
    )


def prefill_not_served(limits: AlertLimits) -> str:
    return (
        f"sum by ({BY_RELEASE}) ({PROMPT_TOKENS}{PREFILL}) == 0\n"
        f"and sum by ({BY_RELEASE}) ({PROMPT_TOKENS}{DECODE}) >= {limits.least_tokens}"
    )


def partly_moved(limits: AlertLimits) -> str:
    moved, computed = f"{EXTERNAL_TOKENS}{DECODE}", f"{COMPUTED_TOKENS}{DECODE}"
    return (
        f"{moved} / ({moved} + {computed}) < {limits.moved_share:g}\n"
        f"and {moved} > 0\n"
        f"and {moved} + {computed} >= {limits.least_tokens}"
    )


def expired(limits: AlertLimits) -> str:
    return f"sum by ({BY_RELEASE}, {TIER}, pod) (increase(vllm:nixl_num_kv_expired_reqs_total[{limits.window}])) > 0"


def unproved(limits: AlertLimits) -> str:
    received = f'{EXTERNAL_TOKENS}{{namespace="{limits.namespace}",{TIER}="decode"}}'
    return f"sum by (namespace) ({received}) == 0\nor absent({received})"


def silent(limits: AlertLimits) -> str:
    return f'absent(vllm:prompt_tokens_total{{namespace="{limits.namespace}"}})'


def unreachable(limits: AlertLimits) -> str:
    """Of pods that answered before: one that loads its model does not yet, for as long as that takes."""
    pods = f'up{{namespace="{limits.namespace}",{TIER}!=""}}'
    return f"{pods} == 0\nand max_over_time({pods}[6h]) == 1"


ALERTS = (
    Alert(
        "KvTransferSlow", "critical", HOLDS_S, slow,
        "KV transfers of " + POD + " take {{ $value | humanizeDuration }} on average",
        "The mean KV transfer of real traffic takes longer than `gate.limitMs`, the limit that the release passed: "
        "every first token waits for it. The pod is the one that counts the transfers: the decoder, with NIXL push the "
        "prefiller. Transfers that run at once share the link, so that under load the mean may exceed what the gate "
        "measured one at a time.",
        "The dashboard's row KV path: time against the limit, descriptors a transfer, GB/s; one pod or all of them. "
        "`splitserve check` measures the same pair as the gate did.",
        "One pod: its node's RDMA devices and cables, and whether it still uses the planned transport. All pods, with more "
        "descriptors than at the gate: raise `engine.blockSize`. All pods, under load alone: more or faster links, or "
        "fewer tokens a prompt.",
        ("slow-link", "fragmented-cache", "slower-than-expected"), MEASURED,
    ),
    Alert(
        "KvTransfersFailed", "critical", 0, failed,
        "{{ $value | humanize }} KV transfers of " + POD + " failed",
        "Transfers failed since the window began. With `connector.loadFailurePolicy: recompute` clients see it as "
        "latency alone, with `fail` as errors.",
        "The log of the pod and of its partner, by the words handshake, NIXL_ERR and remote; whether a prefiller was "
        "started again just before.",
        "After a prefiller's restart: wait for its decoders to shake hands again, else restart them too (vllm issue "
        "49238). Else the same image, model name, dtype and block size on both tiers, and ports that are reachable.",
        ("failed-transfers",), MEASURED,
    ),
    Alert(
        "KvNotMoved", "critical", HOLDS_S, not_moved,
        "Decoder " + POD + " answers and receives no KV cache",
        "Prefill serves, and the decoder answers with 200 OK and computes every prompt again by itself: the commonest "
        "failure, and a silent one. Each prompt is paid for twice, and a prefill stops every answer beside it.",
        "On the dashboard, the decoder's prompt tokens by source: external stays at 0 while local grows. Its log: "
        "`no KVConnector found`, `engine ID mismatch`, `Got kv_transfer_params, but`.",
        "Look for an argument or an admission webhook that overrides `--kv-transfer-config` on the decode tier, and for a "
        "proxy that drops `kv_transfer_params`. Prompts that are all shorter than a block (`engine.blockSize`) move "
        "nothing by design.",
        ("never-disaggregated", "router-not-disaggregated"), SPLIT,
    ),
    Alert(
        "PrefillNotServed", "critical", HOLDS_S, prefill_not_served,
        "Release {{ $labels." + RELEASE + " }}: decoders answer, no prefiller is asked",
        "Requests reach decoders around the prefill tier: its own counters show no prompt.",
        "The router's log and arguments; the labels of prefill pods; the Services and addresses that clients use.",
        "Send clients to the front door (`splitserve`), never to a decoder. If they use it: the router does not find "
        "prefill pods by the label of their release.",
        ("prefill-not-served", "router-not-disaggregated"), SPLIT,
    ),
    Alert(
        "KvPartlyMoved", "warning", 600, partly_moved,
        "Decoder " + POD + " received {{ $value | humanizePercentage }} of its prompt tokens, the rest it computed",
        "Most of each prompt is computed again by the decoder. Short prompts and last, partly filled blocks cost a little; "
        "most of the traffic is more than that.",
        "Prompt tokens by source on the dashboard; `vllm:request_prompt_tokens` against `engine.blockSize`.",
        "Where prompts are long: compare block size, dtype and KV layout of both tiers. Where they are short: a split does "
        "not pay, see `splitserve advise`.",
        ("wrong-bytes",), SPLIT,
    ),
    Alert(
        "KvExpired", "warning", 0, expired,
        "Prefiller " + POD + " gave up the KV of {{ $value | humanize }} requests that no decoder fetched",
        "A prefiller frees blocks that were not read in time (`kv_lease_duration`): the decoder then computes the prompt "
        "again or fails. Seen where decoders queue, leave, or can't reach the prefiller.",
        "The decode tier's queue and KV cache on the dashboard; decode pods that ended.",
        "More decode replicas, or a longer `kv_lease_duration` in `connector.options`; if decoders are idle, as for "
        "KvTransfersFailed.",
        ("failed-transfers",), MEASURED,
    ),
    Alert(
        "KvPathUnproved", "warning", UNPROVED_S, unproved,
        "No KV transfer in {{ $labels.namespace }} lately, neither by clients nor by the idle probe",
        "With `observability.idleProbe` some transfers happen in every window, traffic or not. There were none, so nothing "
        "else on this page can tell whether the KV path works.",
        "`kubectl -n NAMESPACE get jobs -l app.kubernetes.io/component=probe` and the log of the last one: its last line "
        "is the verdict.",
        "Exit code 1: the verdict names cause and fix. Exit code 2: it could not measure, and says why. No Job: the "
        "CronJob is suspended or its pod finds no node.",
        ("probe-failed", "no-pairs", "never-disaggregated"), frozenset({"split", "idle-probe"}),
    ),
    Alert(
        "MetricsMissing", "critical", 600, silent,
        "No engine in {{ $labels.namespace }} has metrics",
        "Prometheus has no series of any engine: every other alert is silent then, which looks like health.",
        "Prometheus' page of targets; `kubectl get podmonitors`; whether the operator selects them by a label.",
        "Set `observability.labels` to what your Prometheus selects (often `release: kube-prometheus-stack`), or load what "
        "`splitserve alerts --format scrape` prints. No release live at all: that is what `pulumi up` says.",
        ("pair-unmeasured",),
    ),
    Alert(
        "PodNotScraped", "warning", 600, unreachable,
        "{{ $labels.pod }} does not answer Prometheus any more",
        "A running pod that gave metrics gives none: it hangs, loads its model again, or something keeps Prometheus from it.",
        "`kubectl describe pod`, its log, and the NetworkPolicies of Prometheus' own namespace (egress).",
        "Restart a pod that hangs; let Prometheus reach the pods' ports `http` and `metrics`.",
        ("pair-unmeasured", "pod-ended"),
    ),
)  # fmt: skip
