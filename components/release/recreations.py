"""How often groups of pods were made anew: what a pod's own restart count says for a Deployment.

A LeaderWorkerSet deletes all pods of a group when a container of one ends, and makes others by the same names
(lws 0.7.0 `pkg/controllers/pod_controller.go` handleRestartPolicy): each starts with a count of 0.
"""

from __future__ import annotations

from components.release.cluster import RESTARTS_ARE_FATAL, Cluster, Pod


class Recreations:
    """Looks at a release's pods each time it is asked, and remembers."""

    def __init__(self, cluster: Cluster, release_id: str) -> None:
        self._cluster, self._release_id = cluster, release_id
        self._uids: dict[str, str] = {}
        self._times: dict[str, int] = {}
        self._ends: dict[str, str] = {}
        """By uid, how a pod's container ended, with what its log said of it."""
        self._last: str | None = None

    def trouble(self) -> str | None:
        """Why the release will not get ready by waiting; None while it may."""
        pods = self._cluster.pods(self._release_id, ending=True)
        for pod in pods:
            self._note(pod)
        worst = max(self._times, key=lambda name: self._times[name], default=None)
        if worst is None or self._times[worst] < RESTARTS_ARE_FATAL:
            return None
        why = f"; before that {self._last}" if self._last else ""
        return f"pod {worst} does not start: its group was made anew {self._times[worst]} times{why}"

    def _note(self, pod: Pod) -> None:
        before = self._uids.get(pod.name)
        if before is not None and before != pod.uid:
            self._times[pod.name] = self._times.get(pod.name, 0) + 1
        self._uids[pod.name] = pod.uid
        if pod.last_end and pod.uid not in self._ends:
            words = self._cluster.last_words(pod.name)
            self._last = f"{pod.name} ended with {pod.last_end}" + (f"; its log: {words}" if words else "")
            self._ends[pod.uid] = self._last
