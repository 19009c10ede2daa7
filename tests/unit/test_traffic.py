"""Split or stay collocated: the guide's advice, with its reasons."""

from __future__ import annotations

from dataclasses import replace

import pytest

from components.hardware.traffic import Traffic, advise

LONG = Traffic(8192, 400, rate_per_s=2.0, ttft_target_ms=2000, itl_p99_target_ms=60, collocated_itl_p99_ms=263)


def test_a_missed_itl_target_with_long_prompts_and_a_fast_link_is_split() -> None:
    found = advise(LONG, transfer_ms=25, limit_ms=100)
    assert found.choice == "split"
    assert "collocated ITL p99 263 ms misses its 60 ms target" in found.reasons


@pytest.mark.parametrize(
    ("traffic", "transfer_ms", "reason"),
    [
        (LONG, 1300, "KV transfer is slow: 1300 ms expected"),
        (replace(LONG, ttft_target_ms=200), 60, "TTFT binds: the transfer alone takes 30%"),
        (replace(LONG, rate_per_s=0.2), 25, "traffic is low"),
        (replace(LONG, burstiness=5), 25, "traffic is bursty"),
        (replace(LONG, itl_p99_target_ms=None), 25, "TTFT is the only target"),
    ],
)
def test_what_speaks_against_a_split_wins(traffic: Traffic, transfer_ms: float, reason: str) -> None:
    found = advise(traffic, transfer_ms, 100)
    assert found.choice == "collocated"
    assert any(reason in text for text in found.reasons), found.reasons


@pytest.mark.parametrize(
    ("traffic", "transfer_ms", "reason"),
    [
        (LONG, None, "the KV transfer time is unknown"),
        (replace(LONG, collocated_itl_p99_ms=None), 25, "is not stated: measure it"),
        (Traffic(500, 100, 5), 25, "nothing in this profile asks for a split"),
    ],
)
def test_what_is_not_known_is_to_be_measured_first(traffic: Traffic, transfer_ms: float | None, reason: str) -> None:
    found = advise(traffic, transfer_ms, 100)
    assert found.choice == "measure"
    assert any(reason in text for text in found.reasons), found.reasons


def test_growing_contexts_want_a_shared_cache_and_cpu_work_a_render_tier() -> None:
    found = advise(replace(LONG, growing_context=True, cpu_bound=True), 25, 100)
    assert found.shared_cache and found.render_tier
