"""Metrics pages become figures, figures become signals, and flags are checked."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram, generate_latest

from components.autoscaler.history import Capacity, PodHistory
from components.autoscaler.settings import Bounds, parse
from components.autoscaler.signals import Page, Sample, quantile, read_page, read_signals

REAL = (Path(__file__).parent / "scrapes" / "vllm-0.32-decode.prom").read_text()
"""The cores are shared: a slow example is no finding."""
ENGINES = """
vllm:num_requests_running{engine="0"} 3.0
vllm:num_requests_running{engine="1"} 1.0
vllm:num_requests_waiting{engine="0"} 5
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 1
vllm:num_requests_waiting_by_reason{engine="0",reason="deferred"} 4
vllm:kv_cache_usage_perc{engine="0"} 0.5
vllm:kv_cache_usage_perc{engine="1"} 0.1
"""


def test_a_real_decoder_is_read() -> None:
    page = read_page(REAL)
    assert (page.running, page.waiting, page.queue, page.held) == (0.0, 0.0, 0.0, 0.0)
    assert page.computed_tokens == 48.0, "what the decoder computed itself, not what it received"
    assert page.kv_usage is None, "the page was taken without it: a missing figure is not a zero"
    assert page.itl == {}
    readings = read_signals([Sample(page, page, 0.0)], {"kv_usage": 0.7, "queue": 2.0, "itl_p99_s": 0.05})
    assert [(r.name, r.value, r.pods) for r in readings] == [("queue", 0.0, 1)]


def test_engines_of_one_pod_are_taken_together_and_requests_that_wait_for_kv_are_no_queue() -> None:
    page = read_page(ENGINES)
    assert (page.running, page.queue, page.waiting, page.held) == (4.0, 1.0, 5.0, 9.0)
    assert (page.kv_usage, page.kv_usage_max) == (pytest.approx(0.3), 0.5)


@pytest.mark.parametrize(
    "text", ["", "# HELP x", "vllm:num_requests_running NaN", "vllm:num_requests_running{ x", "\0"]
)
def test_a_page_without_figures_says_nothing(text: str) -> None:
    assert read_page(text).says_nothing


@given(st.text())
def test_no_page_breaks_the_reader(text: str) -> None:
    read_page(text)
    read_page(f"vllm:kv_cache_usage_perc{text}\nprocess_cpu_seconds_total {text}")


@given(st.lists(st.floats(0.001, 9.9), min_size=1, max_size=50), st.sampled_from([0.5, 0.9, 0.99]))
def test_a_quantile_lies_in_the_bucket_of_the_true_one(times: list[float], share: float) -> None:
    bounds = (0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 2.5, 10.0)
    registry = CollectorRegistry()
    histogram = Histogram("vllm:inter_token_latency_seconds", "x", registry=registry, buckets=bounds)
    before = read_page(generate_latest(registry).decode()).itl
    for seconds in times:
        histogram.observe(seconds)
    found = quantile([(before, read_page(generate_latest(registry).decode()).itl)], share)
    true = sorted(times)[math.ceil(share * len(times) - 1e-9) - 1]
    upper = next(bound for bound in bounds if true <= bound)
    lower = max((bound for bound in bounds if bound < true), default=0.0)
    assert found is not None
    assert lower - 1e-9 <= found <= upper + 1e-9


def test_a_latency_that_nobody_waited_for_is_no_signal() -> None:
    page = Page(ttft={0.1: 5.0, math.inf: 9.0})
    assert read_signals([Sample(page, page, 30.0)], {"ttft_p90_s": 1.0}) == []


def test_rates_need_two_pages_and_latencies_only_what_came_between() -> None:
    first = Page(cpu_s=10.0, http_s=1.0, ttft={0.1: 5.0, 1.0: 5.0, math.inf: 5.0})
    last = Page(cpu_s=16.0, http_s=31.0, ttft={0.1: 5.0, 1.0: 15.0, math.inf: 15.0})
    targets = {"cpu": 0.5, "in_flight": 2.0, "ttft_p90_s": 0.4}
    assert read_signals([Sample(last, last, 0.0)], targets) == []
    found = {r.name: r.value for r in read_signals([Sample(last, first, 10.0)], targets)}
    assert found == {"cpu": pytest.approx(0.6), "in_flight": pytest.approx(3.0), "ttft_p90_s": pytest.approx(0.91)}


def test_what_a_prefill_pod_can_do_is_learned_while_it_has_a_queue() -> None:
    capacity = Capacity()
    idle, busy = Page(queue=0.0, computed_tokens=0.0), Page(queue=3.0, computed_tokens=0.0)
    for _ in range(20):
        capacity.observe(Sample(replace(idle, computed_tokens=100.0), idle, 5.0))
    assert capacity.tokens_per_s is None, "an idle pod shows no limit"
    for _ in range(6):
        capacity.observe(Sample(replace(busy, computed_tokens=5000.0), busy, 5.0))
    assert capacity.tokens_per_s == pytest.approx(1000.0)
    sample = Sample(Page(computed_tokens=3500.0), Page(computed_tokens=0.0), 10.0)
    (reading,) = read_signals([sample], {"utilisation": 0.7}, capacity.tokens_per_s)
    assert reading.value == pytest.approx(0.35)
    assert Capacity(2000.0).tokens_per_s == 2000.0


def test_a_container_that_started_anew_begins_its_rates_again() -> None:
    history = PodHistory(60.0)
    assert history.add(0.0, Page(cpu_s=100.0)) is None
    assert history.add(5.0, Page(cpu_s=101.0)) is not None
    assert history.add(10.0, Page(cpu_s=0.5)) is None
    assert history.sample().seconds == 0.0
    history.add(15.0, Page(cpu_s=2.5))
    assert history.sample() == Sample(Page(cpu_s=2.5), Page(cpu_s=0.5), 5.0)


def test_flags_become_settings() -> None:
    found = parse(
        ["--tier", "prefill=1:4", "--tier=decode=2:8", "--ratio-min=0.25", "--target", "decode.itl_p99_s=0.05",
         "--target", "prefill.queue=0", "--render-port", "9000"]
    )  # fmt: skip
    assert found.tiers == {"prefill": Bounds(1, 4), "decode": Bounds(2, 8)}
    assert found.targets["decode"]["itl_p99_s"] == 0.05
    assert found.targets["prefill"]["queue"] == 0.0
    assert found.ratio == (0.25, math.inf)
    assert (found.port("render"), found.port("decode")) == (9000, 8000)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([], "at least one tier"),
        (["--tier", "router=1:2"], "wanted one of prefill"),
        (["--tier", "decode=0:2"], "1 <= MIN"),
        (["--tier", "decode=3:2"], "1 <= MIN"),
        (["--tier", "decode=1:2", "--target", "decode.luck=1"], "decode.kv_usage"),
        (["--tier", "decode=1:2", "--target", "decode.queue=many"], "wanted a number"),
        (["--tier", "render=1:2", "--target", "render.cpu=0"], "every signal of render is switched off"),
        (["--tier", "decode=1:2", "--ratio-min", "1"], "need both"),
        (["--tier", "decode=1:2", "--tier", "prefill=4:8", "--ratio-max", "1"], "no sizes within"),
        (["--tier", "decode=4:8", "--tier", "prefill=1:2", "--ratio-min", "1"], "no sizes within"),
        (["--tier", "decode=1:2", "--tier", "prefill=1:2", "--ratio-min", "2", "--ratio-max", "1"], "min <= max"),
        (["--tier", "decode=1:2", "--period-s", "0"], "--period-s"),
        (["--tier", "decode=1:2", "--rate-window-s", "5"], "two periods"),
    ],
)
def test_flags_that_can_not_work_are_refused_with_the_way_out(flags: list[str], words: str) -> None:
    with pytest.raises(SystemExit, match=words):
        parse(flags)


def test_a_gauge_is_averaged_over_its_window_and_a_counter_is_not() -> None:
    history = PodHistory(60.0, average_s=10.0)
    for now, queue in ((0.0, 100.0), (5.0, 0.0), (10.0, 4.0), (15.0, 2.0)):
        history.add(now, Page(queue=queue, kv_usage=queue / 100, computed_tokens=now * 10))
    sample = history.sample()
    assert (sample.last.queue, sample.last.kv_usage) == pytest.approx((2.0, 0.02))
    assert (sample.last.computed_tokens, sample.seconds) == (150.0, 15.0)
