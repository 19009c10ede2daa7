"""The probe's Job: one run of `probe.py` inside the cluster, and nothing left of it afterwards.

Each run has a name of its own. Whoever starts one removes what earlier runs for the same release
left, those of a killed update among them. A run that finds its Job removed has been superseded: it
must end without touching the release, which another update measures by then.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from components.release.cluster import CALL_LIMIT_S, Cluster, ClusterFault, call
from components.serving.labels import MANAGED_BY

POLL_S = 0.5
EARLIER_LIMIT_S = 60
"""How long an earlier probe's pod may take to end: one second of grace, and a busy node."""
EVIDENCE_MARK = "EVIDENCE "
PROBED_LABEL = "splitserve.dev/probed-release"
"""Not the release's own label: routers and Services must never find a probe."""


class Superseded(Exception):
    """Another update measures the same release: this one must leave it alone."""


def run_probe(cluster: Cluster, release_id: str, pod_spec: dict[str, Any], plan: dict[str, Any],
              limit_s: int) -> dict[str, Any]:  # fmt: skip
    """Run the probe on a plan (see probe.py) and return its evidence; Superseded, ClusterFault."""
    job = ProbeJob(cluster, release_id)
    job.remove_earlier()
    try:
        job.start(pod_spec, plan, limit_s)
        return job.evidence(limit_s)
    finally:
        job.remove()


class ProbeJob:
    """One Job and the ConfigMap that it reads, both of the same name."""

    def __init__(self, cluster: Cluster, release_id: str) -> None:
        self.name = f"probe-{release_id}-{secrets.token_hex(3)}"
        self._cluster = cluster
        self._namespace = cluster.namespace
        self._labels = {**MANAGED_BY, "app.kubernetes.io/component": "probe", PROBED_LABEL: release_id}
        self._selector = f"{PROBED_LABEL}={release_id}"

    def remove_earlier(self) -> None:
        """Remove every earlier run for this release and wait for its pods to end: what they still send
        would be counted in this run's samples. ClusterFault."""
        what = f"earlier probes ({self._selector})"
        limits = {"label_selector": self._selector, "_request_timeout": CALL_LIMIT_S}
        call(what, lambda: self._cluster.batch.delete_collection_namespaced_job(
            self._namespace, propagation_policy="Background", **limits))  # fmt: skip
        call(what, lambda: self._cluster.core.delete_collection_namespaced_config_map(self._namespace, **limits))
        deadline = time.monotonic() + EARLIER_LIMIT_S
        while running := self._cluster.select(self._selector, ending=True):
            if time.monotonic() > deadline:
                raise ClusterFault(f"an earlier probe, pod {running[0].name}, did not end within {EARLIER_LIMIT_S} s")
            time.sleep(POLL_S)

    def start(self, pod_spec: dict[str, Any], plan: dict[str, Any], limit_s: int) -> None:
        source = Path(__file__).with_name("probe.py").read_text()
        metadata = {"name": self.name, "labels": self._labels}
        config_map = {"metadata": metadata, "data": {"probe.py": source, "plan.json": json.dumps(plan)}}
        job = {
            "metadata": metadata,
            "spec": {
                "backoffLimit": 0,
                "activeDeadlineSeconds": limit_s,
                "template": {
                    "metadata": {"labels": self._labels},
                    "spec": pod_spec | {"volumes": [{"name": "plan", "configMap": {"name": self.name}}]},
                },
            },
        }
        self._create(f"ConfigMap {self.name}", self._cluster.core.create_namespaced_config_map, config_map)
        self._create(f"Job {self.name}", self._cluster.batch.create_namespaced_job, job)

    def _create(self, what: str, create: Callable[..., Any], body: dict[str, Any]) -> None:
        call(what, lambda: create(self._namespace, body, _request_timeout=CALL_LIMIT_S))

    def evidence(self, limit_s: int) -> dict[str, Any]:
        """Wait for the Job's end and read what it printed."""
        deadline = time.monotonic() + limit_s + CALL_LIMIT_S
        while time.monotonic() < deadline:
            status = self._status()
            if status.succeeded:
                return self._printed()
            if status.failed:
                raise ClusterFault(f"the probe's Job failed: {self._trouble(status)}")
            time.sleep(POLL_S)
        raise ClusterFault(f"the probe's Job did not end within {limit_s} s: {self._pod_states()}")

    def _status(self) -> Any:
        try:
            return self._cluster.batch.read_namespaced_job(
                self.name, self._namespace, _request_timeout=CALL_LIMIT_S
            ).status
        except ApiException as error:
            if error.status == 404:
                raise Superseded(f"Job {self.name} was removed: another update measures this release") from None
            raise ClusterFault(f"Job {self.name}: {error.reason}") from None
        except HTTPError as error:
            raise ClusterFault(f"Job {self.name}: the API server does not answer: {error}") from None

    def _printed(self) -> dict[str, Any]:
        for pod in self._pods():
            log = self._cluster.log(pod.name)
            for line in reversed(log.splitlines()):
                if line.startswith(EVIDENCE_MARK):
                    return json.loads(line.removeprefix(EVIDENCE_MARK))
        raise ClusterFault("the probe ended without printing its evidence")

    def _trouble(self, status: Any) -> str:
        conditions = [c.message for c in status.conditions or [] if c.type == "Failed"]
        pods = self._pods()
        words = self._cluster.last_words(pods[-1].name) if pods else ""
        return "; ".join(part for part in (*conditions, words) if part)

    def _pod_states(self) -> str:
        return "; ".join(pod.state for pod in self._pods()) or "it has no pod"

    def _pods(self) -> list[Any]:
        return self._cluster.select(f"batch.kubernetes.io/job-name={self.name}")

    def remove(self) -> None:
        """Remove this run. What can't be removed now goes with the next run's `remove_earlier`."""
        limit = {"_request_timeout": CALL_LIMIT_S}
        for delete in (
            lambda: self._cluster.batch.delete_namespaced_job(
                self.name, self._namespace, propagation_policy="Background", **limit),
            lambda: self._cluster.core.delete_namespaced_config_map(self.name, self._namespace, **limit),
        ):  # fmt: skip
            try:
                delete()
            except (ApiException, HTTPError):
                continue
