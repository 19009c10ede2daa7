"""Engines and logs are found by labels; pods that are missing or out of reach are said, never judged."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

from components.check import client as client_file
from components.check import pods as pods_file
from components.check.pods import Selectors, find
from components.check.settings import CannotCheck
from components.release import probe
from components.release.cluster import Cluster, ClusterFault, Pod
from tests.unit.check_runs import QUICK, run
from tests.unit.fake_vllm import Engine, Server, serving
from tests.unit.test_check_log import OTHER, line

BY_LABELS = ("--namespace", "n", "--prefill-selector", "tier=prefill", "--decode-selector", "tier=decode")


class FakeCluster:
    """Pods by selector, and their logs. `later`: what has become of pods by name; the others are as they were."""

    namespace = "n"

    def __init__(self, pods: dict[str, list[Pod]], logs: dict[str, str] | None = None, fault: str = "",
                 later: dict[str, Pod | None | ClusterFault] | None = None) -> None:  # fmt: skip
        self.pods, self.logs, self.fault, self.later = pods, logs or {}, fault, later or {}

    def pod(self, name: str) -> Pod | None:
        found = self.later.get(name, next((p for pods in self.pods.values() for p in pods if p.name == name), None))
        if isinstance(found, ClusterFault):
            raise found
        return found

    def last_warning(self, pod: str) -> str:
        return ""

    def last_words(self, pod: str) -> str:
        return self.logs.get(pod, "")

    def select(self, selector: str) -> list[Pod]:
        if self.fault:
            raise ClusterFault(self.fault)
        return self.pods.get(selector, [])

    def log(self, pod: str) -> str:
        return self.logs[pod]

    def words(self, pod: str) -> str:
        return self.logs.get(pod, "")


def pod(name: str, ip: str | None = "127.0.0.1", *, ready: bool = True) -> Pod:
    return Pod(name, "", ip, ready, None, "Running" if ready else "running, not ready", uid=f"uid of {name}")


def on_cluster(monkeypatch: pytest.MonkeyPatch, cluster: Any, *more: str) -> Any:
    monkeypatch.setattr(pods_file, "connect", lambda _: cluster)
    return run(*BY_LABELS, *QUICK, "--json", *more)


def test_pods_become_engines_by_their_address_and_both_tiers_faults_come_at_once() -> None:
    ports = Selectors("tier=prefill", "tier=decode", 9000)
    cluster = FakeCluster(
        {"tier=prefill": [pod("b"), pod("a", "fd00::1"), pod("c", ready=False)], "tier=decode": [pod("d")]}
    )
    found = find(cluster, ports)  # type: ignore[arg-type]
    assert [(one.name, one.url) for one in found.prefill] == [
        ("a", "http://[fd00::1]:9000"),
        ("b", "http://127.0.0.1:9000"),
    ]
    assert [one.name for one in found.decode] == ["d"]
    assert [one.name for one in found.pods] == ["a", "b", "d"]
    with pytest.raises(CannotCheck) as error:
        find(FakeCluster({"tier=decode": [pod("d", ready=False)]}), ports)  # type: ignore[arg-type]
    first, second = (fault.message for fault in error.value.faults)
    assert "--prefill-selector tier=prefill in namespace n: found no pod at all" in first
    assert "found d: running, not ready, wanted pods that are ready" in second


def test_a_cluster_that_does_not_answer_and_a_kubeconfig_that_is_not_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ran = on_cluster(monkeypatch, FakeCluster({}, fault="pods: Forbidden"))
    assert (ran.code, ran.json["cause"]) == (2, "cluster")
    assert "Forbidden" in ran.json["message"]
    monkeypatch.undo()
    ran = run(*BY_LABELS, "--kubeconfig", str(tmp_path / "none"), "--json")
    assert (ran.code, ran.json["cause"]) == (2, "kubeconfig")


def test_pods_that_are_found_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "SETTLE_LIMIT_S", 0.5)
    with serving(Engine(), Engine()) as (prefill, decode):
        by_name = {"p-0": prefill, "d-0": decode}
        monkeypatch.setattr(
            pods_file, "_targets", lambda pods, _: tuple(pods_file.Target(p.name, by_name[p.name].url) for p in pods)
        )
        ran = on_cluster(monkeypatch, FakeCluster({"tier=prefill": [pod("p-0")], "tier=decode": [pod("d-0")]}))
    assert ran.code == 0
    assert (ran.json["pairs"][0]["prefill"], ran.json["pairs"][0]["decode"]) == ("p-0", "d-0")


def test_pods_out_of_reach_are_no_verdict_and_the_way_in_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_file, "PAGE_LIMIT_S", 0.3)
    silent = Server(Engine(), delay_s=1.0)
    port = silent.http.server_address[1]
    cluster = FakeCluster({"tier=prefill": [pod("p", "127.0.0.1")], "tier=decode": [pod("d", "127.0.0.2")]})
    with serving(silent):
        ran = on_cluster(monkeypatch, cluster, "--port", str(port))
    assert (ran.code, ran.json["cause"]) == (2, "no-answer")
    assert "kubectl port-forward" in ran.json["message"]
    assert any("by Kubernetes no pod has ended: p: Running, ready; d: Running, ready" in n for n in ran.json["notes"])


def test_the_decode_pods_logs_are_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    pods = {"tier=decode": [pod("d-0"), pod("d-1")]}
    both = FakeCluster(pods, {"d-0": line(), "d-1": line(ms=300.0)})
    ran = on_cluster(monkeypatch, both, "--pod-logs")
    assert (ran.code, ran.json["cause"]) == (1, "slow-link")
    assert ran.json["message"].startswith("d-1: ")
    ran = on_cluster(monkeypatch, FakeCluster(pods, {"d-0": line(), "d-1": OTHER}), "--pod-logs")
    assert (ran.code, ran.json["cause"]) == (2, "no-transfer-logged")


GONE = pod("p-0")


class Hanging(Engine):
    """Answers until its address is silent: the decoder asks, and nothing comes back in time."""

    def answer(self, body: dict[str, Any]) -> tuple[int, Any]:
        if self.requests > 6:
            time.sleep(1.0)
        return super().answer(body)


@pytest.mark.parametrize(
    ("later", "code", "cause", "said"),
    [
        (None, 2, "pod-deleted", "p-0 was deleted meanwhile"),
        (replace(GONE, uid="another"), 2, "pod-deleted", "made anew under its name"),
        (replace(GONE, ending=True), 2, "pod-deleted", "p-0 is being deleted"),
        (replace(GONE, restarts=1, last_end="exit code 137 (OOMKilled)"), 1, "pod-ended", "OOMKilled"),
        (replace(GONE, state="Failed", ready=False), 1, "pod-ended", "the pod has failed"),
        (GONE, 2, "pair-unmeasured", "nothing within"),
        (ClusterFault("pod p-0: Forbidden"), 2, "pair-unmeasured", "nothing within"),
    ],
    ids=["deleted", "made-anew", "ending", "restarted", "evicted", "silent", "forbidden"],
)
def test_kubernetes_says_what_became_of_a_pod_that_is_silent(
    monkeypatch: pytest.MonkeyPatch, later: Any, code: int, cause: str, said: str
) -> None:
    monkeypatch.setattr(probe, "SETTLE_LIMIT_S", 0.5)
    monkeypatch.setattr(probe, "SETTLED_LIMIT_S", 0.2)
    with serving(Hanging(), Engine()) as (prefill, decode):
        by_name = {"p-0": prefill, "d-0": decode}
        monkeypatch.setattr(
            pods_file, "_targets", lambda pods, _: tuple(pods_file.Target(p.name, by_name[p.name].url) for p in pods)
        )
        pods = {"tier=prefill": [GONE], "tier=decode": [pod("d-0")]}
        ran = on_cluster(monkeypatch, FakeCluster(pods, later={"p-0": later}), "--request-limit-s", "0.3")
    assert (ran.code, ran.json["cause"]) == (code, cause), ran.out
    assert said in ran.json["message"] and ran.json["fix"]
    notes = " ".join(ran.json["notes"])
    assert ("seen from here: " in notes) == (cause != "pair-unmeasured"), "what was seen without Kubernetes is kept"
    assert ("no pod has ended: p-0: Running, ready" in notes) == (later is GONE)
    assert ("can't be asked: pod p-0: Forbidden" in notes) == isinstance(later, ClusterFault)


def test_a_pod_that_was_deleted_is_never_held_against_a_deployment_that_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was measured while it was there."""
    monkeypatch.setattr(probe, "SETTLE_LIMIT_S", 0.5)
    with serving(Engine(), Engine()) as (prefill, decode):
        by_name = {"p-0": prefill, "d-0": decode}
        monkeypatch.setattr(
            pods_file, "_targets", lambda pods, _: tuple(pods_file.Target(p.name, by_name[p.name].url) for p in pods)
        )
        pods = {"tier=prefill": [GONE], "tier=decode": [pod("d-0")]}
        ran = on_cluster(monkeypatch, FakeCluster(pods, later={"p-0": None}))
    assert (ran.code, ran.json["outcome"]) == (0, "pass")


def test_one_pod_is_asked_for_by_its_name_also_while_it_is_being_deleted() -> None:
    """By a list, for which the right to list is enough."""
    asked: list[dict[str, Any]] = []
    item = client.V1Pod(
        metadata=client.V1ObjectMeta(name="p-0", uid="u", deletion_timestamp="2026-11-30T22:00:00Z"),
        status=client.V1PodStatus(phase="Running"),
    )

    class Core:
        def list_namespaced_pod(self, namespace: str, **more: Any) -> Any:
            asked.append({"namespace": namespace, **more})
            return client.V1PodList(items=[item] if more["field_selector"] == "metadata.name=p-0" else [])

    cluster = Cluster.__new__(Cluster)
    cluster.core, cluster.namespace = Core(), "n"
    found = cluster.pod("p-0")
    assert found is not None and (found.name, found.uid, found.ending) == ("p-0", "u", True)
    assert cluster.pod("p-1") is None
    assert [one["namespace"] for one in asked] == ["n", "n"]
