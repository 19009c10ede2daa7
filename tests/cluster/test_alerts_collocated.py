"""Alerts of vllm-router's circuit breaker and health checks, which it has before collocated engines alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import faults
from tests.cluster.alerting import Watch, limits_of, noted, watching
from tests.cluster.asking import Record, pods_of, shaped
from tools.deployment import Deployment

pytestmark = pytest.mark.nightly
AT_ONCE = 4
BREAKER = "vllm-router: circuit breaker"


@pytest.fixture(scope="module")
def stack(deployment: Deployment) -> Deployment:
    def two(settings: dict[str, Any]) -> None:
        shaped("collocated", 0)(settings)
        settings["splitserve:note"] = "alerts, collocated"
        settings["splitserve:collocated"] = {"replicas": 2}

    finished = deployment.up(two)
    assert finished.code == 0, finished.text
    return deployment


@pytest.fixture
def watch(stack: Deployment, tmp_path: Path) -> Iterator[Watch]:
    with watching(stack, tmp_path, limits_of(stack, parts=frozenset({"vllm-router"}))) as watch:
        yield watch


def test_one_of_two_engines_can_not_be_reached(stack: Deployment, watch: Watch, record_property: Record) -> None:
    """Its health checks come once a minute, and three must fail."""
    outputs = stack.outputs()
    [router], [engine, _] = pods_of(stack, "router"), pods_of(stack, "collocated")

    def ask() -> None:
        faults.ask(outputs["endpoint"], outputs["model"])

    with faults.load(outputs["endpoint"], outputs["model"], AT_ONCE, tokens=1):
        names = ["RouterCircuitOpen", "RouterEngineUnhealthy"]
        times = watch.all_fire(names, faults.refused(router, engine), ask, ask)
    noted(record_property, times)
    assert BREAKER not in watch.empty_graphs(limits_of(stack))
