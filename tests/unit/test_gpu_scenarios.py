"""The harness of tests/gpu, tried with stand-ins for vLLM: a slip must not cost minutes of GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.ports import free_port
from tests.unit.stand_ins import interpreter
from tools.gpu import scenarios
from tools.gpu.engines import NO_PEER_ACCESS, Engine, NotReady, Spec, pair, serving
from tools.gpu.models import make
from tools.gpu.scenarios import SCENARIOS, Scenario, faults, run, specs


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make("tiny", tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def engines(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Engine]]:
    folder = tmp_path_factory.mktemp("engines")
    wanted = {name: replace(spec, port=free_port()) for name, spec in specs(model).items()}
    with (
        pytest.MonkeyPatch.context() as patch,
        serving(list(wanted.values()), folder, interpreter(folder, patch)) as found,
    ):
        yield dict(zip(wanted, found, strict=True))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name.replace(" ", "-"))
def test_each_scenario_is_run_and_judged(
    scenario: Scenario, engines: dict[str, Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scenarios, "CHECK", ("-m", "tests.unit.quick_check"))
    found = run(scenario, engines)
    assert not faults(scenario, found), found


def test_a_wrong_verdict_is_told_in_full() -> None:
    scenario = Scenario("x", "p", "d", 1, ("slow-link",), ("fix peer access",), "tcp")
    found: dict[str, Any] = {"code": 0, "cause": "fast", "message": "", "topology": {"path": "peer-access"}}
    assert [line.partition(":")[0] for line in faults(scenario, found)] == ["exit code", "cause", "answer", "way"]


def test_a_command_line_holds_what_the_machine_needs(model: Path) -> None:
    prefill, decode = pair(model, port=8100, block_size=16, environment=NO_PEER_ACCESS)
    words = " ".join(decode.command())
    for part in ("serve", "--enforce-eager", "--load-format dummy", "--attention-backend FLASH_ATTN", "--block-size 16",
                 "--num-gpu-blocks-override 5121", "--max-num-seqs 128", '"kv_role": "kv_consumer"', '"kv_connector": "NixlConnector"'):  # fmt: skip
        assert part in words
    assert (prefill.variables()["CUDA_VISIBLE_DEVICES"], decode.variables()["CUDA_VISIBLE_DEVICES"]) == ("0,1", "1,0")
    assert prefill.variables()["VLLM_NIXL_SIDE_CHANNEL_PORT"] != decode.variables()["VLLM_NIXL_SIDE_CHANNEL_PORT"]
    assert decode.variables()["UCX_TLS"].startswith("tcp") and decode.variables()["UCX_PROTO_INFO"] == "y"
    assert decode.cache_bytes() > 81_920 * 1024, "4 layers x 2 heads x 32 x 2 x 2 bytes a token"
    assert "--kv-transfer-config" not in Spec("decode", model, 1, 8101, connector=None).command()


def test_an_engine_that_ends_says_its_last_lines_and_leaves_nothing_running(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "python"
    path.write_text("#!/bin/sh\necho 'ImportError: no torch'\nexit 3\n")
    path.chmod(0o755)
    with (
        pytest.raises(NotReady, match="exit code 3:\nImportError: no torch"),
        serving(pair(model, port=free_port()), tmp_path, str(path)),
    ):
        pass


def test_one_that_takes_too_long_is_ended(model: Path, tmp_path: Path) -> None:
    path = tmp_path / "python"
    path.write_text("#!/bin/sh\nsleep 60\n")
    path.chmod(0o755)
    engine = Engine(Spec("decode", model, 0, free_port()), tmp_path, str(path))
    with pytest.raises(NotReady, match="not ready within 1 s"):
        engine.wait_ready(1)
    engine.stop()
    assert engine.process.poll() is not None
