"""Beside a verdict that is no pass: what the release's own pods have said of its cause."""

from __future__ import annotations

from dataclasses import replace

from components.diagnosis.diagnose import diagnose
from components.release.cluster import Cluster, ClusterFault
from components.release.verdict import Verdict

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
    return replace(verdict, clues=diagnose(verdict.cause, {**texts, MESSAGE: verdict.message}))
