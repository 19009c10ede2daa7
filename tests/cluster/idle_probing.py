"""The idle probe of a live stack, run when a test wants it."""

from __future__ import annotations

import json
import time
from typing import Any

from components.release.cluster import Cluster
from tests.cluster.asking import Change
from tools.demo import note

JOB = "idle-probe-now"
JOB_LIMIT_S = 120


def observed(note_of_live: str) -> Change:
    def change(settings: dict[str, Any]) -> None:
        note(note_of_live)(settings)
        settings["splitserve:observability"] = {
            "dashboard": True,
            "idleProbe": {"schedule": "0 3 * * *", "samples": 3, "quietS": 1},
        }

    return change


def run_now(cluster: Cluster) -> tuple[bool, dict[str, Any]]:
    """Run the CronJob's pod at once: (whether it ended with 0, its verdict)."""
    [template] = [item.spec.job_template for item in cluster.batch.list_namespaced_cron_job(cluster.namespace).items]
    body = cluster.batch.api_client.sanitize_for_serialization({"metadata": {"name": JOB}, "spec": template.spec})
    cluster.batch.create_namespaced_job(cluster.namespace, body)
    deadline = time.monotonic() + JOB_LIMIT_S
    try:
        while True:
            status = cluster.batch.read_namespaced_job(JOB, cluster.namespace).status
            if status.succeeded or status.failed:
                break
            assert time.monotonic() < deadline, status
            time.sleep(1)
        [pod] = cluster.select(f"batch.kubernetes.io/job-name={JOB}")
        last = cluster.log(pod.name).splitlines()[-1]
        return bool(status.succeeded), json.loads(last.removeprefix("VERDICT "))
    finally:
        cluster.batch.delete_namespaced_job(JOB, cluster.namespace, propagation_policy="Foreground")
