"""The benchmarks of GPUs, run at a small size on stand-ins for vLLM: each ends with its line of JSON."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu import gate_cost, goodput, transfer
from benchmarks.gpu.load_generator import Subject, offer
from components.bench.load import Load, Targets
from components.release import probe
from tests.unit.fake_vllm import Engine, Server, serving
from tests.unit.gpu_stand_in import streamed
from tests.unit.ports import free_port
from tests.unit.stand_ins import interpreter
from tools.gpu.models import make

SMALL = Load(prompt_tokens=256, output_tokens=8, requests=6)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make("tiny", tmp_path_factory.mktemp("models"))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "SETTLE_LIMIT_S", 0.5)
    monkeypatch.setattr(probe, "SETTLED_LIMIT_S", 0.2)
    monkeypatch.setattr(gate_cost, "CHECK", ("-m", "tests.unit.quick_check"))


def line(folder: Path, name: str) -> dict[str, Any]:
    [text] = (folder / f"{name}.jsonl").read_text().splitlines()
    return json.loads(text)


def test_transfers_are_measured_fresh_aged_and_against_their_estimate(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "FRESH", {8192: 2, 16_384: 1})
    monkeypatch.setattr(transfer, "AGED", {8192: 2, 16_384: 1})
    transfer.run(["tiny-16"], model.parent, tmp_path, 1.5, port=free_port(), python=interpreter(tmp_path, monkeypatch))
    found = line(tmp_path, "transfer")
    assert (found["case"], found["block"], found["path"]) == ("tiny-16", 16, "peer-access")
    assert [row["tokens"] for row in found["rows"]] == [8192, 16_384]
    first = found["rows"][0]
    assert first["fresh"]["bytes"] == first["aged"]["bytes"] == 8192 * 1024
    assert (first["fresh"]["descriptors"], first["aged"]["descriptors"]) == (4, 4 * 512)
    assert first["fresh"]["mean_ms"] == pytest.approx(3.004) and first["aged"]["mean_ms"] == pytest.approx(5.048)
    assert first["aged_by"]["complete"] and first["aged_more_by"]["complete"]
    # The stand-in's post takes 1 ms for 4 pieces: its estimate is far off, and said to be.
    assert first["estimate_error"]["aged"] == pytest.approx(
        first["estimate_ms"] / first["aged"]["mean_ms"] - 1, abs=0.01
    )


def test_goodput_of_split_and_collocated_engines_is_compared_with_what_advise_says(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goodput.run(
        model, tmp_path, SMALL, (20.0, 40.0), (512, 2048), port=free_port(), python=interpreter(tmp_path, monkeypatch)
    )
    found = line(tmp_path, "goodput")
    assert [one["stack"] for one in found["sides"]] == ["split", "collocated-512", "collocated-2048"]
    assert all(point["requests"] == 6 and point["failed"] == 0 for one in found["sides"] for point in one["points"])
    assert found["strongest"] in ("collocated-512", "collocated-2048")
    assert found["comparison"]["choice"] == "measure", "six requests bear no choice"
    assert set(found["advice_by_rate"]) == {"20", "40"} and found["transfer_ms"] == pytest.approx(3.004)


def test_the_gates_cost_is_its_time_and_what_live_traffic_pays(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = replace(SMALL, requests=20)
    gate_cost.run(model, tmp_path, load, 10.0, samples=2, port=free_port(), python=interpreter(tmp_path, monkeypatch))
    found = line(tmp_path, "gate_cost")
    assert (found["verdict_idle"]["outcome"], found["verdict_idle"]["cause"]) == ("pass", "fast")
    assert found["verdict_idle"]["seconds"] > 0 and found["verdict_not_aged"]["aged_is_estimated"]
    assert [row["requests"] for row in found["traffic"].values()] == [20, 20, 20]
    assert all(row["failed"] == 0 for row in found["traffic"].values())
    assert found["traffic"]["alone"]["checks"] == 0 and found["traffic"]["samples"]["checks"] > 0
    assert set(found["itl_p99_more"]) == set(found["within_aim"])


def test_every_case_names_a_shape_and_lengths_that_its_cache_holds() -> None:
    for name, case in transfer.CASES.items():
        assert case.shape in ("qwen2.5-7b", "llama-70b-cache", "tiny"), name
        fresh = sum((transfer.FRESH[tokens] + 1) * tokens for tokens in case.tokens)
        assert fresh <= case.cache_tokens, f"{name}: its fresh samples would wrap the cache"


def slow_stream(request: Any, body: dict[str, Any] | None) -> tuple[int, str]:
    assert body is not None
    return 200, streamed(body["max_tokens"])


def test_a_generator_times_tokens_and_counts_what_fails() -> None:
    load = Load(32, 4, 5)
    with serving(Server(Engine(), answers=slow_stream), Server(Engine(), answers=lambda *_: (500, {}))) as (good, bad):
        run = asyncio.run(offer(Subject("x", (good.url, bad.url)), load, 50.0, 1))
        short = asyncio.run(offer(Subject("x", (good.url,)), replace(load, output_tokens=4), 50.0, 1))
        silent = asyncio.run(offer(Subject("x", (bad.url,), (good.url,)), load, 50.0, 1))
    assert [one.error is None for one in run.requests] == [True, False, True, False, True]
    assert all(len(one.gaps_ms) == 3 and one.ttft_ms > 0 for one in short.requests)
    assert all("500" in str(one.error) for one in silent.requests)
    assert Targets(1, 1).share == 0.99


def test_the_strongest_collocated_engines_are_the_baseline() -> None:
    targets = Targets(2000.0, 50.0)

    def point(met: int, itl_ms: float) -> Any:
        return goodput.point(1.0, [], targets).__class__(
            1.0, 100, 0, met, met, met, 1.0, 1.0, 1.0, itl_ms, 1.0, 1.0, False
        )

    weak, strong = goodput.side("collocated-512", [point(10, 9.0)]), goodput.side("collocated-2048", [point(100, 20.0)])
    assert goodput.best([weak, strong], targets) is strong
    even = goodput.side("collocated-256", [point(100, 10.0)])
    assert goodput.best([strong, even], targets) is even, "at equal goodput the lower ITL"
