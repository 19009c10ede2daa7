"""The tiny models with recurrent states: the same each time, with the shapes of their configs, and deployable."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.hardware.read_geometry import read_geometry
from infra.read_plan import read_plan
from tests.cluster.test_topologies_hybrid import MODEL, hybrid
from tests.unit.plans import stack_values
from tools.localcluster.hybrid_model import HIDDEN, LAYERS, MODELS, make_hybrid

CORPUS = "the licensor grants the licensee what the licence says. " * 40


@pytest.mark.parametrize("kind", MODELS)
def test_the_made_model_is_the_same_each_time_and_has_every_layer(kind: str) -> None:
    config, weights = MODELS[kind]
    first, second = weights(), weights()
    assert all((first[name] == second[name]).all() for name in first)
    assert {name.split(".")[2] for name in first if ".layers." in name} == {str(n) for n in range(LAYERS)}
    assert all(tensor.shape[-1] == HIDDEN for name, tensor in first.items() if "in_proj" in name or "q_proj" in name)
    geometry = read_geometry(config())
    assert geometry.has_state and sum(group.layers for group in geometry.groups) == LAYERS


def test_the_cluster_test_s_stack_breaks_no_rule(tmp_path: Path) -> None:
    values = {f"splitserve:{key}": value for key, value in stack_values("local").items()}
    hybrid(values)
    make_hybrid(MODEL, tmp_path / ".local/models" / MODEL, CORPUS)
    own = {key.removeprefix("splitserve:"): value for key, value in values.items()}
    plan, _, _ = read_plan(own, tmp_path, "local")  # raises with what breaks a rule
    assert plan.geometry and plan.geometry.has_state
