"""Goodput never rises with harder targets, and is a rate below which nothing missed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.bench.figures import Point, percentile, point
from components.bench.goodput import binding, goodput
from components.bench.load import Targets
from components.bench.reading import Request, Run

TARGETS = Targets(2000, 50)


def run(*requests: Request, late: bool = False, span_s: float = 10.0) -> Run:
    return Run(requests, span_s, span_s + 1, late)


def answered(ttft_ms: float = 100, *gaps_ms: float) -> Request:
    return Request(ttft_ms, gaps_ms or (20.0,) * 127)


def failed() -> Request:
    return Request(0, (), "Unauthorized")


requests = st.builds(
    Request,
    ttft_ms=st.floats(1, 5000),
    gaps_ms=st.lists(st.floats(1, 200), max_size=8).map(tuple),
    error=st.sampled_from([None, None, None, "broken"]),
)
curves = st.dictionaries(st.floats(0.1, 10), st.lists(requests, min_size=1, max_size=12), min_size=1, max_size=6)
some_targets = st.builds(
    Targets, st.floats(1, 5000), st.floats(1, 200), st.floats(0.01, 1), st.sampled_from(["p99", "mean"])
)


def points(curve: dict[float, list[Request]], targets: Targets) -> list[Point]:
    return [point(rate, [run(*sent)], targets) for rate, sent in curve.items()]


@given(curves, some_targets, st.floats(1, 3), st.floats(1, 3), st.floats(0.3, 1))
def test_easier_targets_never_lower_the_goodput(
    curve: dict[float, list[Request]], targets: Targets, more_ttft: float, more_itl: float, less_share: float
) -> None:
    easier = replace(
        targets,
        ttft_ms=targets.ttft_ms * more_ttft,
        itl_ms=targets.itl_ms * more_itl,
        share=targets.share * less_share,
    )
    hard = goodput(points(curve, targets), targets).rate_per_s or 0
    assert (goodput(points(curve, easier), easier).rate_per_s or 0) >= hard


@given(curves, some_targets)
def test_every_rate_up_to_the_goodput_was_good_and_the_next_was_not(
    curve: dict[float, list[Request]], targets: Targets
) -> None:
    measured = points(curve, targets)
    found = goodput(measured, targets)
    rate = found.rate_per_s or 0
    assert all(p.good(targets) for p in measured if p.rate_per_s <= rate)
    above = sorted((p for p in measured if p.rate_per_s > rate), key=lambda p: p.rate_per_s)
    assert (found.missed is None) == (not above)
    assert not above or (above[0] is found.missed and not above[0].good(targets))


@given(curves, some_targets)
def test_failures_never_help(curve: dict[float, list[Request]], targets: Targets) -> None:
    worse = {rate: [*sent, failed()] for rate, sent in curve.items()}
    before, after = goodput(points(curve, targets), targets), goodput(points(worse, targets), targets)
    assert (after.rate_per_s or 0) <= (before.rate_per_s or 0)


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0, 100))
def test_a_percentile_lies_within_its_values_and_rises(values: list[float], percent: float) -> None:
    found, lower = percentile(values, percent), percentile(values, percent / 2)
    assert found is not None and lower is not None
    assert min(values) <= lower <= found <= max(values) or found == pytest.approx(lower)


def test_percentiles_are_numpys() -> None:
    import numpy

    values = [5.0, 1.0, 9.0, 2.0, 2.5]
    for percent in (0, 1, 50, 90, 99, 100):
        assert percentile(values, percent) == pytest.approx(numpy.percentile(values, percent))
    assert percentile([], 99) is None


def test_one_stall_in_a_long_answer_is_a_miss_by_p99_and_none_by_mean() -> None:
    stalled = answered(100, *([20.0] * 125), 300.0, 300.0)
    by_p99 = point(1, [run(stalled)], TARGETS)
    by_mean = point(1, [run(stalled)], replace(TARGETS, itl_of="mean"))
    assert (by_p99.met_itl, by_mean.met_itl) == (0, 1)


def test_one_of_a_hundred_may_miss_and_two_may_not() -> None:
    late = answered(2001)
    one = point(1, [run(*[answered()] * 99, late)], TARGETS)
    two = point(1, [run(*[answered()] * 98, late, late)], TARGETS)
    assert one.good(TARGETS) and not two.good(TARGETS)


def test_figures_pool_the_runs_of_one_rate() -> None:
    found = point(0.5, [run(answered(100), answered(200)), run(answered(300), failed())], TARGETS)
    assert (found.requests, found.failed, found.met, found.ttft_p50_ms) == (4, 1, 3, 200)
    assert found.sent_per_s == pytest.approx(2 / 20) and found.answered_per_s == pytest.approx(3 / 22)
    assert found.failures == (("Unauthorized", 1),)


def test_a_late_generator_proves_nothing() -> None:
    found = point(1, [run(answered(), late=True)], TARGETS)
    assert found.share == 1 and not found.good(TARGETS)
    assert binding(found, TARGETS) == "load generator"


def test_a_good_rate_above_a_missed_one_is_named_and_not_believed() -> None:
    curve = {1.0: [answered()], 2.0: [answered(3000)], 4.0: [answered()]}
    found = goodput(points(curve, TARGETS), TARGETS)
    assert found.rate_per_s == 1 and found.above is not None and found.above.rate_per_s == 4


@pytest.mark.parametrize(
    ("sent", "what"),
    [
        ([answered(3000), answered()], "TTFT"),
        ([answered(100, 90.0), answered()], "ITL"),
        ([answered(3000, 90.0)], "TTFT and ITL"),
        ([failed(), failed(), answered(3000)], "failures"),
    ],
)
def test_what_binds_is_what_fewer_requests_met(sent: list[Request], what: str) -> None:
    assert binding(point(1, [run(*sent)], TARGETS), TARGETS) == what
