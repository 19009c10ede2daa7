"""The search for the goodput ends, near it; two stacks take turns, and no stack meets a prompt twice."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.bench.figures import Point
from components.bench.load import Load, Targets, repeated_share
from components.bench.measurement import Measurement, Search, WarmUpFailed
from components.bench.reading import Request, Run
from components.bench.schedule import CLOSE, NotRates, Slot, next_rate, parse_rates, slots

TARGETS = Targets(2000, 50)


@pytest.mark.parametrize(("text", "rates"), [("0.4, 0.2,1", (0.2, 0.4, 1.0)), ("2,2", (2.0,)), ("auto", None)])
def test_rates_are_read(text: str, rates: tuple[float, ...] | None) -> None:
    assert parse_rates(text) == rates


@pytest.mark.parametrize("text", ["", "fast", "0", "-1", "1,,2", "inf", "nan", "0.001"])
def test_what_is_no_rate_is_said(text: str) -> None:
    with pytest.raises(NotRates, match="wanted requests per second"):
        parse_rates(text)


@given(st.floats(0.02, 500), st.floats(0.05, 50))
def test_the_search_ends_close_to_a_true_limit(limit: float, start: float) -> None:
    tried: dict[float, bool] = {}
    while (rate := next_rate(tried, round(start, 3))) is not None:
        assert rate not in tried and rate > 0
        tried[rate] = rate <= limit
        assert len(tried) < 30
    good = max((rate for rate, met in tried.items() if met), default=None)
    missed = min(rate for rate, met in tried.items() if not met)
    if good is not None:
        # Below 0.02 neighbours of three digits are further apart.
        assert good <= limit < missed and (missed <= good * CLOSE or missed - good < 0.003)


def test_a_topology_that_meets_nothing_ends_the_search() -> None:
    tried: dict[float, bool] = {}
    while (rate := next_rate(tried, 1.0)) is not None:
        tried[rate] = False
    assert min(tried) < 0.03 and len(tried) < 10


def test_two_stacks_take_turns_with_the_same_seeds() -> None:
    first, second, third, fourth = slots(2, 101, 7, 0)
    assert [slot.stack for slot in (first, second, third, fourth)] == [0, 1, 1, 0]
    assert first.seed == second.seed != third.seed == fourth.seed
    assert {slot.requests for slot in (first, second, third, fourth)} == {51}


@given(st.integers(1, 2), st.integers(0, 2**31 - 1))
def test_no_stack_gets_a_seed_twice(stacks: int, seed: int) -> None:
    for stack in range(stacks):
        seeds = [s.seed for number in range(20) for s in slots(stacks, 10, seed, number) if s.stack == stack]
        assert len({*seeds, seed}) == len(seeds) + 1  # the warm-up has `seed` itself


def test_prompts_repeat_where_the_vocabulary_is_small() -> None:
    assert repeated_share(500, 152_000) < 0.01 < repeated_share(500, 2048)


def served(limits: list[float], calls: list[tuple[Slot, float]]):
    """Stacks that meet the targets up to a rate each."""

    def runner(slot: Slot, rate: float) -> Run:
        calls.append((slot, rate))
        ttft_ms = 100.0 if rate <= limits[slot.stack] else 9000.0
        return Run((Request(ttft_ms, (20.0,)),) * slot.requests, 10, 11, False)

    return runner


def goods(points: list[Point]) -> list[float]:
    return [point.rate_per_s for point in points if point.good(TARGETS)]


def test_both_stacks_are_measured_at_every_rate_that_either_needs() -> None:
    calls: list[tuple[Slot, float]] = []
    measurement = Measurement(2, Load(64, 8, 100), TARGETS, Search(None, 0.5, 20), 1)
    measurement.run(served([1.2, 5.0], calls))
    first, second = measurement.points
    assert [p.rate_per_s for p in first] == [p.rate_per_s for p in second]
    assert max(goods(first)) <= 1.2 < max(goods(first)) * CLOSE
    assert max(goods(second)) <= 5.0 < max(goods(second)) * CLOSE
    assert [slot.stack for slot, _ in calls[:6]] == [0, 1, 0, 1, 1, 0]  # two warm-ups, then A B B A


def test_auto_is_bounded() -> None:
    calls: list[tuple[Slot, float]] = []
    measurement = Measurement(1, Load(64, 8, 10), TARGETS, Search(None, 0.5, 4), 1)
    measurement.run(served([1e9], calls))
    assert [p.rate_per_s for p in measurement.points[0]] == [0.5, 1, 2, 4]


def test_points_stay_when_a_later_run_fails() -> None:
    def runner(slot: Slot, rate: float) -> Run:
        if rate == 2:
            raise RuntimeError("gone")
        return served([9], [])(slot, rate)

    measurement = Measurement(1, Load(64, 8, 10), TARGETS, Search((1, 2), 1, 9), 1)
    with pytest.raises(RuntimeError):
        measurement.run(runner)
    assert [p.rate_per_s for p in measurement.points[0]] == [1]


def test_a_warm_up_that_nobody_answers_ends_it() -> None:
    def runner(slot: Slot, rate: float) -> Run:
        return Run((Request(0, (), "Unauthorized"),) * slot.requests, 1, 1, False)

    with pytest.raises(WarmUpFailed, match="Unauthorized"):
        Measurement(1, Load(64, 8, 10), TARGETS, Search((1,), 1, 9), 1).run(runner)


@pytest.mark.parametrize(
    ("load", "fault"),
    [
        (Load(2000, 100, 100), "found 2,000 \\+ 100 tokens; stack local serves contexts of 2,048 at most"),
        (Load(100, 1000, 2000), "--output-tokens: found 2,000 x 1,000 tokens at one rate"),
        (Load(2000, 2, 100_000), "--prompt-tokens: found 100,000 x 2,000 tokens at one rate"),
    ],
)
def test_loads_that_cannot_be_sent_are_refused(load: Load, fault: str) -> None:
    assert any(re.search(fault, text) for text in load.faults(2048, 1000, "local"))
    assert Load(1920, 128, 100).faults(2048, 1000, "local") == []
