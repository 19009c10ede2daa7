"""The scrape configuration of a plain Prometheus for the pods of one namespace: what PodMonitors say to an operator.

Fields: https://prometheus.io/docs/prometheus/latest/configuration/configuration/, `scrape_config` and
`kubernetes_sd_config`. Pure.
"""

from __future__ import annotations

from typing import Any

from components.observability.pod_monitors import meta_label
from components.observability.targets import POD_LABELS, TARGETS, Target
from components.serving.labels import TIER_LABEL

PORT_NAME = "__meta_kubernetes_pod_container_port_name"
PHASE = "__meta_kubernetes_pod_phase"


def scrape_configuration(namespace: str, interval_s: int, kubeconfig: str | None = None) -> dict[str, Any]:
    """`{scrape_configs: [...]}`. Prometheus asks its own cluster for pods (get, list and watch of pods in the
    namespace), or the one of `kubeconfig`, a file's path."""
    return {"scrape_configs": [_job(target, namespace, interval_s, kubeconfig) for target in TARGETS]}


def _job(target: Target, namespace: str, interval_s: int, kubeconfig: str | None) -> dict[str, Any]:
    discovery: dict[str, Any] = {"role": "pod", "namespaces": {"names": [namespace]}}
    if kubeconfig:
        discovery["kubeconfig_file"] = kubeconfig
    return {
        "job_name": f"splitserve-{target.name}",
        "scrape_interval": f"{interval_s}s",
        "metrics_path": "/metrics",
        "kubernetes_sd_configs": [discovery],
        "relabel_configs": [*_kept(target), *_named()],
    }


def _kept(target: Target) -> list[dict[str, Any]]:
    """Running pods of the target, by the one port that has metrics."""
    wanted = {meta_label(label): value for label, value in target.labels.items()}
    if target.tiers:
        wanted = {meta_label(TIER_LABEL): "|".join(target.tiers)}
    return [
        {"action": "drop", "source_labels": [PHASE], "regex": "Failed|Succeeded"},
        *({"action": "keep", "source_labels": [label], "regex": value} for label, value in wanted.items()),
        {"action": "keep", "source_labels": [PORT_NAME], "regex": target.port},
    ]


def _named() -> list[dict[str, Any]]:
    """The labels that the operator gives by itself, and ours."""
    given = {"namespace": "__meta_kubernetes_namespace", "pod": "__meta_kubernetes_pod_name"}
    found = given | {name: meta_label(label) for name, label in POD_LABELS.items()}
    return [{"action": "replace", "source_labels": [source], "target_label": name} for name, source in found.items()]
