"""Ways to name a cluster, and every topology, each deployed, gated and asked.

The topologies come last; test_topologies_gateway.py and test_topologies_scaled.py go on from there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra.image import LOCAL_IMAGE
from tests.cluster.asking import greedy, shaped
from tools.cache import CHECKOUT
from tools.deployment import Deployment


def test_another_kubeconfig_of_the_same_cluster_replaces_nothing(live: Deployment, tmp_path: Path) -> None:
    """A changed kubeconfig used to replace the provider and with it every resource (pulumi-kubernetes
    issues 4019, 1148, 2745). `existing` and `local` differ in defaults alone: the release is the same."""
    proved = live.outputs()["ledger"]["live"]["release"]
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text("# another text\n" + Path(live.environment["KUBECONFIG"]).read_text())

    def same(settings: dict[str, Any]) -> None:
        settings["splitserve:note"] = proved["note"]
        settings["splitserve:topology"] = proved["expectation"]["topology"]

    def existing(settings: dict[str, Any]) -> None:
        same(settings)
        settings["splitserve:platform"] = {
            "kind": "existing", "kubeconfig": str(kubeconfig), "namespace": live.namespace,
        }  # fmt: skip
        settings["splitserve:image"] = (CHECKOUT / LOCAL_IMAGE).read_text().strip()

    assert live.up(same).code == 0  # whoever was before may have had other replicas
    outputs = live.outputs()
    finished = live.up(existing)
    assert finished.code == 0, finished.text
    assert live.outputs()["live"] == outputs["live"]
    assert "measuring" not in finished.text
    assert "replac" not in finished.text


def test_a_namespace_of_somebody_else_is_left_alone(live: Deployment) -> None:
    def foreign(settings: dict[str, Any]) -> None:
        settings["splitserve:platform"]["namespace"] = "kube-system"

    before = live.outputs()
    finished = live.up(foreign)
    assert finished.code == 1
    assert "platform.namespace: found `kube-system`, which belongs to somebody else" in finished.text
    assert "Traceback" not in finished.text
    assert live.outputs() == before


SHAPES: dict[str, tuple[str, int]] = {
    "prefill-decode": ("prefill-decode", 0),
    "collocated": ("collocated", 0),
    "render+collocated": ("collocated", 1),
    "render+prefill-decode": ("prefill-decode", 1),
}
"""Topology and render replicas."""


@pytest.fixture(scope="module")
def said() -> dict[str, list[str]]:
    """What each topology said to the same prompts."""
    return {}


@pytest.mark.parametrize("shape", SHAPES)
def test_each_topology_is_a_release_that_says_what_the_others_say(
    live: Deployment, said: dict[str, list[str]], shape: str
) -> None:
    before = live.outputs()["live"]
    finished = live.up(shaped(*SHAPES[shape]))
    assert finished.code == 0, finished.text
    outputs = live.outputs()
    topology, render = SHAPES[shape]
    assert outputs["live"] != before
    assert (outputs["verdict"], outputs.get("kvTransferMs") is None) == ("pass", topology == "collocated")
    assert set(outputs["ledger"]["live"]["release"]["pods"]) >= {"render"} if render else True
    found = outputs["gate"]["evidence"].get("render")
    assert (found is not None and [pod["equal"] for pod in found["pods"]] == [True]) if render else found is None
    said[shape] = greedy(outputs)
    assert said[shape] == next(iter(said.values()))


def test_a_render_tier_that_does_not_start_is_taken_back(live: Deployment) -> None:
    def stops(settings: dict[str, Any]) -> None:
        shaped(*SHAPES["render+prefill-decode"])(settings)
        settings["splitserve:render"]["extraArgs"] = ["--no-such-argument"]

    before = live.outputs()
    finished = live.up(stops)
    assert finished.code == 1
    assert "not-ready" in finished.text and "no-such-argument" in finished.text
    assert live.outputs()["live"] == before["live"]
    assert greedy(live.outputs())
