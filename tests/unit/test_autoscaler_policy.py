"""The autoscaler's policy: what it may never do, for any sizes, signals and bounds that hypothesis finds."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from components.autoscaler.history import Capacity, PodHistory, TierHistory
from components.autoscaler.policy import Decision, Rules, TierView, decide, decide_alone, keep_ratio, reach
from components.autoscaler.signals import DEFAULT_TARGETS, Page, Reading, read_signals

"""The cores are shared: a slow example is no finding."""


def view(current: int, usage: float | None, **more: object) -> TierView:
    """A tier whose pods are all ready, at one signal of `usage` (1: at its target)."""
    readings = [] if usage is None else [Reading("queue", usage, 1.0, current)]
    plain = TierView(current, current, readings, asked_low=10**6, asked_high=0, size_low=current, size_high=current)
    return replace(plain, **more)


@st.composite
def bounds(draw: st.DrawFn) -> Rules:
    least = draw(st.integers(1, 6))
    return Rules(
        least,
        draw(st.integers(least, 24)),
        tolerance=draw(st.sampled_from([0.0, 0.1, 0.3])),
        up_step=draw(st.integers(1, 5)),
        down_step=draw(st.integers(1, 3)),
    )


@st.composite
def views(draw: st.DrawFn, rules: Rules, silent: bool | None = None) -> TierView:
    current = draw(st.integers(rules.least, rules.most))
    ready = draw(st.integers(0, current))
    quiet = draw(st.integers(0, ready)) if silent is None else (min(1, ready) if silent else 0)
    names = draw(st.lists(st.sampled_from(["queue", "kv_usage", "ttft_p90_s"]), unique=True))
    readings = [
        Reading(name, draw(st.floats(0, 20)), draw(st.floats(0.1, 5)), ready - quiet, draw(st.booleans()))
        for name in names
        if ready > quiet
    ]
    sizes = st.integers(rules.least, rules.most)
    return TierView(
        current,
        ready,
        readings,
        asked_low=draw(sizes),
        asked_high=draw(sizes),
        size_low=min(current, draw(sizes)),
        size_high=max(current, draw(sizes)),
        silent=quiet,
        hold=draw(st.sampled_from([None, "release_moved"])),
    )


@st.composite
def ratios(draw: st.DrawFn) -> tuple[float, float]:
    low = draw(st.sampled_from([0.0, 0.25, 1 / 3, 0.5, 1.0, 2.0]))
    return low, low * draw(st.sampled_from([1.0, 1.5, 2.0, 4.0])) if low else draw(
        st.sampled_from([0.5, 2.0, math.inf])
    )


@given(st.data())
def test_bounds_always_hold(data: st.DataObject) -> None:
    prefill, decode = data.draw(bounds()), data.draw(bounds())
    seen = {"prefill": data.draw(views(prefill)), "decode": data.draw(views(decode))}
    made = decide(seen, {"prefill": prefill, "decode": decode}, data.draw(ratios()))
    assert prefill.least <= made["prefill"].wanted <= prefill.most
    assert decode.least <= made["decode"].wanted <= decode.most


@given(st.data())
def test_the_ratio_holds_whenever_some_reachable_sizes_keep_it(data: st.DataObject) -> None:
    prefill, decode, ratio = data.draw(bounds()), data.draw(bounds()), data.draw(ratios())
    seen = {"prefill": data.draw(views(prefill)), "decode": data.draw(views(decode))}
    made = decide(seen, {"prefill": prefill, "decode": decode}, ratio)

    def kept(p: int, d: int) -> bool:
        return ratio[0] - 1e-9 <= p / d <= ratio[1] + 1e-9

    (p_low, p_high), (d_low, d_high) = reach(seen["prefill"], prefill), reach(seen["decode"], decode)
    p, d = made["prefill"].wanted, made["decode"].wanted
    assert p_low <= p <= p_high and d_low <= d <= d_high, "steps and holds bound the ratio's repair too"
    if any(kept(i, j) for i in range(p_low, p_high + 1) for j in range(d_low, d_high + 1)):
        assert kept(p, d)


@given(st.data())
def test_the_ratio_raises_the_tier_that_lags_where_it_can(data: st.DataObject) -> None:
    p, d, ratio = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 12)), data.draw(ratios())
    box = ((1, 12), (1, 12))
    got = keep_ratio((p, d), box, ratio)
    above = [
        (i, j)
        for i in range(p, 13)
        for j in range(d, 13)
        if ratio[0] - 1e-9 <= i / j <= ratio[1] + 1e-9
    ]  # fmt: skip
    if above:
        assert got == (min(i for i, _ in above), min(j for _, j in above)), "the least that keeps it, nothing lowered"
    elif ratio[0] > 0:
        assert got[0] <= p or got[1] <= d


@pytest.mark.parametrize(
    ("asked", "most", "ratio", "got"),
    [
        ((1, 6), (4, 8), (0.5, 2.0), (3, 6)),
        ((1, 8), (3, 8), (0.5, 2.0), (3, 6)),  # prefill can't follow any further: decode is capped
        ((6, 1), (8, 8), (0.0, 2.0), (6, 3)),
        ((1, 3), (8, 8), (0.5, 0.5), (2, 4)),  # half of 3 is no pod
        ((2, 2), (8, 8), (0.5, 2.0), (2, 2)),
    ],
)
def test_ratios_by_hand(
    asked: tuple[int, int], most: tuple[int, int], ratio: tuple[float, float], got: tuple[int, int]
) -> None:
    assert keep_ratio(asked, ((1, most[0]), (1, most[1])), ratio) == got


@given(st.data())
def test_nothing_is_lowered_on_missing_data(data: st.DataObject) -> None:
    prefill, decode = data.draw(bounds()), data.draw(bounds())
    seen = {"prefill": data.draw(views(prefill, silent=True)), "decode": data.draw(views(decode))}
    made = decide(seen, {"prefill": prefill, "decode": decode}, data.draw(ratios()))["prefill"]
    assert made.wanted >= made.current, "a pod is silent, or there is no signal at all"


@given(st.data())
def test_nothing_is_lowered_while_a_pod_lacks_one_of_the_signals(data: st.DataObject) -> None:
    rules = data.draw(bounds())
    seen = data.draw(views(rules, silent=False))
    assume(seen.ready > 1 and seen.readings)
    first, *others = seen.readings
    seen = replace(seen, readings=[replace(first, pods=seen.ready - 1), *others])
    assert decide_alone(seen, rules).wanted >= seen.current


def test_a_silent_round_asks_for_what_there_is() -> None:
    """Else a window of silent rounds would end in a step down at the first answer."""
    quiet = view(4, None, readings=[Reading("kv_usage", 0.0, 0.7, 3)], silent=1)
    assert decide_alone(quiet, Rules(1, 8)) == Decision(4, 4, 4, "silent_pods", "kv_usage")


@given(st.data())
def test_more_load_never_makes_any_tier_smaller(data: st.DataObject) -> None:
    prefill, decode, ratio = data.draw(bounds()), data.draw(bounds()), data.draw(ratios())
    rules = {"prefill": prefill, "decode": decode}
    seen = {"prefill": data.draw(views(prefill)), "decode": data.draw(views(decode))}
    tier = data.draw(st.sampled_from(["prefill", "decode"]))
    factor = data.draw(st.floats(1, 8))
    more = [replace(reading, value=reading.value * factor) for reading in seen[tier].readings]
    before = decide(seen, rules, ratio)
    after = decide(seen | {tier: replace(seen[tier], readings=more)}, rules, ratio)
    for name in seen:
        assert after[name].wanted >= before[name].wanted, name


def run(load: list[float], start: int, rules: Rules, ratio_of: float = 1.0) -> list[int]:
    """A tier's size, round by round of 5 s, under a load in pods' worth that spreads evenly."""
    history, size, sizes = TierHistory(10, 60, 15, 30), start, []
    for number, work in enumerate(load):
        now = 5.0 * number
        history.see(now, size)
        seen = TierView(
            size,
            size,
            [Reading("kv_usage", work / size * ratio_of, ratio_of, size)],
            asked_low=history.asked_up.lowest(now, rules.most),
            asked_high=history.asked_down.highest(now, rules.least),
            size_low=history.sizes_up.lowest(now, size),
            size_high=history.sizes_down.highest(now, size),
        )
        made = decide_alone(seen, rules)
        history.recommend(now, made.recommended)
        size = made.wanted
        sizes.append(size)
    return sizes


@given(st.floats(0, 30), st.integers(1, 20), st.floats(0.01, 100))
def test_a_constant_load_is_settled_for_good_and_without_a_turn(load: float, start: int, target: float) -> None:
    sizes = run([load] * 300, start, Rules(1, 20), target)
    steps = [after - before for before, after in zip([start, *sizes], sizes, strict=False)]
    assert not (any(step > 0 for step in steps) and any(step < 0 for step in steps)), "one direction only"
    assert len(set(sizes[-60:])) == 1
    assert sizes[-1] >= min(20, load / 1.1 - 1e-6), "enough, within the tolerance"


@given(st.lists(st.floats(0.8, 1.2), min_size=100, max_size=100))
def test_noise_around_a_load_does_not_make_it_flap(noise: list[float]) -> None:
    sizes = run([5 * share for share in noise], 5, Rules(1, 20))
    turns = sum(after < before for before, after in pairwise(sizes))
    assert turns <= 100 * 5 / 30, "at most one down in each step window"
    assert min(sizes) >= 4


def test_a_short_peak_raises_nothing() -> None:
    assert set(run([2.0] * 10 + [9.0] + [2.0] * 10, 2, Rules(1, 20))) == {2}


def test_a_step_of_load_doubles_or_adds_four_at_a_time() -> None:
    sizes = run([1.0] * 4 + [18.0] * 30, 1, Rules(1, 20))
    assert sizes[-1] == 18
    assert max(after - before for before, after in pairwise(sizes)) <= 10
    assert 5 in sizes


def test_load_that_ends_takes_one_pod_a_window() -> None:
    sizes = run([6.0] * 4 + [0.0] * 200, 6, Rules(1, 20))
    lowered = [5 * number for number, pair in enumerate(pairwise(sizes)) if pair[1] < pair[0]]
    assert sizes[-1] == 1
    assert lowered[0] >= 60 + 15, "the whole window first"
    assert all(after - before >= 30 for before, after in pairwise(lowered))


def test_pods_that_start_are_not_ordered_again() -> None:
    starting = TierView(4, 2, [Reading("queue", 4.0, 2.0, 2)], asked_low=8, asked_high=1, size_low=4, size_high=4)
    assert decide_alone(starting, Rules(1, 8)).wanted == 4, "2 pods at twice their target are 4 pods' worth"


def test_a_queue_doubles_what_serves_and_waits_for_it() -> None:
    """A queue of 100 says that 2 pods are too few, and 50 would be a guess."""
    queue = Reading("queue", 50.0, 2.0, 2, proportional=False)
    rules = Rules(1, 64, up_step=64)
    assert decide_alone(view(2, None, readings=[queue]), rules).wanted == 4
    assert decide_alone(view(4, None, ready=2, readings=[queue]), rules).wanted == 4, "two of them still start"


def prefill_sizes(offered: float, rounds: int, pod_tokens_per_s: float = 1000.0, start_s: float = 30.0) -> list[int]:
    """A prefill tier's size, round by round of 5 s, at a constant `offered` load in tokens a second.

    Prompts have 500 tokens. A pod computes `pod_tokens_per_s`, once it has started.
    """
    history, capacity, backlog = TierHistory(10, 60, 15, 60), Capacity(), 0.0
    pods, started, sizes, rules = {0: PodHistory(60)}, {0: -start_s}, [], Rules(1, 20)
    done: dict[int, float] = {}
    for number in range(rounds):
        now = 5.0 * number
        history.see(now, len(pods))
        ready = [pod for pod in pods if now - started[pod] >= start_s]
        work = min(backlog + 5 * offered, len(ready) * 5 * pod_tokens_per_s)
        backlog += 5 * offered - work
        for pod in ready:
            done[pod] = done.get(pod, 0.0) + work / len(ready)
            page = Page(queue=backlog // 500 / len(ready), computed_tokens=done[pod])
            if interval := pods[pod].add(now, page):
                capacity.observe(interval)
        samples = [pods[pod].sample() for pod in ready]
        seen = TierView(
            len(pods),
            len(ready),
            read_signals(samples, DEFAULT_TARGETS["prefill"], capacity.tokens_per_s),
            asked_low=history.asked_up.lowest(now, rules.most),
            asked_high=history.asked_down.highest(now, rules.least),
            size_low=history.sizes_up.lowest(now, len(pods)),
            size_high=history.sizes_down.highest(now, len(pods)),
        )
        made = decide_alone(seen, rules)
        history.recommend(now, made.recommended)
        for _ in range(made.wanted - made.current):
            name = 1 + max(started)
            pods[name], started[name] = PodHistory(60), now
        while len(pods) > made.wanted:
            pods.pop(max(pods))
        sizes.append(len(pods))
    return sizes


@pytest.mark.parametrize("offered", [300.0, 900.0, 1500.0, 3300.0, 6100.0])
def test_prefill_settles_though_its_queue_is_empty_at_any_size_that_suffices(offered: float) -> None:
    """By its queue alone it would be lowered until there is one again, and so for ever: it knows what a pod can
    do once one had a queue."""
    sizes = prefill_sizes(offered, 1000)
    assert len(set(sizes[-200:])) == 1
    assert offered / 1000 < sizes[-1] <= math.ceil(offered / 700) + 1


def test_a_silent_pod_counts_as_at_its_target_when_others_are_busy() -> None:
    busy = view(3, None, readings=[Reading("queue", 4.0, 2.0, 2)], silent=1)
    assert decide_alone(busy, Rules(1, 8)).wanted == 5


def test_the_highest_wish_of_a_tier_counts() -> None:
    both = view(2, None, readings=[Reading("kv_usage", 0.1, 0.7, 2), Reading("queue", 6.0, 2.0, 2)])
    made = decide_alone(both, Rules(1, 8))
    assert (made.wanted, made.signal, made.reason) == (6, "queue", "signal")


def test_a_stopped_tier_stays_stopped_and_binds_nobody() -> None:
    rules = {"prefill": Rules(1, 4), "decode": Rules(1, 4)}
    made = decide({"prefill": view(0, None), "decode": view(2, 3.0)}, rules, (1.0, 1.0))
    assert made["prefill"] == Decision(0, 0, 0, "stopped")
    assert made["decode"].wanted == 4


@pytest.mark.parametrize(
    ("seen", "wanted", "reason"),
    [
        (view(2, None), 2, "no_metrics"),
        (view(2, 1.05), 2, "steady"),
        (view(2, 3.0, asked_low=2), 2, "up_window"),
        (view(4, 0.2, asked_high=4), 4, "down_window"),
        (view(4, 0.2, hold="release_moved"), 4, "release_moved"),
        (view(4, 0.2, size_high=5), 4, "step"),
        (view(4, 0.2), 3, "step"),
        (view(8, 3.0), 8, "bounds"),
        (view(9, 1.0), 8, "bounds"),
        (view(9, None), 8, "bounds"),
    ],
)
def test_each_decision_says_why(seen: TierView, wanted: int, reason: str) -> None:
    made = decide_alone(seen, Rules(1, 8))
    assert (made.wanted, made.reason) == (wanted, reason)
