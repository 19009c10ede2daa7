"""The dynamic resources run again when they must, and only then; they never raise."""

from __future__ import annotations

from typing import Any

import pytest

from components.release import drain, gate
from components.release.cluster import Access
from components.release.drain import DrainProvider
from components.release.fleet import FleetCheckProvider, too_few
from components.release.gate import KvGateProvider, gate_inputs
from components.release.probe_job import Superseded
from tests.unit.test_ledger import release

SETTINGS: dict[str, Any] = {
    "limitMs": 100.0, "samples": 5, "promptTokens": 1024, "answerTokens": 8, "age": "auto",
    "readyLimitS": 1, "probeLimitS": 1, "onFirstFailure": "scale-to-zero", "retry": 0,
}  # fmt: skip


def inputs(**more: Any) -> dict[str, Any]:
    access = Access("/no/such/kubeconfig", None, "splitserve")
    made = gate_inputs(access, release("a"), SETTINGS, "canary", None, {"prefill": 1})
    return made | more


def outcome(name: str) -> dict[str, Any]:
    return {"verdict": {"outcome": name}}


@pytest.mark.parametrize("settled", ["pass", "fail"])
def test_a_settled_gate_with_the_same_inputs_is_not_run_again(settled: str) -> None:
    moved = inputs(kubeconfig="/elsewhere", replicas={"prefill": 4}, live={"id": "b"})
    assert not KvGateProvider().diff("id", inputs() | outcome(settled), moved).changes


def test_an_inconclusive_gate_is_run_again() -> None:
    assert KvGateProvider().diff("id", inputs() | outcome("inconclusive"), inputs()).changes


def test_a_raised_retry_runs_the_gate_again() -> None:
    raised = inputs(settings=SETTINGS | {"retry": 1})
    assert KvGateProvider().diff("id", inputs() | outcome("fail"), raised).changes


def test_another_replica_count_checks_the_fleet_again() -> None:
    olds = inputs() | outcome("pass")
    assert FleetCheckProvider().diff("id", olds, inputs(replicas={"prefill": 2})).changes
    assert not FleetCheckProvider().diff("id", olds, inputs()).changes


def test_a_live_release_that_was_scaled_down_is_started_and_checked_again() -> None:
    olds = inputs() | outcome("pass")
    assert FleetCheckProvider().diff("id", olds, inputs(found={"prefill": 0.0})).changes
    assert not FleetCheckProvider().diff("id", olds, inputs(found={"prefill": 1.0})).changes
    assert not FleetCheckProvider().diff("id", olds, inputs(found={})).changes


def test_more_replicas_are_not_taken_for_lost_ones() -> None:
    more = inputs(replicas={"prefill": 2}, found={"prefill": 1.0})
    assert too_few(more, inputs()) == {}
    assert too_few(more, inputs(replicas={"prefill": 2.0})) == {"prefill": 2}


def test_a_superseded_gate_saves_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def superseded(_props: dict[str, Any]) -> dict[str, Any]:
        raise Superseded("another update measures this release")

    monkeypatch.setattr(gate, "_run_gate", superseded)
    with pytest.raises(Superseded):
        gate.run_gate(inputs())


def test_a_cluster_that_can_not_be_reached_is_inconclusive_and_no_traceback() -> None:
    outputs = gate.run_gate(inputs())
    assert outputs["verdict"]["outcome"] == "inconclusive"
    assert "could not measure" in outputs["verdict"]["message"]


def test_a_release_that_keeps_the_traffic_is_not_drained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain, "drain", lambda _props: pytest.fail("drained the live release"))
    assert DrainProvider().run({"releaseId": "a"})["drained"]["skipped"]


def test_a_candidate_that_passes_later_drains_the_old_release_then() -> None:
    olds = {"releaseId": "a", "drained": {"skipped": True}}
    assert DrainProvider().diff("id", olds, {"releaseId": "a", "towards": "b"}).changes
