"""One run of the load generator in the cluster: start its Job, wait, read its log, remove it.

The only module of `components/bench` that talks to Kubernetes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from components.bench.job_spec import LABEL
from components.release.cluster import CALL_LIMIT_S, Cluster, ClusterFault, call
from components.serving.labels import NO_RELEASE, RELEASE_LABEL, SERVICE

POLL_S = 1.0
SCHEDULE_LIMIT_S = 60
"""How long a pod may find no node: one that is just being freed, not one that is yet to be bought."""
PATIENCE_S = 60
DEADLINE = "DeadlineExceeded"

Tick = Callable[[], None]


class TookTooLong(ClusterFault):
    """The run was ended at its limit."""


def front_door(cluster: Cluster) -> tuple[str, str | None]:
    """The address that the Service has inside the cluster, and the release that it selects. ClusterFault."""
    what = f"Service {SERVICE} in namespace {cluster.namespace}"
    found = call(what, lambda: cluster.core.read_namespaced_service(
        SERVICE, cluster.namespace, _request_timeout=CALL_LIMIT_S))  # fmt: skip
    selected = (found.spec.selector or {}).get(RELEASE_LABEL)
    host = f"[{found.spec.cluster_ip}]" if ":" in found.spec.cluster_ip else found.spec.cluster_ip
    return f"http://{host}:{found.spec.ports[0].port}", None if selected in (None, NO_RELEASE) else selected


def running(cluster: Cluster) -> list[str]:
    """Jobs of benchmarks that still run in the namespace. ClusterFault."""
    found = call("Jobs of benchmarks", lambda: cluster.batch.list_namespaced_job(
        cluster.namespace, label_selector=LABEL, _request_timeout=CALL_LIMIT_S))  # fmt: skip
    return [job.metadata.name for job in found.items if not (job.status.succeeded or job.status.failed)]


def run_job(cluster: Cluster, job: dict[str, Any], limit_s: int, tick: Tick) -> str:
    """Run a Job to its end and return its pod's log. `tick` is called about once a second.

    The Job is removed whatever happens, KeyboardInterrupt included. Raises TookTooLong, ClusterFault.
    """
    name = job["metadata"]["name"]
    try:
        call(f"Job {name}", lambda: cluster.batch.create_namespaced_job(
            cluster.namespace, job, _request_timeout=CALL_LIMIT_S))  # fmt: skip
        _wait(cluster, name, limit_s, tick)
        pods = _pods(cluster, name)
        if not pods:
            raise ClusterFault(f"Job {name} succeeded, but its pod is gone, and its log with it")
        return cluster.log(pods[-1].name)
    finally:
        _remove(cluster, name)


def _wait(cluster: Cluster, name: str, limit_s: int, tick: Tick) -> None:
    started = time.monotonic()
    while (waited := time.monotonic() - started) < limit_s + CALL_LIMIT_S:
        status = _status(cluster, name)
        if status.succeeded:
            return
        conditions = status.conditions or []
        if any(condition.reason == DEADLINE for condition in conditions):
            raise TookTooLong(f"Job {name} did not end within {limit_s} s")
        if status.failed:
            raise ClusterFault(f"Job {name} failed: {_words(cluster, name, conditions)}")
        _check_start(cluster, name, waited)
        tick()
        time.sleep(POLL_S)
    raise TookTooLong(f"Job {name} did not end within {limit_s} s")


def _status(cluster: Cluster, name: str) -> Any:
    """A run of half an hour should outlive an API server that is away for a moment."""
    started = time.monotonic()
    while True:
        try:
            return cluster.batch.read_namespaced_job(name, cluster.namespace, _request_timeout=CALL_LIMIT_S).status
        except ApiException as error:
            if error.status == 404:
                raise ClusterFault(f"Job {name} was removed by somebody else") from None
            reason = f"{error.status} {error.reason}"
        except HTTPError as error:
            reason = f"the API server does not answer: {error}"
        if time.monotonic() - started > PATIENCE_S:
            raise ClusterFault(f"Job {name}: {reason}")
        time.sleep(POLL_S)


def _check_start(cluster: Cluster, name: str, waited_s: float) -> None:
    """A pod that can't start is reported at once, one that has no node after a while."""
    try:
        pods = _pods(cluster, name)
    except ClusterFault:
        return  # asked again in a second; `_status` knows when to give up
    for pod in pods:
        stuck = waited_s > SCHEDULE_LIMIT_S and pod.state.startswith("not scheduled")
        if pod.trouble or stuck:
            raise ClusterFault(f"Job {name} does not start: {pod.trouble or pod.state}")


def _words(cluster: Cluster, name: str, conditions: list[Any]) -> str:
    stated = [c.message for c in conditions if c.type == "Failed" and c.message]
    pods = _pods(cluster, name)
    words = cluster.last_words(pods[-1].name) if pods else ""
    return "; ".join(part for part in (words, *stated) if part) or "no reason given"


def _pods(cluster: Cluster, name: str) -> list[Any]:
    return cluster.select(f"batch.kubernetes.io/job-name={name}", ending=True)


def _remove(cluster: Cluster, name: str) -> None:
    """What can't be removed now the cluster removes by itself (`ttlSecondsAfterFinished`)."""
    try:
        cluster.batch.delete_namespaced_job(
            name, cluster.namespace, propagation_policy="Background", _request_timeout=CALL_LIMIT_S
        )
    except (ApiException, HTTPError):
        return
