"""Prometheus text, the file for a collector, and checks that are repeated."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from components.release import probe
from infra.commands import check as command
from tests.unit.check_runs import QUICK, on, run
from tests.unit.fake_vllm import Engine, serving


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "SETTLE_LIMIT_S", 0.5)
    monkeypatch.setattr(probe, "SETTLED_LIMIT_S", 0.2)


def samples(text: str) -> dict[tuple[str, tuple[str, ...]], float]:
    """{(series, label values by name of label): value}."""
    return {
        (sample.name, tuple(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_prometheus_text_has_figures_by_pair_and_the_verdict(tmp_path: Path) -> None:
    file = tmp_path / "check.prom"
    with serving(Engine(), Engine(aged_ms=40.0)) as (prefill, decode):
        urls = ("--prefill", prefill.url, "--decode", decode.url)
        ran = run(*urls, *QUICK, "--format", "prometheus", "--prometheus-file", str(file))
        from_, to = (url.partition("://")[2] for url in (prefill.url, decode.url))
    assert ran.code == 0
    found = samples(ran.out)
    assert found["splitserve_check_kv_transfer_seconds", (to, "fresh", from_)] == pytest.approx(0.02)
    assert found["splitserve_check_kv_transfer_seconds", (to, "aged", from_)] == pytest.approx(0.04)
    assert found["splitserve_check_kv_transfer_bytes", (to, "fresh", from_)] == 128 * 1024
    assert found["splitserve_check_verdict", ("pass",)] == 1
    assert found["splitserve_check_verdict", ("inconclusive",)] == 0
    assert found["splitserve_check_cause", ("consistency", "fast")] == 1
    assert file.read_text() == ran.out
    assert [path.name for path in tmp_path.iterdir()] == ["check.prom"]


def test_what_can_not_be_measured_is_written_too_so_that_no_old_pass_stays(tmp_path: Path) -> None:
    file = tmp_path / "check.prom"
    ran = run(
        "--prefill", "http://127.0.0.1:1", "--decode", "http://127.0.0.1:2", "--prometheus-file", str(file), "--json"
    )
    assert ran.code == 2
    found = samples(file.read_text())
    assert found["splitserve_check_verdict", ("inconclusive",)] == 1
    assert found["splitserve_check_verdict", ("pass",)] == 0


def test_a_file_that_can_not_be_written_is_said() -> None:
    ran = run("--decode-log", "-", "--prometheus-file", "/no/such/folder/check.prom", stdin="\n")
    assert ran.code == 2
    assert "--prometheus-file" in ran.err


class Watched:
    """What happens between the checks of a watch; the last thing is Ctrl-C."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *between: Any) -> None:
        self.between = list(between)
        real = time.sleep
        main = threading.main_thread()

        def sleep(seconds: float) -> None:
            if seconds != 777 or threading.current_thread() is not main:
                real(seconds)
            elif self.between:
                self.between.pop(0)()
            else:
                signal.raise_signal(signal.SIGINT)

        monkeypatch.setattr(command.time, "sleep", sleep)


def test_a_watch_prints_a_line_a_check_ages_once_and_ends_with_the_last_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder, prefiller = (Engine(aged_ms=40.0, cache_blocks=1024) for _ in range(2))
    counted: list[int] = []

    def slower() -> None:
        counted.append(prefiller.tokens)
        decoder.aged_ms = 300.0

    def restart() -> None:
        counted.append(prefiller.tokens)
        decoder.aged_ms = 40.0
        decoder.restart()

    with serving(prefiller, decoder) as (prefill, decode):
        Watched(monkeypatch, slower, restart)
        ran = run("--prefill", prefill.url, "--decode", decode.url, *QUICK, "--watch", "777")
        counted.append(prefiller.tokens)
    lines = ran.out.splitlines()
    assert [line.split()[1:3] for line in lines] == [
        ["pass", "fast:"],
        ["fail", "fragmented-cache:"],
        ["pass", "fast:"],
    ]
    assert ran.code == 0
    first, second, third = counted[0], counted[1] - counted[0], counted[2] - counted[1]
    assert second < first / 2, "a cache that has aged is aged again"
    assert third > first / 2, "an engine that was started again has a fresh cache"


def test_a_watch_that_ends_on_a_failure_exits_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = Engine()

    def lose_connector() -> None:
        decoder.share = 0

    with serving(Engine(), decoder) as (prefill, decode):
        Watched(monkeypatch, lose_connector)
        ran = on(prefill, decode, "--watch", "777", "--format", "text")
    assert ran.code == 1
    assert "never-disaggregated" in ran.out.splitlines()[-1]
