"""Beside a verdict that is no pass: what the release's own pods have said of its cause."""

from __future__ import annotations

from dataclasses import replace

from components.diagnosis.diagnose import diagnose
from components.release.cluster import Cluster, ClusterFault
from components.release.verdict import Verdict
from components.topology.evidence import Topology, read_topology
from components.topology.explain import SLOW_CAUSES, asks_line, reason

MESSAGE = "the verdict's message"
"""It quotes events: why pods were not placed, why a container did not start."""


def explained(cluster: Cluster, release_id: str, verdict: Verdict) -> Verdict:
    """The verdict with its clues; asked while the pods are still there. What can't be read is left out."""
    if verdict.outcome == "pass":
        return verdict
    try:
        texts = {pod.name: cluster.words(pod.name) for pod in cluster.pods(release_id)}
    except ClusterFault:
        texts = {}
    verdict = replace(verdict, clues=diagnose(verdict.cause, {**texts, MESSAGE: verdict.message}))
    return _with_topology(verdict, read_topology(texts)) if verdict.cause in SLOW_CAUSES else verdict


def _with_topology(verdict: Verdict, topology: Topology) -> Verdict:
    """Why a transfer was slow, by the engines' logs alone: a pod sees its own GPUs, and to look at others' takes the
    right to run commands in pods. What they don't say, the user is asked for."""
    found = reason(verdict.cause, topology)
    fix = found.fix if found else verdict.fix
    if asked := asks_line(topology):
        fix = f"{fix}; to know more: {asked} to `splitserve check` (engines' variables: engine.environment)"
    message = f"{verdict.message}; {found.found}" if found else verdict.message
    return replace(verdict, message=message, fix=fix, topology=topology.to_json())
