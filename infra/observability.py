"""From a plan to what its alerts are held against. Pure: rules and commands use it."""

from __future__ import annotations

from components.observability.limits import LONGEST_PAUSE_S, AlertLimits, Part, window_for
from components.observability.schedule import longest_pause_s, parse
from components.serving.connectors.profiles import measurement, requests
from infra.settings import Settings

TTFT_MS = 5000.0
ITL_P99_MS = 200.0
"""Where the stack file promises nothing: what nobody would call interactive any more."""


def alert_limits(settings: Settings) -> AlertLimits:
    """Raises ImpossibleSchedule for a schedule that rules refuse."""
    pause_s, traffic = idle_pause_s(settings), settings.traffic
    return AlertLimits(
        namespace=settings.platform.namespace,
        transfer_ms=settings.gate.limit_ms,
        ttft_ms=(traffic and traffic.ttft_target_ms) or TTFT_MS,
        itl_p99_ms=(traffic and traffic.itl_p99_target_ms) or ITL_P99_MS,
        queued_per_pod=settings.observability.queued_per_pod,
        least_tokens=settings.gate.prompt_tokens,
        window_s=window_for(pause_s),
        parts=parts(settings, pause_s),
    )


def idle_pause_s(settings: Settings) -> int | None:
    """The longest time between two runs of the idle probe; None without one. Raises ImpossibleSchedule."""
    schedule = settings.observability.idle_probe.schedule
    return longest_pause_s(parse(schedule)) if schedule else None


def parts(settings: Settings, pause_s: int | None) -> frozenset[Part]:
    """What the stack has to be watched."""
    chosen, topology = settings.connector.chosen, settings.topology
    split = topology == "prefill-decode"
    there: dict[Part, bool] = {
        "split": split,
        "gateway": bool(settings.render.replicas),
        "vllm-router": not settings.render.replicas,
        "measured": split and measurement(chosen, topology).unmeasured is None,
        "names-kv": split and requests(chosen, topology).decode in ("answer", "learned"),
        "idle-probe": pause_s is not None and pause_s <= LONGEST_PAUSE_S,
    }
    return frozenset(part for part, is_there in there.items() if is_there)


def operator_kinds(settings: Settings) -> dict[str, str]:
    """The kinds of the Prometheus operator's that are asked for -> the setting that asks."""
    asked = settings.observability
    kinds = {"podmonitors": ("observability.podMonitors", asked.pod_monitors),
             "prometheusrules": ("observability.rules", asked.rules)}  # fmt: skip
    return {kind: key for kind, (key, wanted) in kinds.items() if wanted}
