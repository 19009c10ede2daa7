"""Every pod is measured, in as few pairs as that takes."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from components.release.cluster import Pod
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
