"""Figures are computed per pair over what moved; estimates follow the measured post time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.release.evidence import Figures, Sample, estimate_aged, figures, percentile


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50), st.sampled_from([0.5, 0.9, 1.0]))
def test_a_percentile_is_one_of_the_values_and_enough_lie_at_or_below_it(values: list[float], share: float) -> None:
    found = percentile(sorted(values), share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values)


def test_no_samples_give_no_figures() -> None:
    assert figures([]) is None


def test_an_aged_estimate_adds_the_post_time_of_every_further_descriptor() -> None:
    fresh = Figures(
        5, mean_ms=10.0, p90_ms=12.0, mean_bytes=1e6, mean_descriptors=28, mean_post_ms=2.8, descriptor_ms=0.1
    )
    aged = estimate_aged(fresh, 28 * 512)
    assert aged.mean_descriptors == 28 * 512
    assert aged.mean_ms == pytest.approx(10 + 0.1 * (28 * 512 - 28))
    assert aged.estimated


def test_a_cache_that_was_aged_before_is_not_aged_once_more() -> None:
    """A live release's pods are not fresh when more replicas make it be checked again."""
    used = Figures(
        2, mean_ms=27.0, p90_ms=30.0, mean_bytes=8.4e6, mean_descriptors=256, mean_post_ms=15.0, descriptor_ms=0.06
    )
    aged = estimate_aged(used, 8 * 32)
    assert (aged.mean_ms, aged.mean_descriptors) == (27.0, 256)


@given(
    posts_ms=st.lists(st.floats(0.1, 5.0), min_size=2, max_size=5),
    stall_ms=st.floats(0, 500),
    worst=st.integers(8, 20_000),
)
def test_a_stall_of_the_cpu_counts_once_and_not_once_a_descriptor(
    posts_ms: list[float], stall_ms: float, worst: int
) -> None:
    quiet = [measured(post) for post in posts_ms]
    stalled = [*quiet[:-1], measured(posts_ms[-1] + stall_ms)]
    before, after = (estimate_aged(found, worst).mean_ms for found in (figures_of(quiet), figures_of(stalled)))
    spread_ms = (max(posts_ms) - min(posts_ms)) / DESCRIPTORS * worst
    assert after - before <= stall_ms / len(posts_ms) + spread_ms + 1e-6


def test_ranks_that_transfer_at_once_make_no_request_wait_for_their_sum() -> None:
    """Eight ranks of 3 ms each are counted as 24 ms by the engine's counters."""
    alone = replace(measured(2.0), bytes=1e6, transfers=1)
    eight = replace(alone, ms=8 * 3.0, post_ms=8 * 2.0, descriptors=8 * DESCRIPTORS, bytes=8e6, transfers=8)
    one, found = figures([alone]), figures([eight], ranks=8)
    assert one is not None and found is not None
    assert (found.mean_ms, found.p90_ms, found.mean_post_ms) == (one.mean_ms, one.p90_ms, one.mean_post_ms)
    assert found.gb_per_s == pytest.approx(8 * one.gb_per_s)
    aged, aged_alone = estimate_aged(found, 8 * 512, ranks=8), estimate_aged(one, 512)
    assert aged.mean_ms == pytest.approx(aged_alone.mean_ms)


def test_parts_of_one_rank_still_add_up() -> None:
    """A decoder of one rank reads from two prefill ranks: what is not known to be at once is not divided."""
    parts = replace(measured(2.0), transfers=2)
    found = figures([parts], ranks=1)
    assert found is not None and found.mean_ms == 3.0
    fewer = figures([replace(parts, transfers=1)], ranks=8)
    assert fewer is not None and fewer.mean_ms == 3.0


DESCRIPTORS = 8


def measured(post_ms: float) -> Sample:
    """One transfer of which all but 1 ms is posting."""
    return Sample(
        tokens=512, ms=post_ms + 1.0, post_ms=post_ms, bytes=1e6, descriptors=DESCRIPTORS, transfers=1, failed=0,
        external_tokens=512, prefill_tokens=512, decode_tokens=512, prefill_ms=1.0, decode_ms=1.0, answer="a", reference="a",
    )  # fmt: skip


def figures_of(samples: list[Sample]) -> Figures:
    found = figures(samples)
    assert found is not None
    return found
