"""Pods as a list of addresses, for a Prometheus that can't ask Kubernetes itself: Debian's is built without that.

The list is file_sd's: https://prometheus.io/docs/prometheus/latest/configuration/configuration/#file_sd_config. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from components.observability.targets import POD_LABELS, TARGETS, Target
from components.serving.labels import TIER_LABEL


def file_configuration(targets_file: str, interval_s: int) -> dict[str, Any]:
    """`{scrape_configs: [...]}` of one job that reads its targets from a JSON file, again whenever that changes."""
    discovery = {"files": [targets_file], "refresh_interval": "5s"}
    job = {"job_name": "splitserve-pods", "scrape_interval": f"{interval_s}s", "file_sd_configs": [discovery]}
    return {"scrape_configs": [job]}


def pod_targets(pods: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The file's content from pods as the API server gives them (`kubectl get pods -o json`, its `items`): each
    running one's port with metrics, with the labels that PodMonitors would give its series."""
    return [entry for pod in pods for entry in _entries(pod)]


def _entries(pod: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    metadata, address = pod["metadata"], pod.get("status", {}).get("podIP")
    labels = metadata.get("labels") or {}
    if not address or pod["status"].get("phase") != "Running":
        return
    named = {name: labels[label] for name, label in POD_LABELS.items() if label in labels}
    for target in TARGETS:
        for port in _ports(pod, target) if _chosen(labels, target) else ():
            yield {
                "targets": [f"{address}:{port}"],
                "labels": {"namespace": metadata["namespace"], "pod": metadata["name"], **named},
            }


def _chosen(labels: Mapping[str, str], target: Target) -> bool:
    return labels.get(TIER_LABEL) in target.tiers if target.tiers else target.labels.items() <= labels.items()


def _ports(pod: Mapping[str, Any], target: Target) -> Iterator[int]:
    for container in pod["spec"]["containers"]:
        for port in container.get("ports") or []:
            if port.get("name") == target.port:
                yield port["containerPort"]
