"""The ledger: live means proved; a refusal is remembered; a killed update is corrected."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from components.hardware.geometry import Attention, groups_to_json
from components.release.ledger import (
    VERSION,
    Ledger,
    LedgerTooNew,
    Proved,
    Quarantined,
    advance,
    answered,
    plan_update,
    read_ledger,
    recover,
)
from components.release.release import Expectation, Release
from components.release.verdict import Verdict

LAYERS = groups_to_json((Attention(8, 4, 64, heads=8),))
EXPECTATION = Expectation("prefill-decode", "tiny", 8000, 8080, 32, 2048, 2048, "bfloat16", 1, LAYERS)
GATE = {"limitMs": 100.0, "retry": 0}
PASS = Verdict("pass", "fast", "", "")
FAIL = Verdict("fail", "slow-link", "slow", "mend the link")
UNKNOWN = Verdict("inconclusive", "probe-failed", "", "again")


def release(name: str) -> Release:
    return Release(name, "", EXPECTATION, {"prefill": {"containers": []}, "router": {}})


def with_live(name: str) -> Ledger:
    return Ledger(live=Proved(release(name), GATE))


def after(ledger: Ledger, candidate: str, verdict: Verdict, gate: dict[str, Any] = GATE) -> Ledger:
    return advance(ledger, plan_update(ledger, release(candidate), gate["retry"]), verdict, gate)


def live_id(ledger: Ledger) -> str | None:
    return ledger.live.release.id if ledger.live else None


def test_a_passed_candidate_is_live() -> None:
    assert live_id(after(Ledger(), "a", PASS)) == "a"


@pytest.mark.parametrize("verdict", [FAIL, UNKNOWN])
def test_what_did_not_pass_leaves_the_live_release_live(verdict: Verdict) -> None:
    ledger = after(with_live("a"), "b", verdict)
    assert (live_id(ledger), ledger.candidate) == ("a", "b")


def test_only_a_failure_is_quarantined() -> None:
    assert "b" in after(with_live("a"), "b", FAIL).quarantined
    assert "b" not in after(with_live("a"), "b", UNKNOWN).quarantined


def test_the_configured_live_release_is_no_candidate() -> None:
    assert plan_update(with_live("a"), release("a"), 0).candidate is None


def test_a_refused_release_that_stays_configured_keeps_its_gate_and_answer() -> None:
    ledger = after(with_live("a"), "b", FAIL)
    plan = plan_update(ledger, release("b"), 0)
    assert plan.candidate is not None and plan.candidate.id == "b"
    assert advance(ledger, plan, FAIL, GATE) == ledger


def test_a_refused_release_that_comes_back_later_is_refused_with_its_cause() -> None:
    ledger = after(with_live("a"), "b", FAIL)
    ledger = advance(ledger, plan_update(ledger, release("a"), 0), None, GATE)
    with pytest.raises(Quarantined, match=r"slow-link[\s\S]*gate.retry to 1"):
        plan_update(ledger, release("b"), 0)
    assert plan_update(ledger, release("b"), 1).candidate is not None


def test_a_ledger_survives_the_engine_which_drops_nulls_and_makes_numbers_floating() -> None:
    def engine(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: engine(item) for key, item in value.items() if item is not None}
        if isinstance(value, list):
            return [engine(item) for item in value]
        return float(value) if isinstance(value, int) and not isinstance(value, bool) else value

    ledger = after(after(with_live("a"), "b", FAIL), "c", PASS)
    assert read_ledger(engine(ledger.to_json())) == ledger


def test_no_output_yet_is_an_empty_ledger() -> None:
    assert read_ledger(None) == Ledger()


def test_a_newer_ledger_is_refused() -> None:
    with pytest.raises(LedgerTooNew, match=f"version {VERSION + 1}; this splitserve reads up to {VERSION}"):
        read_ledger(Ledger().to_json() | {"version": VERSION + 1})


def record(name: str, outcome: str) -> dict[str, Any]:
    return Proved(release(name), GATE).to_json() | {"outcome": outcome}


def test_a_release_that_passed_and_has_the_traffic_is_live_whatever_the_output_says() -> None:
    assert live_id(recover(with_live("a"), "b", record("b", "pass"))) == "b"


@pytest.mark.parametrize(
    ("selected", "evidence"),
    [(None, None), ("a", record("a", "pass")), ("b", None), ("b", record("b", "fail"))],
)
def test_without_proof_the_ledger_stands(selected: str | None, evidence: dict[str, Any] | None) -> None:
    assert recover(with_live("a"), selected, evidence) == with_live("a")


def test_history_is_not_written_twice_for_the_same_answer() -> None:
    once = after(with_live("a"), "b", FAIL)
    twice = advance(once, plan_update(once, release("b"), 0), FAIL, GATE)
    assert twice.history == once.history == [{"id": "b", "note": "", "outcome": "fail"}]
    assert replace(twice, history=[]) == replace(once, history=[])


@pytest.mark.parametrize(
    ("asked", "gate", "expected"),
    [
        ("b", GATE, True),
        ("c", GATE, False),  # never refused
        ("b", GATE | {"limitMs": 200.0}, False),  # other settings, another answer
        ("b", GATE | {"retry": 1}, False),  # the user asks for it
    ],
)
def test_a_refusal_stands_for_the_release_and_settings_that_it_was_about(
    asked: str, gate: dict[str, Any], expected: bool
) -> None:
    assert answered(after(with_live("a"), "b", FAIL), release(asked), gate) == expected


def test_neither_a_pass_nor_an_inconclusive_gate_is_a_refusal() -> None:
    assert not answered(after(Ledger(), "b", PASS), release("b"), GATE)
    assert not answered(after(with_live("a"), "b", UNKNOWN), release("b"), GATE)


def test_a_refusal_with_a_raised_retry_is_an_answer_to_that_retry() -> None:
    raised = GATE | {"retry": 1}
    ledger = after(after(with_live("a"), "b", FAIL), "b", FAIL, raised)
    assert answered(ledger, release("b"), raised)
    assert not answered(ledger, release("b"), GATE | {"retry": 2})


def test_a_refusal_of_a_version_that_kept_no_settings_stands() -> None:
    ledger = after(with_live("a"), "b", FAIL)
    older = replace(ledger, quarantined={"b": {k: v for k, v in ledger.quarantined["b"].items() if k != "gate"}})
    assert answered(older, release("b"), GATE)


MEASURED = Verdict("pass", "fast", "", "", kv_transfer_ms=20.5, kv_transfer_aged_ms=30.0, aged_is_estimated=True)
TIMES = {"kv_transfer_ms": 20.5, "kv_transfer_aged_ms": 30.0, "aged_is_estimated": True}


@pytest.mark.parametrize("verdict", [FAIL, UNKNOWN])
def test_the_live_release_keeps_its_times_whatever_is_judged_after_it(verdict: Verdict) -> None:
    ledger = after(after(Ledger(), "a", MEASURED), "b", replace(verdict, kv_transfer_ms=500.0))
    assert ledger.live and ledger.live.measured == TIMES
    assert read_ledger(ledger.to_json()) == ledger


def test_a_ledger_of_an_earlier_version_has_no_times_until_the_next_update() -> None:
    content = after(Ledger(), "a", MEASURED).to_json()
    del content["live"]["measured"]
    ledger = read_ledger(content)
    assert ledger.live and ledger.live.measured == {}
    again = after(ledger, "a", MEASURED)
    assert again.live and again.live.measured == TIMES


def test_a_release_that_a_killed_update_let_in_has_its_record_s_times() -> None:
    evidence = {**after(Ledger(), "b", PASS).to_json()["live"], "outcome": "pass", "verdict": MEASURED.to_json()}
    found = recover(with_live("a"), "b", evidence)
    assert found.live and found.live.measured == TIMES
