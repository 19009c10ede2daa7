"""One gate from readiness to evidence: wait for the pods, pair them, run the probe.

Knows no Pulumi. What goes wrong on the way becomes part of the evidence, in words: a release that
never gets ready is evidence against it, a probe that can't run is not.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from components.release.cluster import Cluster, ClusterFault, Pod, describe
from components.release.evidence import Evidence, read_evidence
from components.release.expectation import Expectation
from components.release.probe import ROUTER_KEY_VARIABLE
from components.release.probe_job import run_probe
from components.release.probe_plan import ProbeSettings, probe_plan
from components.release.recreations import Recreations
from components.release.release import Release
from components.serving.gateway import KEY

POLL_S = 1.0
SAY_EVERY_S = 10.0

Say = Callable[[str], None]


def measure(cluster: Cluster, release_id: str, expectation: Expectation, probe: ProbeSettings,
            replicas: dict[str, int], probe_pod: dict[str, Any], say: Say, *, grouped: bool = False) -> Evidence:  # fmt: skip
    """Wait for `replicas` pods a tier and measure every engine. `grouped`: some engines are groups of pods,
    `replicas` counts their workers too."""
    started = time.monotonic()
    watch = Recreations(cluster, release_id).trouble if grouped else None
    try:
        pods = wait_ready(cluster, release_id, replicas, probe.ready_limit_s, say, watch)
        ready_s = time.monotonic() - started
        if isinstance(pods, str):
            return Evidence(not_ready=pods, seconds={"ready": ready_s})
        say("all pods are ready: measuring the KV transfer")
        plan = probe_plan(pods, expectation, probe)
        evidence = read_evidence(run_probe(cluster, release_id, probe_pod, plan, probe.probe_limit_s))
        seconds = {**evidence.seconds, "ready": ready_s, "probe": time.monotonic() - started - ready_s}
        return replace(evidence, seconds=seconds, ended=ended_since(cluster, release_id, pods))
    except ClusterFault as fault:
        return Evidence(unmeasured=str(fault), seconds={"all": time.monotonic() - started})


def wait_ready(cluster: Cluster, release_id: str, replicas: dict[str, int], limit_s: int, say: Say,
               watch: Callable[[], str | None] | None = None) -> list[Pod] | str:  # fmt: skip
    """The release's pods once all of them are ready, or what keeps them from it; `watch` may know more."""
    started, said = time.monotonic(), -SAY_EVERY_S
    while True:
        pods = cluster.pods(release_id)
        waited = time.monotonic() - started
        if _complete(pods, replicas):
            return pods
        if watch and (trouble := watch()):
            return trouble
        if stuck := next((pod for pod in pods if pod.trouble), None):
            words = cluster.last_words(stuck.name)
            return f"pod {stuck.name} does not start: {stuck.trouble}" + (f"; its log: {words}" if words else "")
        if waited > limit_s:
            waiting = [pod for pod in pods if not pod.ready]
            warning = next((w for w in map(cluster.last_warning, (pod.name for pod in waiting)) if w), "")
            found = "; ".join(part for part in (describe(waiting), warning) if part)
            return f"not ready within {limit_s} s: {found or 'no pods were created'}"
        if waited - said >= SAY_EVERY_S:
            said = waited
            count = sum(pod.ready for pod in pods)
            say(f"waiting for release {release_id}: {count} of {sum(replicas.values())} pods ready, {waited:.0f} s")
        time.sleep(POLL_S)


def ended_since(cluster: Cluster, release_id: str, before: list[Pod]) -> list[str]:
    """Which of these pods' containers have ended since, and why; a deleted pod is another's doing."""
    after = {pod.name: pod for pod in cluster.pods(release_id)}
    ended = []
    for pod in before:
        now = after.get(pod.name)
        if now and (now.restarts > pod.restarts or (now.last_end and not pod.last_end)):
            said = (cluster.last_warning(pod.name), cluster.last_words(pod.name))
            reasons = "; ".join(part for part in (now.last_end, *said) if part)
            ended.append(f"{pod.name}: {reasons}")
        elif now and now.uid != pod.uid:
            ended.append(f"{pod.name}: made anew, as a container of its group ended")
    return ended


def wait_gone(cluster: Cluster, release_id: str, limit_s: int, *, unserved: bool = False) -> None:
    """Wait until no pod of the release is left, ending ones included. `unserved`: it had no traffic, so that its pods
    have nothing to finish and are ended at once."""
    deadline = time.monotonic() + limit_s
    while cluster.pods(release_id, ending=True):
        if unserved:
            cluster.end_at_once(release_id)
        if time.monotonic() > deadline:
            raise ClusterFault(f"pods of release {release_id} did not end within {limit_s} s")
        time.sleep(POLL_S)


def _complete(pods: list[Pod], replicas: dict[str, int]) -> bool:
    return all(
        sum(pod.ready for pod in pods if pod.tier == tier) == count
        and sum(1 for pod in pods if pod.tier == tier) == count
        for tier, count in replicas.items()
    )


def probe_pod(release: Release) -> dict[str, Any]:
    """The probe's pod: an engine's image, placement and identity, with the probe as its command."""
    engine_pod = release.pods[release.engine_tiers[0]]
    engine = engine_pod["containers"][0]
    plan = {"name": "plan", "mountPath": "/plan", "readOnly": True}
    container = {
        "name": "probe",
        "image": engine["image"],
        "imagePullPolicy": engine["imagePullPolicy"],
        "command": ["python3", "-I", "-S", "/plan/probe.py", "/plan/plan.json"],
        "env": _router_key(release.expectation.api_key_secret),
        "resources": {
            "requests": {"cpu": "50m", "memory": "128Mi"},
            "limits": {"memory": "512Mi"},
        },
        "securityContext": engine["securityContext"],
        "volumeMounts": [plan],
    }
    kept = ("nodeSelector", "tolerations", "securityContext", "enableServiceLinks", "automountServiceAccountToken")
    return {
        **{key: engine_pod[key] for key in kept if key in engine_pod},
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
    }


def _router_key(secret: str | None) -> list[dict[str, Any]]:
    if secret is None:
        return []
    return [{"name": ROUTER_KEY_VARIABLE, "valueFrom": {"secretKeyRef": {"name": secret, "key": KEY}}}]
