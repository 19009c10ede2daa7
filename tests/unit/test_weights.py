"""The size of a model's weights, against published counts, and whether it fits a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from components.hardware import known_models
from components.hardware.catalogue import instance
from components.hardware.known_models import known_model
from components.hardware.memory import fit, load_s, smallest_tp
from components.hardware.model_config import ModelUnknown
from components.hardware.read_geometry import read_geometry
from components.hardware.weights import parameters, weights_bytes


def published() -> list[tuple[str, float]]:
    """(name, billions of parameters) from the table of the models' own page."""
    rows = (Path(known_models.__file__).parent / "models/README.md").read_text().splitlines()
    cells = [[cell.strip() for cell in row.split("|")] for row in rows if row.startswith("| `")]
    return [(row[1].split("`")[1], float(row[3])) for row in cells]


@pytest.mark.parametrize(("name", "billions"), published())
def test_weights_are_counted_from_shapes_within_two_percent(name: str, billions: float) -> None:
    assert parameters(known_model(name)) / 1e9 == pytest.approx(billions, rel=0.02)


@pytest.mark.parametrize(
    ("quantization", "gigabytes"),
    [(None, 16.1), ({"quant_method": "fp8"}, 8.0), ({"quant_method": "gptq", "bits": 4}, 4.0)],
)
def test_quantized_weights_are_smaller(quantization: dict[str, Any] | None, gigabytes: float) -> None:
    config = known_model("llama-3.1-8b") | {"quantization_config": quantization}
    assert weights_bytes(config) / 1e9 == pytest.approx(gigabytes, abs=0.1)


def test_an_unknown_quantization_is_refused() -> None:
    with pytest.raises(ModelUnknown, match="how large weights of `mystery` are is unknown"):
        weights_bytes(known_model("llama-3.1-8b") | {"quantization_config": {"quant_method": "mystery"}})


@pytest.mark.parametrize(("name", "gpus"), [("p4d.24xlarge", 4), ("p5.48xlarge", 2), ("p6-b200.48xlarge", 1)])
def test_a_70b_model_needs_as_many_gpus_as_hold_it(name: str, gpus: int) -> None:
    config, found = known_model("llama-3.1-70b"), instance(name)
    assert found.gpu_memory_mib
    needed = smallest_tp(weights_bytes(config), read_geometry(config), found.gpu_memory_mib, found.gpus, "bfloat16",
                         8192, 8192)  # fmt: skip
    assert needed == gpus


def test_what_no_node_holds_is_said_so() -> None:
    config = known_model("deepseek-v3")
    assert smallest_tp(weights_bytes(config), read_geometry(config), 40960, 8, "bfloat16", 7168, 8192) is None


def test_more_gpus_leave_more_room() -> None:
    config = known_model("qwen3-32b")
    rooms = [
        fit(weights_bytes(config), read_geometry(config), 81920, tp, "bfloat16", 5120).kv_tokens for tp in (1, 2, 4)
    ]
    assert rooms == sorted(rooms) and rooms[0] < rooms[-1]


def test_weights_take_bytes_over_rate_to_load() -> None:
    assert load_s(141_000_000_000, 0.5) == 282
