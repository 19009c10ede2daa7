"""Wait until a release that lost the traffic has finished the requests it still serves.

Connections made before the Service moved stay with the old release. Its engines say how many
requests they run; when that has been zero for a while, or the limit is over, it may be stopped.
"""

from __future__ import annotations

import time
from typing import Any

from pulumi import Input, Output, ResourceOptions
from pulumi.dynamic import Resource

from components.release.cluster import Access, Cluster, ClusterFault
from components.release.once import OnceProvider
from components.release.probe import parse_metrics, total
from components.release.progress import engine_log
from components.release.release import Release
from components.serving.spec import ROUTER

POLL_S = 1.0
ROUTER_GONE_LIMIT_S = 90
QUIET_S = 4.0
"""Time without requests that counts as drained: longer than kube-proxy takes to see a Service."""


class DrainProvider(OnceProvider):
    """`towards` is the release that took the traffic over, or nothing if it stays where it is."""

    decides = ("releaseId", "towards")

    def run(self, props: dict[str, Any]) -> dict[str, Any]:
        if not props.get("towards"):  # the candidate did not pass: this release keeps the traffic
            return {"drained": {"idle": False, "seconds": 0, "skipped": True}}
        try:
            return {"drained": drain(props)}
        except Exception as error:  # the edge: stopping an old release must not fail the update
            engine_log(f"draining release {props['releaseId']}: {error}", warn=True)
            return {"drained": {"idle": False, "seconds": 0, "error": str(error)}}


class Drain(Resource, module="release", name="Drain"):
    """The old release, quiet or out of time."""

    drained: Output[dict[str, Any]]

    def __init__(self, name: str, inputs: dict[str, Input[Any]], opts: ResourceOptions | None = None) -> None:
        super().__init__(DrainProvider(), name, {**inputs, "drained": None}, opts)


def drain(props: dict[str, Any]) -> dict[str, Any]:
    """Wait for quiet, then stop the router; returns {idle, seconds, running}."""
    cluster = Cluster(Access.of(props))
    release = Release.from_json(props["release"])
    limit_s = float(props["limitS"])
    started = time.monotonic()
    quiet_since: float | None = None
    while True:
        now = time.monotonic()
        count = running_requests(cluster, release)
        quiet_since = (quiet_since or now) if count == 0 else None
        seconds = now - started
        idle = quiet_since is not None and now - quiet_since >= QUIET_S
        if idle or seconds > limit_s:
            break
        time.sleep(POLL_S)
    if not idle:
        engine_log(f"release {release.id} still serves {count:g} requests after {limit_s:.0f} s", warn=True)
    stop_router(cluster, release)
    return {"idle": idle, "seconds": seconds, "running": count}


def stop_router(cluster: Cluster, release: Release) -> None:
    """Stop the router and see it end, so that nobody can ask the engines when they are stopped."""
    cluster.scale(release.id, {ROUTER: 0})
    deadline = time.monotonic() + ROUTER_GONE_LIMIT_S
    while any(pod.tier == ROUTER for pod in cluster.pods(release.id, ending=True)):
        if time.monotonic() > deadline:
            return
        time.sleep(POLL_S / 2)


def running_requests(cluster: Cluster, release: Release) -> float:
    """Requests that the release's engines run or hold, by their own gauges."""
    count = 0.0
    for pod in cluster.pods(release.id):
        if pod.tier not in release.engine_tiers or not pod.ready:
            continue
        try:
            series = parse_metrics(cluster.pod_page(pod.name, release.expectation.engine_port, "metrics"))
        except ClusterFault:
            continue  # a pod that has ended serves nobody
        for name in ("vllm:num_requests_running", "vllm:num_requests_waiting"):
            count += total(series, name) or 0
    return count
