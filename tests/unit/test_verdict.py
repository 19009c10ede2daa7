"""The verdict decides on evidence alone: one cause for each failure, and never a pass on nothing."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from components.hardware.geometry import Attention, Geometry
from components.release import verdict as verdict_file
from components.release.evidence import Evidence, PairEvidence, Sample
from components.release.verdict import Limits, judge

BLOCK, BYTES_PER_TOKEN, TOKENS = 32, 8192, 1024
LIMITS = Limits(limit_ms=100, geometry=Geometry((Attention(8, 4, 64),), 2048, 2048), block_size=BLOCK)
GOOD = Sample(
    tokens=TOKENS, ms=20.0, post_ms=1.0, bytes=TOKENS * BYTES_PER_TOKEN, descriptors=8, transfers=1,
    failed=0, external_tokens=TOKENS, prefill_tokens=TOKENS, decode_tokens=TOKENS, prefill_ms=200, decode_ms=200,
    answer="the same", reference="the same",
)  # fmt: skip
AGED = replace(GOOD, ms=40.0, descriptors=256, post_ms=15.0)
ROUTER = {"tokens": TOKENS, "external_tokens": TOKENS, "error": None}


def evidence(fresh: list[Sample], aged: list[Sample] | None = None, **more: Any) -> Evidence:
    pair = PairEvidence("prefill-a", "decode-a", fresh, [AGED] if aged is None else aged)
    return Evidence(**({"pairs": [pair], "router": ROUTER} | more))


def test_a_fast_right_and_whole_transfer_passes_with_both_figures() -> None:
    verdict = judge(evidence([GOOD, GOOD]), LIMITS)
    assert (verdict.outcome, verdict.kv_transfer_ms, verdict.kv_transfer_aged_ms) == ("pass", 20.0, 40.0)
    assert not verdict.aged_is_estimated


@pytest.mark.parametrize(
    ("found", "outcome", "cause"),
    [
        (Evidence(), "inconclusive", "no-pairs"),
        (evidence([], []), "inconclusive", "pair-unmeasured"),
        (Evidence(unmeasured="the Job was refused"), "inconclusive", "probe-failed"),
        (Evidence(not_ready="pod decode-a does not start"), "fail", "not-ready"),
        (evidence([GOOD], ended=["router-a: exit code 139 (Error)"]), "fail", "pod-ended"),
        (evidence([], [], ended=["decode-a: exit code 137 (OOMKilled)"]), "fail", "pod-ended"),
        (evidence([replace(GOOD, bytes=0, transfers=0)]), "fail", "never-disaggregated"),
        (evidence([replace(GOOD, bytes=None, transfers=None)]), "fail", "never-disaggregated"),
        (evidence([GOOD, replace(GOOD, bytes=0, transfers=0)]), "fail", "never-disaggregated"),
        (evidence([replace(GOOD, failed=1)]), "fail", "failed-transfers"),
        (evidence([replace(GOOD, prefill_tokens=0)]), "fail", "prefill-not-served"),
        (evidence([replace(GOOD, bytes=0.9 * TOKENS * BYTES_PER_TOKEN)]), "fail", "wrong-bytes"),
        (evidence([replace(GOOD, bytes=1.1 * TOKENS * BYTES_PER_TOKEN)], []), "fail", "wrong-bytes"),
        (evidence([replace(GOOD, bytes=0.9 * TOKENS * BYTES_PER_TOKEN), GOOD, GOOD]), "fail", "wrong-bytes"),
        (evidence([replace(GOOD, answer="other")], [replace(AGED, answer="x")]), "fail", "wrong-answer"),
        (evidence([replace(GOOD, ms=300.0)], [replace(AGED, ms=300.0)]), "fail", "slow-link"),
        (evidence([GOOD], [replace(AGED, ms=300.0)]), "fail", "fragmented-cache"),
        (evidence([GOOD], router=ROUTER | {"external_tokens": 0}), "fail", "router-not-disaggregated"),
        (evidence([GOOD], router=ROUTER | {"error": "503"}), "fail", "router-failed"),
        (evidence([GOOD], router=None), "inconclusive", "router-not-asked"),
    ],
)
def test_each_finding_has_its_own_cause_and_a_way_out(found: Evidence, outcome: str, cause: str) -> None:
    verdict = judge(found, LIMITS)
    assert (verdict.outcome, verdict.cause) == (outcome, cause)
    assert verdict.fix


def test_a_request_that_failed_because_its_transfer_failed_is_not_inconclusive() -> None:
    pair = PairEvidence("prefill-a", "decode-a", [], [], error="answered 500", failed=1)
    assert judge(Evidence(pairs=[pair]), LIMITS).cause == "failed-transfers"


def test_one_sample_with_another_requests_bytes_does_not_decide() -> None:
    twice = replace(GOOD, bytes=2 * TOKENS * BYTES_PER_TOKEN)
    assert judge(evidence([twice, GOOD, GOOD]), LIMITS).outcome == "pass"
    assert judge(evidence([twice, twice, GOOD], [twice, twice, GOOD]), LIMITS).cause == "wrong-bytes"


def test_without_a_geometry_no_bytes_are_wanted_and_no_aged_cache_is_estimated() -> None:
    verdict = judge(evidence([replace(GOOD, bytes=1)], []), replace(LIMITS, geometry=None))
    assert (verdict.outcome, verdict.pairs[0].expected_bytes, verdict.kv_transfer_aged_ms) == ("pass", None, None)


def test_where_there_is_no_router_none_is_asked_for() -> None:
    assert judge(evidence([GOOD], router=None), replace(LIMITS, router=False)).outcome == "pass"


def test_the_limit_itself_is_too_slow() -> None:
    exactly = evidence([replace(GOOD, ms=100.0)], [replace(AGED, ms=100.0)])
    assert judge(exactly, LIMITS).outcome == "fail"


def test_without_aged_samples_the_aged_figure_is_estimated_and_judged() -> None:
    slow_to_post = replace(GOOD, post_ms=8.0)  # 1 ms a descriptor: 256 of them take 248 ms more
    verdict = judge(evidence([slow_to_post], []), LIMITS)
    assert verdict.aged_is_estimated
    assert verdict.kv_transfer_aged_ms == pytest.approx(20 + 248)
    assert verdict.cause == "fragmented-cache"


def test_one_slow_pair_of_two_decides() -> None:
    slow = replace(GOOD, ms=500.0)
    pairs = [
        PairEvidence("prefill-a", "decode-a", [GOOD], [AGED]),
        PairEvidence("prefill-a", "decode-b", [slow], [slow]),
    ]
    verdict = judge(Evidence(pairs=pairs, router=ROUTER), LIMITS)
    assert verdict.cause == "slow-link"
    assert "decode-b" in verdict.message
    assert verdict.kv_transfer_ms == 500.0


def test_a_collocated_release_passes_when_its_router_serves() -> None:
    limits = replace(LIMITS, collocated=True)
    assert judge(Evidence(router=ROUTER), limits).outcome == "pass"
    assert judge(Evidence(router=ROUTER | {"error": "503"}), limits).outcome == "fail"


def test_a_collocated_release_whose_router_was_never_asked_does_not_pass() -> None:
    assert judge(Evidence(), replace(LIMITS, collocated=True)).outcome == "inconclusive"


UNSEEN = replace(GOOD, ms=None, post_ms=None, bytes=None, descriptors=None, transfers=None, failed=None)


@pytest.mark.parametrize(
    ("sample", "accept", "outcome", "cause"),
    [
        (UNSEEN, True, "pass", "content-only"),
        (UNSEEN, False, "inconclusive", "unmeasurable"),
        (replace(UNSEEN, external_tokens=100), True, "fail", "never-disaggregated"),
        (replace(UNSEEN, external_tokens=None), True, "fail", "never-disaggregated"),
        (replace(UNSEEN, answer="other"), True, "fail", "wrong-answer"),
        (replace(UNSEEN, prefill_tokens=0), True, "fail", "prefill-not-served"),
    ],
)
def test_what_can_not_be_measured_passes_on_its_content_alone_and_only_where_that_is_accepted(
    sample: Sample, accept: bool, outcome: str, cause: str
) -> None:
    limits = replace(LIMITS, unmeasured="can't be measured, because nobody counts", accept_unmeasured=accept)
    verdict = judge(evidence([sample, sample], [sample]), limits)
    assert (verdict.outcome, verdict.cause) == (outcome, cause)
    assert verdict.kv_transfer_ms is None
    assert accept or "nobody counts" in verdict.message


def test_a_connector_that_moves_whole_blocks_alone_is_expected_to() -> None:
    cut = replace(GOOD, tokens=TOKENS + BLOCK - 1)
    assert judge(evidence([cut], [cut]), replace(LIMITS, whole_blocks=True)).outcome == "pass"
    assert judge(evidence([cut], [cut]), replace(LIMITS, block_size=BLOCK)).outcome == "pass"  # 3 % less


EQUAL = {"name": "render-a", "equal": True, "error": None}
SAID = {"router": "yes", "engine": "yes", "router_tokens": 9, "engine_tokens": 9}
RENDERED: dict[str, Any] = {"pods": [EQUAL], "answers": [SAID] * 3, "error": None}


@pytest.mark.parametrize(
    ("render", "cause"),
    [
        (RENDERED, "fast"),
        (RENDERED | {"answers": [SAID, SAID, SAID | {"router": "a near tie"}]}, "fast"),
        (None, "render-not-asked"),
        (RENDERED | {"pods": []}, "render-not-asked"),
        (RENDERED | {"answers": []}, "render-not-asked"),
        (RENDERED | {"error": "http://router answered 502"}, "render-failed"),
        (RENDERED | {"pods": [EQUAL, EQUAL | {"error": "does not answer"}]}, "render-failed"),
        (RENDERED | {"pods": [EQUAL, EQUAL | {"name": "render-b", "equal": False}]}, "render-differs"),
        (RENDERED | {"answers": [SAID, SAID, SAID | {"router_tokens": 11}]}, "render-differs"),
        (RENDERED | {"answers": [SAID | {"router": "no"}] * 2 + [SAID]}, "render-differs"),
    ],
)
def test_a_render_tier_passes_only_where_it_says_what_an_engine_says(render: Any, cause: str) -> None:
    found = judge(evidence([GOOD, GOOD], render=render), replace(LIMITS, render=True))
    assert found.cause == cause
    assert found.outcome == {"fast": "pass", "render-not-asked": "inconclusive"}.get(cause, "fail")
    collocated = judge(Evidence(router=ROUTER, render=render), replace(LIMITS, collocated=True, render=True))
    assert collocated.cause == ("collocated" if cause == "fast" else cause)


def test_a_transfer_within_the_limit_but_far_off_the_expectation_fails_where_a_ratio_is_set() -> None:
    strict = replace(LIMITS, max_ratio=3.0, expected_ms=10.0)
    verdict = judge(evidence([GOOD]), strict)
    assert (verdict.outcome, verdict.cause) == ("fail", "slower-than-expected")
    assert "4.0 times the 10 ms" in verdict.message
    assert judge(evidence([GOOD]), replace(strict, expected_ms=20.0)).outcome == "pass"
    assert judge(evidence([GOOD]), replace(strict, expected_ms=None)).outcome == "pass"


def test_every_cause_is_in_the_table_of_verdicts() -> None:
    """Causes are the second argument of each Finding and Verdict in the source."""
    source = Path(verdict_file.__file__).read_text()
    causes = set(re.findall(r'"(?:pass|fail|inconclusive)",\s*"([a-z-]+)"', source))
    causes -= {"pass", "fail", "inconclusive"}
    assert len(causes) > 12
    table = (Path(verdict_file.__file__).parents[2] / "docs/reference/verdicts.md").read_text()
    assert [cause for cause in sorted(causes) if f"`{cause}`" not in table] == []
