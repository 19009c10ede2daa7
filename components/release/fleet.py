"""Check every pod that a release uses, once all of them are there.

The gate proves a release on one pod a tier. Before traffic moves to all of its replicas, and each
time their number changes, this resource waits for all of them and measures every pod that was not
measured before. A live release that was scaled down behind the stack's back (by hand, or by a
`swap` that was killed) gets its replicas again. It rolls nothing back by itself: what follows is a
function of its verdict.
"""

from __future__ import annotations

from typing import Any

from pulumi import Input, Output, ResourceOptions
from pulumi.dynamic import Resource

from components.release.cluster import Access, Cluster
from components.release.evidence import Evidence
from components.release.explain import explained
from components.release.gate import is_inconclusive, measure_release
from components.release.limits import limits_of
from components.release.once import BEFORE, OnceProvider
from components.release.probe_job import Superseded
from components.release.progress import engine_log
from components.release.release import Release
from components.release.verdict import judge

SAMPLES = 3


class FleetCheckProvider(OnceProvider):
    decides = ("releaseId", "replicas", "settings")

    def unsettled(self, outputs: dict[str, Any], inputs: dict[str, Any]) -> bool:
        return is_inconclusive(outputs) or bool(too_few(inputs, outputs))

    def run(self, props: dict[str, Any]) -> dict[str, Any]:
        try:
            return check_fleet(props)
        except Superseded:
            raise  # the release is another update's by now
        except Exception as error:  # the edge: an update must end with an answer
            evidence = Evidence(unmeasured=f"{type(error).__name__}: {error}")
            release = Release.from_json(props["release"])
            return {"verdict": judge(evidence, limits_of(release.expectation, props["settings"])).to_json()}


class FleetCheck(Resource, module="release", name="FleetCheck"):
    """The verdict on all pods of a release together."""

    verdict: Output[dict[str, Any]]

    def __init__(self, name: str, inputs: dict[str, Input[Any]], opts: ResourceOptions | None = None) -> None:
        super().__init__(FleetCheckProvider(), name, {**inputs, "verdict": None}, opts)


def too_few(inputs: dict[str, Any], before: dict[str, Any]) -> dict[str, int]:
    """The tiers of a live release that were found with fewer replicas than the last update gave them.

    More replicas asked for now are no loss of replicas.
    """
    found, given = inputs.get("found") or {}, before.get("replicas") or {}
    return {
        tier: int(count)
        for tier, count in inputs["replicas"].items()
        if tier in found and int(found[tier]) < min(int(count), int(given.get(tier, 0)))
    }


def check_fleet(props: dict[str, Any]) -> dict[str, Any]:
    """Wait for all replicas; measure them unless the gate has seen every one of them already."""
    gate = props["gateVerdict"]
    replicas = {tier: int(count) for tier, count in (props.get("sizes") or props["replicas"]).items()}
    if gate["outcome"] != "pass":
        return {"verdict": gate}
    release = Release.from_json(props["release"])
    settings = props["settings"] | {"samples": SAMPLES, "age": "off"}
    cluster = Cluster(Access.of(props))
    if props["candidate"] and all(count == 1 for count in replicas.values()):
        return {"verdict": gate}
    if missing := too_few(props, props.get(BEFORE) or {}):
        engine_log(
            f"release {release.id} is live but was scaled down to {props['found']}: starting it again", warn=True
        )
        cluster.scale(release.id, missing, release.groups)
    engine_log(f"checking all pods of release {release.id}: {replicas}")
    evidence = measure_release(cluster, release, settings, replicas)
    verdict = explained(cluster, release.id, judge(evidence, limits_of(release.expectation, settings)))
    engine_log(f"all pods of release {release.id}: {verdict.outcome}: {verdict.message}")
    if verdict.outcome != "pass" and props["candidate"]:
        cluster.scale(release.id, dict.fromkeys(release.pods, 0), release.groups)
    return {"verdict": verdict.to_json()}
