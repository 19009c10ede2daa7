"""Engines over several nodes, as LeaderWorkerSets. Pure.

A group is a leader, which has the HTTP server and is found as the engine, and workers, which have neither.
API: leaderworkerset.x-k8s.io/v1 (lws 0.7.0 `api/leaderworkerset/v1/leaderworkerset_types.go`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from components.serving.group_nodes import HEADLESS
from components.serving.labels import pod_labels, worker_tier
from components.serving.release_files import of_release
from components.serving.spec import TIERS, ServingSpec

API_VERSION = "leaderworkerset.x-k8s.io/v1"
KIND = "LeaderWorkerSet"
EXCLUSIVE_TOPOLOGY = "leaderworkerset.sigs.k8s.io/exclusive-topology"
WORKER_GRACE_S = 15
"""A worker has no requests of its own to finish; vLLM gives its processes 5 s (vllm 0.32 `envs.py`)."""
_OF_SERVERS = ("startupProbe", "readinessProbe", "livenessProbe", "lifecycle")

Group = dict[str, Any]
"""{size, worker, rackLabel}: pods of one engine, a worker's pod, and the label of its exclusive rack (or none)."""


def rendered_groups(serving: ServingSpec, pods: Mapping[str, dict[str, Any]]) -> dict[str, Group]:
    """By engine tier over several nodes; `pods` are the leaders'."""
    groups = {}
    for tier in TIERS[serving.topology]:
        spec = serving.tiers[tier]
        if spec.engine.nodes > 1:
            rack = {"rackLabel": spec.rack_label} if spec.rack_label else {}
            groups[tier] = {"size": spec.engine.nodes, "worker": worker_pod(pods[tier]), **rack}
    return groups


def worker_pod(leader: dict[str, Any]) -> dict[str, Any]:
    """The leader's pod without what belongs to a server: same devices, memory, model and identity.

    It ends as soon as a rank of its own dies (vllm 0.32 `serve.py` run_headless), so it needs no probe.
    """
    first = leader["containers"][0]
    container = {key: value for key, value in first.items() if key not in _OF_SERVERS}
    container["args"] = [*first["args"], HEADLESS]
    container["ports"] = [port for port in first["ports"] if port["name"] == "side-channel"]
    return {**leader, "containers": [container], "terminationGracePeriodSeconds": WORKER_GRACE_S}


def group_spec(release_id: str, tier: str, pod: dict[str, Any], group: Group,
               annotations: Mapping[str, str] | None = None) -> dict[str, Any]:  # fmt: skip
    """The LeaderWorkerSet's `spec` of one tier, without replicas: those are the gate's and the switch's."""
    workers = worker_tier(tier)
    return {
        # The leader is ready only once all ranks have met.
        "startupPolicy": "LeaderCreated",
        "networkConfig": {"subdomainPolicy": "UniquePerReplica"},
        "leaderWorkerTemplate": {
            "size": group["size"],
            # Ranks can't join again: the others would wait for the lost one for ever.
            "restartPolicy": "RecreateGroupOnPodRestart",
            "leaderTemplate": _template(release_id, tier, pod, annotations),
            "workerTemplate": _template(release_id, workers, group["worker"], annotations),
        },
    }


def group_annotations(group: Group) -> dict[str, str]:
    """Of the LeaderWorkerSet itself: its engines' nodes share a value of the label, which no other group's has."""
    return {EXCLUSIVE_TOPOLOGY: group["rackLabel"]} if group.get("rackLabel") else {}


def with_workers(replicas: Mapping[str, int], groups: Mapping[str, Group]) -> dict[str, int]:
    """Pods by tier label, workers of groups among them, for so many engines."""
    workers = {worker_tier(tier): replicas[tier] * (int(group["size"]) - 1)
               for tier, group in groups.items() if tier in replicas}  # fmt: skip
    return {**replicas, **workers}


def _template(release_id: str, tier: str, pod: dict[str, Any], annotations: Mapping[str, str] | None) -> dict[str, Any]:
    metadata = {"labels": pod_labels(release_id, tier), **({"annotations": dict(annotations)} if annotations else {})}
    return {"metadata": metadata, "spec": of_release(pod, release_id)}
