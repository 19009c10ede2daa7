"""PodMonitors: how the Prometheus operator scrapes a stack's pods. Pure.

Fields: prometheus-operator 0.86 `Documentation/api-reference/api.md`, PodMonitor (monitoring.coreos.com/v1).
"""

from __future__ import annotations

from typing import Any

from components.observability.targets import POD_LABELS, TARGETS, Target
from components.serving.labels import TIER_LABEL


def pod_monitors(interval_s: int) -> dict[str, dict[str, Any]]:
    """By name, the `spec` of each. They bind in their own namespace alone, and to pods that come later too."""
    return {f"splitserve-{target.name}": _spec(target, interval_s) for target in TARGETS}


def _spec(target: Target, interval_s: int) -> dict[str, Any]:
    endpoint = {
        "port": target.port,
        "path": "/metrics",
        "interval": f"{interval_s}s",
        "relabelings": [
            {"action": "replace", "sourceLabels": [meta_label(label)], "targetLabel": name}
            for name, label in POD_LABELS.items()
        ],
    }
    return {"selector": _selector(target), "podMetricsEndpoints": [endpoint]}


def _selector(target: Target) -> dict[str, Any]:
    if not target.tiers:
        return {"matchLabels": dict(target.labels)}
    return {"matchExpressions": [{"key": TIER_LABEL, "operator": "In", "values": list(target.tiers)}]}


def meta_label(label: str) -> str:
    """Prometheus' name for a pod's label while it discovers pods (configuration, `kubernetes_sd_config`)."""
    return f"__meta_kubernetes_pod_label_{sanitized(label)}"


def sanitized(label: str) -> str:
    return "".join(char if char.isalnum() else "_" for char in label)
