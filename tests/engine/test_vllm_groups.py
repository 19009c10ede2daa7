"""vLLM's own command line understands what the pods of an engine over several nodes are told."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from components.serving.group_nodes import LEADER, PLACE
from components.serving.groups import group_spec
from tests.engine.test_vllm_geometry import python_of_vllm
from tests.unit.plans import model_config
from tests.unit.test_release import build
from tests.unit.test_settings import values
from tools.cache import cache
from tools.localcluster.model import config as tiny_config

HERE = Path(__file__).resolve().parent
ADDRESS = "decode-a-0.decode-a-0.splitserve"
SHAPES: dict[str, dict[str, Any]] = {
    "tensor": {"tensor": 2, "nodes": 2},
    "pipeline": {"pipeline": 2, "nodes": 2},
    "copies-over-nodes": {"tensor": 2, "data": 2, "nodes": 4, "expert": True},
    "copies-on-nodes": {"tensor": 1, "data": 4, "nodes": 2, "expert": True, "allToAll": "deepep_low_latency"},
}


def told(parallel: dict[str, Any]) -> list[list[str]]:
    """Each pod's arguments, as the controller and the kubelet fill them in."""
    release = build({**values(), "topology": "collocated", "collocated": {"engine": {"parallel": parallel}}})
    template = group_spec(release.id, "collocated", release.pods["collocated"], release.groups["collocated"])
    pods = [template["leaderWorkerTemplate"][name]["spec"]["containers"][0]["args"]
            for name in ("leaderTemplate", *["workerTemplate"] * (parallel["nodes"] - 1))]  # fmt: skip
    return [
        [part.replace(LEADER, ADDRESS).replace(PLACE, str(place)) for part in args] for place, args in enumerate(pods)
    ]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """vLLM's by shape and pod; of a tiny dense model, or of one with experts."""
    found: dict[str, dict[str, Any]] = {}
    for experts in (False, True):
        folder = tmp_path_factory.mktemp("model")
        content = model_config("mixtral-8x7b-v0.1") if experts else tiny_config()
        (folder / "config.json").write_text(json.dumps(content))
        shapes = {name: shape for name, shape in SHAPES.items() if bool(shape.get("expert")) is experts}
        cases = [{"name": f"{name}-{place}", "args": args}
                 for name, shape in shapes.items() for place, args in enumerate(told(shape))]  # fmt: skip
        cases.append({"name": "nonsense", "args": ["--nnodes", "3", "--tensor-parallel-size", "2"]})
        done = subprocess.run(
            [python_of_vllm(), HERE / "vllm_groups.py", folder], input=json.dumps(cases), capture_output=True, text=True,
            cwd=folder, env={**os.environ, "PYTHONPATH": str(cache().layout().vllm), "PYTHONDONTWRITEBYTECODE": "1"},
        )  # fmt: skip
        said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        assert len(said) == len(cases), done.stderr[-2000:]
        found |= {line["name"]: line for line in said}
    return found


def pods(name: str, answers: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [answers[f"{name}-{place}"] for place in range(SHAPES[name]["nodes"])]


def test_vllm_refuses_nodes_that_do_not_divide_the_ranks(answers: dict[str, dict[str, Any]]) -> None:
    assert "must evenly divide" in answers["nonsense"]["error"]


@pytest.mark.parametrize("name", SHAPES)
def test_every_pod_knows_its_place_and_where_the_first_is(name: str, answers: dict[str, dict[str, Any]]) -> None:
    found = pods(name, answers)
    assert all("error" not in pod for pod in found), found
    assert [pod["rank"] for pod in found] == list(range(SHAPES[name]["nodes"]))
    assert {pod["nodes"] for pod in found} == {SHAPES[name]["nodes"]}
    assert {pod["master"] for pod in found} == {f"{ADDRESS}:29501"}
    assert [pod["headless"] for pod in found] == [False, *[True] * (len(found) - 1)]
    assert {pod["backend"] for pod in found} <= {"mp", "uni"}


@pytest.mark.parametrize(
    ("name", "within_copy", "copies", "first"),
    [
        ("tensor", [0, 1], 1, [0, 0]),
        ("pipeline", [0, 1], 1, [0, 0]),
        ("copies-over-nodes", [0, 1, 0, 1], 1, [0, 0, 1, 1]),
        ("copies-on-nodes", [0, 0], 2, [0, 2]),
    ],
)
def test_ranks_and_copies_lie_where_the_plan_says(
    name: str, within_copy: list[int], copies: int, first: list[int], answers: dict[str, dict[str, Any]]
) -> None:
    found = pods(name, answers)
    assert [pod["rank_within_copy"] for pod in found] == within_copy
    assert {pod["copies_on_node"] for pod in found} == {copies}
    assert [pod["first_copy"] for pod in found] == first


@pytest.mark.parametrize("name", ["copies-over-nodes", "copies-on-nodes"])
def test_copies_on_other_nodes_register_with_the_first(name: str, answers: dict[str, dict[str, Any]]) -> None:
    for pod in pods(name, answers):
        assert (pod["data"], pod["experts"]) == (f"{ADDRESS}:29550", True)
