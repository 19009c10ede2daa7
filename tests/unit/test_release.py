"""A release's id follows from what is served, and from nothing else."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from components.release.release import Release, build_release
from components.serving.spec import ModelSource, ModelSpec
from infra.serving_spec import serving_spec
from infra.settings import load
from tests.unit.test_settings import changed, values

MODEL = ModelSpec("tiny", ModelSource(folder="/models/tiny"), "digest", 8192, 2048)


def build(settings: dict[str, Any] | None = None, model: ModelSpec = MODEL) -> Release:
    return build_release(serving_spec(load(settings or values(), "test"), model, "image:1"))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("decode.replicas", 3),
        ("router.replicas", 2),
        ("gate.limitMs", 50.0),
        ("rollout.strategy", "swap"),
        ("edge.port", 8000),
        ("platform.context", "another"),
    ],
)
def test_capacity_gate_and_edge_are_no_part_of_a_release(path: str, value: Any) -> None:
    assert build(changed(path, value)).id == build().id


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("note", "again"),
        ("engine.blockSize", 64),
        ("decode.extraArgs", ["--seed", "1"]),
        ("prefill.environment", {"A": "b"}),
        ("router.policy", "random"),
        ("topology", "collocated"),
    ],
)
def test_what_is_served_makes_another_release(path: str, value: Any) -> None:
    assert build(changed(path, value)).id != build().id


def test_other_weights_make_another_release() -> None:
    other = ModelSpec("tiny", MODEL.source, "another digest", 8192, 2048)
    assert build(model=other).id != build().id


def test_a_release_survives_json() -> None:
    release = build()
    assert Release.from_json(copy.deepcopy(release.to_json())) == release


def test_the_users_arguments_come_last_so_that_they_win() -> None:
    release = build(changed("decode.extraArgs", ["--kv-transfer-config", "{}"]))
    assert release.pods["decode"]["containers"][0]["args"][-2:] == ["--kv-transfer-config", "{}"]


@pytest.mark.parametrize("tier", ["prefill", "decode", "router"])
def test_no_pod_may_gain_privileges(tier: str) -> None:
    pod = build().pods[tier]
    security = pod["containers"][0]["securityContext"]
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert pod["securityContext"]["runAsNonRoot"] is True


@pytest.mark.parametrize("tier", ["prefill", "decode"])
def test_an_engine_may_drain_before_it_is_killed(tier: str) -> None:
    pod = build().pods[tier]
    arguments = pod["containers"][0]["args"]
    drain_s = int(arguments[arguments.index("--shutdown-timeout") + 1])
    assert (
        pod["terminationGracePeriodSeconds"]
        > drain_s + pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    )


def test_both_engines_are_told_the_same_model_words() -> None:
    pods = build().pods
    assert pods["prefill"]["containers"][0]["command"] == pods["decode"]["containers"][0]["command"]
