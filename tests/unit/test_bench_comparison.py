"""Advice follows from the figures, is the same whichever stack is named first, and needs sound figures."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.bench.comparison import Side, comparable, compare
from components.bench.figures import Point, point
from components.bench.load import Targets
from components.bench.reading import Request, Run
from components.bench.tables import goodput_line, notes, side_json, table
from infra.table_text import table_text

TARGETS = Targets(2000, 50)


def at(rate: float, ttft_ms: float = 300, itl_ms: float = 25, requests: int = 100, failed: int = 0) -> Point:
    good, bad = Request(ttft_ms, (itl_ms,) * 20), Request(0, (), "broken pipe")
    sent = (good,) * (requests - failed) + (bad,) * failed
    return point(rate, [Run(sent, requests / rate, requests / rate + 1, False)], TARGETS)


def split(*points: Point, units: int = 2) -> Side:
    return Side("prod", "prefill-decode", units, "GPU", points)


def collocated(*points: Point, units: int = 2) -> Side:
    return Side("base", "collocated", units, "GPU", points)


# The article's box: collocated ITL p99 jumps at 0.4 a second; the split's TTFT misses 2 s where KV is slow.
STALLS = collocated(at(0.2, itl_ms=23), at(0.4, itl_ms=169), at(0.8, itl_ms=200))
FAST_KV = split(at(0.2), at(0.4), at(0.8, ttft_ms=2500))
SLOW_KV = split(at(0.2, ttft_ms=2200), at(0.4, ttft_ms=2300), at(0.8, ttft_ms=2500))


def test_a_split_that_holds_itl_where_collocated_stalls_is_advised() -> None:
    found = compare(FAST_KV, STALLS, TARGETS)
    assert found.choice == "split" and found.ratio == pytest.approx(2)
    assert (
        "collocated ITL p99 169 ms at 0.4 requests/s; split 25 ms; 0 of 100 requests met the 50 ms target"
        in (found.reasons[-1])
    )


def test_a_split_whose_first_token_is_late_is_not() -> None:
    found = compare(SLOW_KV, STALLS, TARGETS)
    assert found.choice == "collocated"
    assert any("split TTFT p99 2,200 ms at 0.2 requests/s; collocated 300 ms" in reason for reason in found.reasons)
    assert "TTFT binds: a split adds the transfer to it" in found.reasons


def test_hardware_counts() -> None:
    """Twice the goodput on four times the GPUs is no win."""
    found = compare(split(*FAST_KV.points, units=4), collocated(*STALLS.points, units=1), TARGETS)
    assert found.choice == "collocated" and found.ratio == pytest.approx(0.5)
    assert "goodput 0.4 requests/s on 4 GPUs, 0.1 each" in found.reasons[0]


def test_a_little_more_does_not_pay_for_more_services() -> None:
    found = compare(split(at(1), at(1.05), at(1.2, 3000)), collocated(at(1), at(1.05, 3000), at(1.2, 3000)), TARGETS)
    assert found.choice == "collocated" and "less than a tenth" in found.reasons[2]


@pytest.mark.parametrize(
    ("side", "doubt"),
    [
        (split(at(0.2, failed=1), at(0.4, 3000)), "prod: 1 of 200 requests failed: mend that first"),
        (split(at(0.2, requests=20), at(0.4, 3000)), "20 requests at a rate are too few for a p99, which needs 100"),
        (split(at(0.2), at(0.4, 3000), at(0.8)), "0.8 requests/s met the targets and a lower rate did not"),
        (split(), "nothing was measured"),
    ],
)
def test_nothing_is_advised_from_figures_that_cannot_bear_it(side: Side, doubt: str) -> None:
    for found in (compare(side, STALLS, TARGETS), compare(STALLS, side, TARGETS)):
        assert found.choice == "measure" and any(doubt in reason for reason in found.reasons)


def test_failures_beyond_the_first_missed_rate_do_not_matter() -> None:
    overloaded = split(*FAST_KV.points, at(9, failed=50))
    assert compare(overloaded, STALLS, TARGETS).choice == "split"


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (split(at(1)), collocated(at(1)), "both meet the targets at every rate"),
        (split(at(1, 9000)), collocated(at(1, 9000)), "neither meets the targets"),
        (split(at(1), at(2)), collocated(at(1), at(2, 9000)), "collocated ITL"),
        (split(at(1), at(2, 9000)), collocated(at(1), at(2)), "split TTFT p99 9,000 ms at 2 requests/s"),
        (split(at(1), at(2), units=1), collocated(at(1), at(2, 9000), units=8), "collocated TTFT p99 9,000 ms"),
        (split(at(1), at(2), units=8), collocated(at(1), at(2, 9000), units=1), "prod meets the targets at every rate"),
    ],
)
def test_the_ends_of_the_curves(first: Side, second: Side, words: str) -> None:
    if words == "collocated ITL":
        words = "collocated TTFT p99 9,000 ms at 2 requests/s; split 300 ms"
    assert any(words in reason for reason in compare(first, second, TARGETS).reasons)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (split(at(1), at(2, 9000), units=1), collocated(at(1), at(2), units=8)),
        (split(at(1), at(2), units=8), collocated(at(1), at(2, 9000), units=1)),
    ],
)
def test_a_curve_without_an_end_decides_nothing_for_the_other_side(first: Side, second: Side) -> None:
    """Per GPU it looks worse, but nobody knows how far it goes."""
    found = compare(first, second, TARGETS)
    assert found.choice == "measure" and "try higher ones" in found.reasons[-1]


def test_two_stacks_of_one_topology_are_compared_and_nothing_is_chosen() -> None:
    found = compare(STALLS, collocated(at(0.2), at(0.4), at(0.8, 3000)), TARGETS)
    assert found.choice is None and found.ratio == pytest.approx(0.5)


times = st.sampled_from([100.0, 1999.0, 2500.0])
gaps = st.sampled_from([20.0, 49.0, 80.0])
sides = st.lists(st.tuples(times, gaps, st.sampled_from([20, 100])), min_size=1, max_size=4)


@given(sides, sides, st.integers(1, 4), st.integers(1, 4))
def test_the_choice_does_not_depend_on_which_stack_is_named_first(one: Any, other: Any, a: int, b: int) -> None:
    def points(shape: Any) -> list[Point]:
        return [at(rate, *values) for rate, values in zip((0.5, 1.0, 2.0, 4.0), shape, strict=False)]

    first, second = split(*points(one), units=a), collocated(*points(other), units=b)
    assert compare(first, second, TARGETS).choice == compare(second, first, TARGETS).choice


def test_what_cannot_be_compared_is_said() -> None:
    assert comparable(("llama", "GPU"), ("llama", "GPU")) == []
    assert comparable(("llama", "GPU"), ("qwen", "engine")) == [
        "model: found `llama` and `qwen`; wanted the same in both stacks",
        "hardware is counted in: found `GPU` and `engine`; wanted the same in both stacks",
    ]


def test_the_table_has_both_stacks_under_each_rate_and_marks_what_missed() -> None:
    text = table_text(table([FAST_KV, STALLS], TARGETS))
    rows = [line for line in text.splitlines() if "prod" in line or "base" in line]
    assert len(rows) == 6 and "prod" in rows[0] and "base" in rows[1]
    assert "100.0%" in rows[0] and "0.0%!" in rows[3] and "169" in rows[3]


def test_the_goodput_is_one_sentence() -> None:
    assert goodput_line(STALLS, TARGETS) == (
        "base: goodput 0.2 requests/s; at 0.4 0.0% of requests were within both, ITL binds"
    )
    assert "goodput at least 1 requests/s" in goodput_line(split(at(1)), TARGETS)
    assert "goodput below 0.2 requests/s" in goodput_line(SLOW_KV, TARGETS)


def test_notes_say_what_weakens_the_figures() -> None:
    found = notes([split(at(0.2, requests=20, failed=2))])
    assert "p99 of 20 requests is (nearly) their maximum" in found[0]
    assert "2 failed, 2 with: broken pipe" in found[1]
    assert notes([FAST_KV, STALLS]) == []


def test_json_has_every_rate_with_its_figures() -> None:
    found = side_json(STALLS, TARGETS)
    assert (found["goodput_per_s"], found["bounded"], found["binds"], found["GPUs"]) == (0.2, True, "ITL", 2)
    assert [row["good"] for row in found["rates"]] == [True, False, False]
    assert found["rates"][1]["itl_p99_ms"] == 169
