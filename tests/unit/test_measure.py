"""Every pod is measured, in as few pairs as that takes."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from kubernetes.client.exceptions import ApiException

from components.release.cluster import Cluster, Pod
from components.release.measure import ProbeSettings, ended_since, probe_plan
from components.release.pairs import MAX_PAIRS, cover
from tests.unit.test_ledger import EXPECTATION


def pods(tier: str, count: int) -> list[Pod]:
    return [Pod(f"{tier}-{i}", tier, f"198.18.0.{i + 1}", True, None, "running") for i in range(count)]


@given(st.integers(1, MAX_PAIRS), st.integers(1, MAX_PAIRS))
def test_every_pod_is_in_a_pair(prefills: int, decodes: int) -> None:
    pairs = cover(pods("prefill", prefills), pods("decode", decodes))
    assert len(pairs) == max(prefills, decodes)
    assert len({left.name for left, _ in pairs}) == prefills
    assert len({right.name for _, right in pairs}) == decodes


class FoundCluster:
    """Answers with the pods that a cluster would list after the probe."""

    def __init__(self, after: list[Pod]) -> None:
        self.after = after

    def pods(self, _release: str) -> list[Pod]:
        return self.after

    def last_warning(self, _pod: str) -> str:
        return "Unhealthy: Liveness probe failed"

    def last_words(self, _pod: str) -> str:
        return "panicked"


def test_a_container_that_ended_during_the_probe_is_named_with_its_reason() -> None:
    before = pods("router", 2)
    after = [replace(before[0], restarts=1, last_end="exit code 137 (OOMKilled)"), before[1]]
    ended = ended_since(FoundCluster(after), "a", before)  # pyright: ignore[reportArgumentType]
    assert ended == ["router-0: exit code 137 (OOMKilled); Unhealthy: Liveness probe failed; panicked"]


def test_earlier_ends_and_deleted_pods_are_not_held_against_a_release() -> None:
    before = [replace(pod, restarts=1, last_end="exit code 1 (Error)") for pod in pods("router", 2)]
    assert ended_since(FoundCluster(before[:1]), "a", before) == []  # pyright: ignore[reportArgumentType]


def test_a_tier_without_pods_gives_no_pairs() -> None:
    assert cover(pods("prefill", 2), []) == []


def test_the_plan_names_pods_by_address_and_asks_the_router() -> None:
    settings = ProbeSettings(5, 1024, 8, "auto", 60, 60)
    plan = probe_plan([*pods("prefill", 1), *pods("decode", 1), *pods("router", 1)], EXPECTATION, settings)
    assert plan["pairs"][0][0] == {"name": "prefill-0", "url": "http://198.18.0.1:8000"}
    assert plan["router"] == "http://198.18.0.1:8080"
    assert plan["age"]["mode"] == "on"


class EndingPods(Cluster):
    """An API server's list of pods, of which deleting one takes it off as soon as its grace is short."""

    def __init__(self, **graces: int | None) -> None:
        """Seconds of grace by name; None: the pod is not ending."""
        self.graces = graces
        self.deleted: list[tuple[str, int]] = []
        self.core, self.namespace = self, "splitserve"

    def list_namespaced_pod(self, _namespace: str, **_: Any) -> Any:
        return SimpleNamespace(items=[self._pod(name, grace) for name, grace in self.graces.items()])

    def _pod(self, name: str, grace: int | None) -> Any:
        ending = None if grace is None else "2026-01-01T00:00:00Z"
        return SimpleNamespace(metadata=SimpleNamespace(
            name=name, deletion_timestamp=ending, deletion_grace_period_seconds=grace))  # fmt: skip

    def delete_namespaced_pod(self, name: str, _namespace: str, grace_period_seconds: int, **_: Any) -> None:
        if name == "forbidden":
            raise ApiException(403)
        self.deleted.append((name, grace_period_seconds))
        self.graces[name] = grace_period_seconds


def test_pods_without_traffic_need_no_grace_and_others_keep_theirs() -> None:
    found = EndingPods(ending=60, forbidden=60, serving=None)
    for _ in range(2):
        found.end_at_once("r1")
    assert found.deleted == [("ending", 1)], "once, and nothing that is not ending anyway"
