"""A decode engine of two pods with tensor parallelism over both: deployed, gated, asked, and made anew after a loss."""

from __future__ import annotations

import time
from typing import Any

import pytest
from kubernetes import client

from components.release.cluster import GROUPS, Cluster, Pod
from infra.leader_worker_sets import LOCAL_IMAGE
from tests.cluster.asking import Record, cluster_of, greedy, shaped
from tools.cache import CHECKOUT
from tools.deployment import Deployment

MADE_ANEW_LIMIT_S = 420
"""Both pods end (a leader may take its drain limit), then load and compute again on two cores."""
POLL_S = 2


def over_two_pods(settings: dict[str, Any]) -> None:
    shaped("prefill-decode", 0)(settings)
    settings["splitserve:note"] = "decode over two pods"
    settings["splitserve:decode"] = {"engine": {"parallel": {"tensor": 2, "nodes": 2}}, "drainS": 10}
    # Three engine pods are enough for two cores: the live release makes room first.
    settings["splitserve:rollout"] = {"strategy": "swap"}
    # Each token crosses pods in every layer, and four processes share two cores.
    settings["splitserve:gate"] |= {"limitMs": 1000, "samples": 3}


def group_of(cluster: Cluster, release: str) -> dict[str, Pod]:
    return {pod.name: pod for pod in cluster.pods(release) if pod.tier in ("decode", "decode-worker")}


@pytest.fixture(scope="module")
def said() -> list[str]:
    """What the group said before it lost a worker."""
    return []


def test_a_decode_engine_over_two_pods_is_a_gated_release(
    live: Deployment, said: list[str], record_property: Record
) -> None:
    """Sums over two ranks fall otherwise than over one, and with them near ties: the gate wants half of the answers to
    be those of the prefiller, which is one pod."""
    assert (CHECKOUT / LOCAL_IMAGE).exists(), "the local cluster has nothing that makes groups: `make groups`"
    before = live.outputs()["live"]
    finished = live.up(over_two_pods)
    assert finished.code == 0, finished.text
    outputs = live.outputs()
    assert (outputs["live"] != before, outputs["verdict"]) == (True, "pass")
    assert outputs["kvTransferMs"] is not None
    record_property("kv_transfer_ms", outputs["kvTransferMs"])
    cluster = cluster_of(live)
    group = group_of(cluster, outputs["live"])
    assert sorted(pod.tier for pod in group.values()) == ["decode", "decode-worker"]
    assert all(pod.ready for pod in group.values())
    assert cluster.sizes(outputs["live"])["decode"] == 1
    said += greedy(outputs)


def test_the_same_settings_again_change_nothing(live: Deployment) -> None:
    before = live.outputs()
    again = live.up(over_two_pods)
    assert again.code == 0, again.text
    assert live.outputs()["live"] == before["live"]
    assert "measuring" not in again.text


def test_a_lost_worker_ends_its_group_which_then_serves_again(
    live: Deployment, said: list[str], record_property: Record
) -> None:
    outputs, cluster = live.outputs(), cluster_of(live)
    before = group_of(cluster, outputs["live"])
    worker = next(pod for pod in before.values() if pod.tier == "decode-worker")
    started = time.monotonic()
    client.CoreV1Api(cluster.core.api_client).delete_namespaced_pod(
        worker.name, cluster.namespace, grace_period_seconds=0
    )
    while True:
        now = group_of(cluster, outputs["live"])
        anew = now.keys() == before.keys() and all(now[name].uid != before[name].uid for name in before)
        if anew and all(pod.ready for pod in now.values()):
            break
        assert time.monotonic() - started < MADE_ANEW_LIMIT_S, {name: pod.state for name, pod in now.items()}
        time.sleep(POLL_S)
    record_property("made_anew_s", time.monotonic() - started)
    assert said and _asked_until_answered(outputs) == said


def test_a_group_that_does_not_start_is_taken_back_with_its_reason(live: Deployment) -> None:
    def stops(settings: dict[str, Any]) -> None:
        over_two_pods(settings)
        settings["splitserve:decode"]["extraArgs"] = ["--no-such-argument"]
        # It computes nothing, so there is room for it beside the live release.
        settings["splitserve:rollout"] = {"strategy": "canary"}

    before = live.outputs()
    finished = live.up(stops)
    assert finished.code == 1
    assert "not-ready" in finished.text and "its group was made anew" in finished.text, finished.text
    assert "no-such-argument" in finished.text
    assert live.outputs()["live"] == before["live"]
    assert greedy(live.outputs())


def test_a_release_without_groups_takes_theirs_away(live: Deployment) -> None:
    finished = live.up(shaped("prefill-decode", 0))
    assert finished.code == 0, finished.text
    again = live.up(shaped("prefill-decode", 0))
    assert again.code == 0, again.text
    cluster = cluster_of(live)
    assert cluster.custom.list_namespaced_custom_object(**GROUPS, namespace=cluster.namespace)["items"] == []


def _asked_until_answered(outputs: dict[str, Any]) -> list[str]:
    """The router takes a moment to find the new leader at its new address."""
    for _ in range(15):
        try:
            return greedy(outputs)
        except AssertionError:
            time.sleep(POLL_S)
    return greedy(outputs)
