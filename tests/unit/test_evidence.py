"""Figures are computed per pair over what moved; estimates follow the measured post time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.release.evidence import Figures, estimate_aged, figures, percentile


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50), st.sampled_from([0.5, 0.9, 1.0]))
def test_a_percentile_is_one_of_the_values_and_enough_lie_at_or_below_it(values: list[float], share: float) -> None:
    found = percentile(sorted(values), share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values)


def test_no_samples_give_no_figures() -> None:
    assert figures([]) is None


def test_an_aged_estimate_adds_the_post_time_of_every_further_descriptor() -> None:
    fresh = Figures(5, mean_ms=10.0, p90_ms=12.0, mean_bytes=1e6, mean_descriptors=28, mean_post_ms=2.8)
    aged = estimate_aged(fresh, 28 * 512)
    assert aged.mean_descriptors == 28 * 512
    assert aged.mean_ms == pytest.approx(10 + 0.1 * (28 * 512 - 28))
    assert aged.estimated


def test_a_cache_that_was_aged_before_is_not_aged_once_more() -> None:
    """A live release's pods are not fresh when more replicas make it be checked again."""
    used = Figures(2, mean_ms=27.0, p90_ms=30.0, mean_bytes=8.4e6, mean_descriptors=256, mean_post_ms=15.0)
    aged = estimate_aged(used, 8 * 32)
    assert (aged.mean_ms, aged.mean_descriptors) == (27.0, 256)
