"""The encoder connectors' configurations, read by vLLM's own class, and their options and variables in its sources."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from components.serving.encoder_connectors.profiles import PROFILES
from components.serving.spec import EncoderSpec, ResourceSpec
from tests.engine.test_vllm_geometry import python_of_vllm
from tools.cache import cache

HERE = Path(__file__).parent
SPEC = EncoderSpec("image", "", 5601, 2.0, ResourceSpec("1", "1Gi"), {}, (), 600, 45, 700)
SIDES = ("producer", "consumer")
CASES = [
    {"ec_connector": profile.vllm_class, "ec_role": f"ec_{side}", "ec_connector_extra_config": profile.options(SPEC)}
    for profile in PROFILES.values()
    for side in SIDES
]


@pytest.fixture(scope="module")
def said() -> list[dict[str, Any]]:
    run = subprocess.run(
        [python_of_vllm(), HERE / "vllm_encoder_connectors.py"], input=json.dumps(CASES), capture_output=True, text=True,
        cwd=HERE.parents[1], timeout=300,
        env={**os.environ, "PYTHONPATH": str(cache().layout().vllm), "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]


def test_vllm_refuses_fields_that_it_does_not_have(said: list[dict[str, Any]]) -> None:
    """Else the test below would prove nothing."""
    assert said[-1]["refuses"]


def test_vllm_reads_each_side_as_it_is_meant(said: list[dict[str, Any]]) -> None:
    for case, found in zip(CASES, said[:-1], strict=True):
        producer = case["ec_role"] == "ec_producer"
        assert (found["producer"], found["consumer"], found["encode_only"]) == (producer, not producer, producer)


def test_the_connectors_read_the_options_and_the_variables_are_vllm_s(said: list[dict[str, Any]]) -> None:
    for number, profile in enumerate(PROFILES.values()):
        for found in said[2 * number : 2 * number + 2]:
            assert set(profile.options(SPEC)) <= set(found["words"]), found["module"]
        own = {name for side in profile.environment.values() for name in side if name.startswith("VLLM_")}
        assert own <= set(said[-1]["variables"])


def test_the_sources_are_files_of_vllm() -> None:
    folder = Path(cache().layout().vllm) / "vllm/distributed/ec_transfer/ec_connector"
    assert all((folder / source).is_file() for profile in PROFILES.values() for source in profile.sources)
