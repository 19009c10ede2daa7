"""The gate as a Pulumi resource: measures a candidate once and keeps the verdict in the state.

A dynamic resource in an importable module, so that the state holds a reference to this class and not
its code. It never raises for what it measured or could not measure: it returns a verdict, and later
resources are functions of it. It runs again only after it could
not measure, or when its inputs change: other gate settings, `gate.retry` among them.

What must change twice within one update (the candidate up and down again, in `swap` the live release
down and up again) happens here, through the scale subresource.
"""

from __future__ import annotations

import time
import traceback
from dataclasses import asdict
from typing import Any

from pulumi import Input, Output, ResourceOptions
from pulumi.dynamic import Resource

from components.release import measure
from components.release.cluster import Access, Cluster, ClusterFault, record_name
from components.release.drain import stop_router
from components.release.evidence import Evidence
from components.release.explain import explained
from components.release.limits import limits_of
from components.release.once import OnceProvider
from components.release.probe_job import Superseded
from components.release.probe_plan import probe_settings
from components.release.progress import engine_log
from components.release.release import Release
from components.release.verdict import Verdict, judge
from components.serving.groups import with_workers
from components.serving.spec import ROUTER

GONE_LIMIT_S = 180
RECHECK_SAMPLES = 3


class KvGateProvider(OnceProvider):
    """Measures; delete removes the release's record."""

    decides = ("releaseId", "settings")
    # Where the kubeconfig lies and how many replicas the live release has do not decide.

    def unsettled(self, outputs: dict[str, Any], inputs: dict[str, Any]) -> bool:
        return is_inconclusive(outputs)

    def run(self, props: dict[str, Any]) -> dict[str, Any]:
        return run_gate(props)

    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        try:
            Cluster(Access.of(_props)).remove_record(record_name(_props["releaseId"]))
        except Exception as error:  # the cluster may be gone: its records went with it
            engine_log(f"{_id}: its record was left behind: {error}", warn=True)


class KvGate(Resource, module="release", name="KvGate"):
    """The verdict on one release, and the evidence for it."""

    verdict: Output[dict[str, Any]]
    evidence: Output[dict[str, Any]]

    def __init__(self, name: str, inputs: dict[str, Input[Any]], opts: ResourceOptions | None = None) -> None:
        super().__init__(KvGateProvider(), name, {**inputs, "verdict": None, "evidence": None}, opts)


def gate_inputs(access: Access, release: Release, settings: dict[str, Any], strategy: str,
                live: dict[str, Any] | None, replicas: dict[str, int],
                nodes_fault: Input[str | None] = None) -> dict[str, Any]:  # fmt: skip
    """The inputs of a gate. `live` is {id, replicas} of the release with the traffic, if any;
    `nodes_fault` why the release's nodes did not start."""
    return {
        **asdict(access),
        "releaseId": release.id,
        "settings": settings,
        "strategy": strategy,
        "release": release.to_json(),
        "live": live,
        "replicas": replicas,
        "nodesFault": nodes_fault,
    }


def run_gate(props: dict[str, Any]) -> dict[str, Any]:
    """Measure one candidate; scale it back unless it passes. Returns {verdict, evidence}.

    `props` is as from `gate_inputs`; the engine leaves out what is None.
    """
    try:
        return _run_gate(props)
    except Superseded:
        raise  # the release is another update's by now: no answer of ours may be saved
    except Exception as error:  # the edge: an update must end with an answer, not with a traceback
        engine_log(traceback.format_exc(), debug=True)
        evidence = Evidence(unmeasured=f"{type(error).__name__}: {error}")
        release = Release.from_json(props["release"])
        return _answer(judge(evidence, limits_of(release.expectation, props["settings"])), evidence)


def _run_gate(props: dict[str, Any]) -> dict[str, Any]:
    cluster = Cluster(Access.of(props))
    release = Release.from_json(props["release"])
    swapped = props.get("live") if props["strategy"] == "swap" else None
    missing = props.get("nodesFault")
    evidence = Evidence(no_nodes=missing) if missing else _measure_candidate(cluster, release, swapped, props)
    verdict = explained(cluster, release.id, judge(evidence, limits_of(release.expectation, props["settings"])))
    engine_log(f"verdict: {verdict.outcome}: {verdict.message}")
    answer = _answer(verdict, evidence)
    if verdict.outcome != "pass" and not _may_stay(props):
        answer["verdict"]["rollback"] = _take_back(cluster, release, props)
    _record(cluster, props, answer)
    return answer


def _measure_candidate(cluster: Cluster, release: Release, live: dict[str, Any] | None,
                       props: dict[str, Any]) -> Evidence:  # fmt: skip
    """Make room in `swap`, start the candidate at canary size and measure it."""
    canary = dict.fromkeys(release.pods, 1)
    try:
        if live:
            _make_room(cluster, Release.from_json(live["release"]))
        cluster.scale(release.id, canary, release.groups)
    except ClusterFault as fault:
        return Evidence(unmeasured=str(fault))
    return measure_release(cluster, release, props["settings"], canary)


def measure_release(cluster: Cluster, release: Release, settings: dict[str, Any],
                    replicas: dict[str, int]) -> Evidence:  # fmt: skip
    """Wait for `replicas` engines a tier of a release and measure them; progress goes to the engine."""
    pods = with_workers(replicas, release.groups)
    return measure.measure(
        cluster, release.id, release.expectation, probe_settings(settings), pods,
        measure.probe_pod(release), engine_log, grouped=bool(release.groups),
    )  # fmt: skip


def _make_room(cluster: Cluster, live: Release) -> None:
    """Stop the live release: its router first, which finishes the requests that it has."""
    engine_log(f"swap: stopping live release {live.id}; the outage begins")
    stop_router(cluster, live)
    cluster.scale(live.id, {tier: 0 for tier in live.pods if tier != ROUTER}, live.groups)
    measure.wait_gone(cluster, live.id, GONE_LIMIT_S)


def _take_back(cluster: Cluster, release: Release, props: dict[str, Any]) -> dict[str, Any]:
    """The candidate to 0 and the live release at its replicas; in `swap` it is checked once.

    Returns {seconds, live}: how long it took, and what the check of the live release said. In
    `canary` the live release has its replicas already, unless a `swap` before was killed.
    """
    started, live, checked = time.monotonic(), props.get("live"), None
    engine_log(f"taking release {release.id} back")
    try:
        cluster.scale(release.id, dict.fromkeys(release.pods, 0), release.groups)
        measure.wait_gone(cluster, release.id, GONE_LIMIT_S, unserved=True)
        if live:
            cluster.scale(live["id"], _counts(live["replicas"]), live["release"].get("groups") or ())
        if live and props["strategy"] == "swap":
            checked = _check_restored(cluster, live, props["settings"])
    except ClusterFault as fault:
        checked = {"id": live["id"] if live else None, "outcome": "inconclusive", "message": str(fault)}
        engine_log(f"the rollback is not complete: {fault}", warn=True)
    return {"seconds": time.monotonic() - started, "live": checked}


def _counts(replicas: dict[str, Any]) -> dict[str, int]:
    return {tier: int(count) for tier, count in replicas.items()}


def _check_restored(cluster: Cluster, live: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """Measure the live release once after it was started again; {id, outcome, message}."""
    again = settings | {"samples": RECHECK_SAMPLES, "age": "off"}
    restored = Release.from_json(live["release"])
    evidence = measure_release(cluster, restored, again, _counts(live["replicas"]))
    verdict = judge(evidence, limits_of(restored.expectation, again))
    engine_log(f"live release {live['id']} is back: {verdict.outcome}: {verdict.message}")
    return {"id": live["id"], "outcome": verdict.outcome, "message": verdict.message}


def _may_stay(props: dict[str, Any]) -> bool:
    """A first release has nothing to go back to; the stack may choose to keep it for a look."""
    return props.get("live") is None and props["settings"]["onFirstFailure"] == "keep"


def _record(cluster: Cluster, props: dict[str, Any], answer: dict[str, Any]) -> None:
    """Keep what was found in the cluster too: an update that is killed later can be understood."""
    content = {
        "release": props["release"],
        "gate": props["settings"],
        "outcome": answer["verdict"]["outcome"],
        **answer,
    }
    try:
        cluster.record(record_name(props["releaseId"]), content)
    except ClusterFault as fault:
        engine_log(f"the evidence was not recorded in the cluster: {fault}", warn=True)


def _answer(verdict: Verdict, evidence: Evidence) -> dict[str, Any]:
    return {"verdict": verdict.to_json(), "evidence": evidence.to_json()}


def is_inconclusive(outputs: dict[str, Any]) -> bool:
    """Whether the last run of a gate or fleet check could not measure: then it has to again."""
    return (outputs.get("verdict") or {}).get("outcome") == "inconclusive"
