"""Engines over several nodes: what is rendered, who finds it, how it is scaled, and what is said when it does not start."""

from __future__ import annotations

import asyncio
from typing import Any

import pulumi
import pulumi.runtime
import pytest
from kubernetes.client.exceptions import ApiException

from components.release import cluster as cluster_module
from components.release.cluster import Cluster, ClusterFault, Pod
from components.release.measure import ended_since, probe_plan
from components.release.recreations import Recreations
from components.release.release import Release
from components.serving.groups import EXCLUSIVE_TOPOLOGY, group_annotations, group_spec, with_workers
from components.serving.labels import RELEASE_LABEL, TIER_LABEL
from components.serving.workloads import Workloads, WorkloadsArgs, scale_patch
from infra.missing import wanted
from infra.settings import load
from tests.unit.test_measure import ProbeSettings
from tests.unit.test_nodes import Recorder, wrong_fields
from tests.unit.test_release import PROVED, PROVED_ID, build
from tests.unit.test_settings import values

OVER_TWO = {"decode": {"engine": {"parallel": {"tensor": 2, "nodes": 2}}}}
DATA_OVER_TWO = {"decode": {"engine": {"parallel": {"tensor": 1, "data": 2, "nodes": 2, "expert": True}}}}


def grouped(change: dict[str, Any] = OVER_TWO, **decode: Any) -> Release:
    return build({**values(), "decode": {**change["decode"], **decode}})


def spec_of(release: Release, tier: str = "decode") -> dict[str, Any]:
    return group_spec(release.id, tier, release.pods[tier], release.groups[tier], release.annotations)


def templates(release: Release) -> tuple[dict[str, Any], dict[str, Any]]:
    template = spec_of(release)["leaderWorkerTemplate"]
    return template["leaderTemplate"], template["workerTemplate"]


def arguments(template: dict[str, Any]) -> list[str]:
    return template["spec"]["containers"][0]["args"]


def after(args: list[str], flag: str) -> str:
    return args[args.index(flag) + 1]


def test_engines_on_one_node_stay_deployments_and_releases_keep_their_ids() -> None:
    assert build(PROVED).id == PROVED_ID
    assert build().groups == {}
    assert build({**values(), "decode": {"engine": {"parallel": {"tensor": 2}}}}).groups == {}


def test_a_release_of_groups_survives_json_and_is_another_release() -> None:
    release = grouped()
    assert Release.from_json(release.to_json()) == release
    assert release.id != build({**values(), "decode": {"engine": {"parallel": {"tensor": 2}}}}).id
    assert set(release.groups) == {"decode"}


def test_both_templates_are_pods_that_kubernetes_knows() -> None:
    for template in templates(grouped()):
        assert list(wrong_fields(template, "V1PodTemplateSpec")) == []


def test_each_pod_is_told_its_place_and_the_first_pods_name() -> None:
    for template in templates(grouped()):
        args = arguments(template)
        assert after(args, "--nnodes") == "2"
        assert after(args, "--node-rank") == "$(LWS_WORKER_INDEX)"
        assert after(args, "--master-addr") == "$(LWS_LEADER_ADDRESS)"
        assert after(args, "--master-port") == "29501"
        assert "--data-parallel-address" not in args
        names = {variable["name"]: variable for variable in template["spec"]["containers"][0]["env"]}
        assert names["VLLM_HOST_IP"]["valueFrom"]["fieldRef"]["fieldPath"] == "status.podIP"


def test_data_parallel_ranks_of_other_nodes_register_with_the_first() -> None:
    for template in templates(grouped(DATA_OVER_TWO)):
        args = arguments(template)
        assert after(args, "--data-parallel-address") == "$(LWS_LEADER_ADDRESS)"
        assert (after(args, "--data-parallel-size"), after(args, "--data-parallel-rpc-port")) == ("2", "29550")
        assert "--enable-expert-parallel" in args


def test_workers_have_no_server_and_are_found_as_no_engine() -> None:
    release = grouped()
    leader, worker = templates(release)
    assert "--headless" in arguments(worker) and "--headless" not in arguments(leader)
    assert (leader["metadata"]["labels"][TIER_LABEL], worker["metadata"]["labels"][TIER_LABEL]) == (
        "decode", "decode-worker")  # fmt: skip
    assert {t["metadata"]["labels"][RELEASE_LABEL] for t in (leader, worker)} == {release.id}
    container = worker["spec"]["containers"][0]
    assert not {"startupProbe", "readinessProbe", "livenessProbe", "lifecycle"} & set(container)
    assert {port["name"] for port in container["ports"]} == {"side-channel"}
    assert {port["name"] for port in leader["spec"]["containers"][0]["ports"]} >= {"http", "ranks"}


def test_the_users_arguments_come_before_headless_alone() -> None:
    _, worker = templates(grouped(extraArgs=["--seed", "1"]))
    assert arguments(worker)[-3:] == ["--seed", "1", "--headless"]


def test_workers_have_the_leaders_devices_memory_and_placement() -> None:
    resources = {
        "cpu": "2",
        "memory": "9Gi",
        "shm": "3Gi",
        "extended": {"nvidia.com/gpu": 1, "vpc.amazonaws.com/efa": 4},
    }
    leader, worker = (t["spec"] for t in templates(grouped(resources=resources)))
    assert worker["containers"][0]["resources"] == leader["containers"][0]["resources"]
    assert worker["containers"][0]["resources"]["limits"]["vpc.amazonaws.com/efa"] == "4"
    for same in ("volumes", "nodeSelector", "securityContext"):
        assert worker[same] == leader[same]


def test_a_group_is_made_anew_as_a_whole_and_has_names_of_its_own() -> None:
    spec = spec_of(grouped())
    assert spec["leaderWorkerTemplate"]["restartPolicy"] == "RecreateGroupOnPodRestart"
    assert spec["leaderWorkerTemplate"]["size"] == 2
    assert spec["networkConfig"] == {"subdomainPolicy": "UniquePerReplica"}
    # Workers that waited for a ready leader would wait for ever: it is ready once they have joined.
    assert spec["startupPolicy"] == "LeaderCreated"
    assert "replicas" not in spec


def test_a_rack_label_keeps_a_group_in_a_rack_of_its_own() -> None:
    assert group_annotations(grouped(rackLabel="example.com/rack").groups["decode"]) == {
        EXCLUSIVE_TOPOLOGY: "example.com/rack"
    }
    assert group_annotations(grouped().groups["decode"]) == {}


def test_workers_are_waited_for_and_never_probed() -> None:
    release = grouped()
    counts = with_workers({"prefill": 1, "decode": 2, "router": 1}, release.groups)
    assert counts == {"prefill": 1, "decode": 2, "router": 1, "decode-worker": 2}
    pods = [Pod(f"{tier}-0", tier, "198.18.0.1", True, None, "running") for tier in counts]
    plan = probe_plan(pods, release.expectation, ProbeSettings(1, 64, 2, "off", 60, 60))
    assert [[pod["name"] for pod in pair] for pair in plan["pairs"]] == [["prefill-0", "decode-0"]]


def declared(release: Release) -> dict[str, tuple[str, dict[str, Any]]]:
    recorder = Recorder()
    asyncio.set_event_loop(asyncio.new_event_loop())
    pulumi.runtime.set_mocks(recorder, project="splitserve", stack="test", preview=False)
    args = WorkloadsArgs(release.id, release.pods, "n", release.annotations, release.files, release.groups)

    @pulumi.runtime.test
    def run() -> None:
        Workloads("w", args)
        for tier in release.pods:
            scale_patch(f"scale-{tier}", tier, args, 3, pulumi.ResourceOptions())

    run()
    return recorder.made


def test_a_tier_of_groups_is_one_leader_worker_set_and_its_size_a_patch_of_that() -> None:
    release = grouped(rackLabel="example.com/rack")
    made = declared(release)
    kind, inputs = made[f"decode-{release.id}"]
    assert kind == "kubernetes:leaderworkerset.x-k8s.io/v1:LeaderWorkerSet"
    assert inputs["spec"] == spec_of(release)
    assert inputs["metadata"]["annotations"][EXCLUSIVE_TOPOLOGY] == "example.com/rack"
    assert made[f"prefill-{release.id}"][0] == "kubernetes:apps/v1:Deployment"
    kind, inputs = made["scale-decode"]
    assert kind == "kubernetes:leaderworkerset.x-k8s.io/v1:LeaderWorkerSetPatch"
    assert inputs["spec"] == {"replicas": 3}
    assert inputs["metadata"]["annotations"]["pulumi.com/patchForce"] == "true"
    assert made["scale-prefill"][0] == "kubernetes:apps/v1:DeploymentPatch"


class Api:
    """Kubernetes' generated clients, as far as scaling and listing go; `refused` is the status for groups."""

    def __init__(self, refused: int | None = None) -> None:
        self.scaled: list[tuple[str, str, int]] = []
        self.refused = refused

    def patch_namespaced_deployment_scale(self, name: str, _namespace: str, body: Any, **_: Any) -> None:
        self.scaled.append(("Deployment", name, body["spec"]["replicas"]))

    def patch_namespaced_custom_object_scale(self, *, group: str, version: str, plural: str, name: str, body: Any,
                                             **_: Any) -> None:  # fmt: skip
        if self.refused:
            raise ApiException(self.refused, "refused")
        self.scaled.append((f"{group}/{version}/{plural}", name, body["spec"]["replicas"]))

    def list_namespaced_custom_object(self, **_: Any) -> dict[str, Any]:
        if self.refused:
            raise ApiException(self.refused, "refused")
        return {"items": [{"metadata": {"labels": {TIER_LABEL: "decode"}}, "spec": {"replicas": 2}}]}

    def list_namespaced_deployment(self, *_: Any, **__: Any) -> Any:
        return type("Found", (), {"items": []})


def cluster_of(api: Api) -> Cluster:
    found = Cluster.__new__(Cluster)
    found.namespace, found.apps, found.custom = "n", api, api
    return found


def test_a_group_is_scaled_as_a_whole() -> None:
    api = Api()
    cluster_of(api).scale("a", {"prefill": 1, "decode": 0}, {"decode": {}})
    assert api.scaled == [
        ("Deployment", "prefill-a", 1),
        ("leaderworkerset.x-k8s.io/v1/leaderworkersets", "decode-a", 0),
    ]


def test_a_missing_group_is_left_out_of_account_and_a_refusal_is_not() -> None:
    cluster_of(Api(404)).scale("a", {"decode": 0}, ["decode"])
    with pytest.raises(ClusterFault, match="LeaderWorkerSet decode-a: refused"):
        cluster_of(Api(403)).scale("a", {"decode": 0}, ["decode"])


@pytest.mark.parametrize(("refused", "sizes"), [(None, {"decode": 2}), (403, {}), (404, {})])
def test_sizes_are_read_where_the_kind_is_there(refused: int | None, sizes: dict[str, int]) -> None:
    assert cluster_of(Api(refused)).sizes("a") == sizes


def test_a_cluster_that_does_not_answer_is_no_cluster_without_groups() -> None:
    with pytest.raises(ClusterFault):
        cluster_of(Api(500)).sizes("a")


class Ending:
    """A cluster whose group is made anew each time that somebody looks."""

    def __init__(self, ends: int) -> None:
        self.ends, self.looks = ends, 0

    def pods(self, _release: str, *, ending: bool = False) -> list[Pod]:
        assert ending, "a pod that is being deleted says how its container ended"
        self.looks += 1
        number = min(self.looks, self.ends)
        end = "exit code 2 (Error)" if number > 1 else None
        return [Pod("decode-a-0", "decode", None, False, None, "running, not ready", last_end=end, uid=f"u{number}")]

    def last_words(self, _pod: str) -> str:
        return "error: unrecognized arguments: --no-such-argument"


def test_a_group_that_ends_again_and_again_is_named_with_its_last_words() -> None:
    watch: Any = Recreations(Ending(ends=3), "a")  # pyright: ignore[reportArgumentType]
    assert [watch.trouble(), watch.trouble()] == [None, None]
    said = watch.trouble()
    assert "its group was made anew 2 times" in said and "no-such-argument" in said and "exit code 2" in said


def test_a_group_that_was_made_anew_once_may_still_start() -> None:
    watch: Any = Recreations(Ending(ends=2), "a")  # pyright: ignore[reportArgumentType]
    assert [watch.trouble() for _ in range(5)] == [None] * 5


def test_a_group_that_was_made_anew_during_the_probe_is_held_against_the_release() -> None:
    before = [Pod("decode-a-0", "decode", "198.18.0.1", True, None, "running", uid="u1")]

    class After:
        def pods(self, _release: str) -> list[Pod]:
            return [Pod("decode-a-0", "decode", "198.18.0.9", True, None, "running", uid="u2")]

    (said,) = ended_since(After(), "a", before)  # pyright: ignore[reportArgumentType]
    assert "made anew" in said


def test_the_kind_is_named_once() -> None:
    assert cluster_module.GROUPS == {
        "group": "leaderworkerset.x-k8s.io", "version": "v1", "plural": "leaderworkersets",
    }  # fmt: skip


def test_what_a_cluster_lacks_for_groups_counts_every_pod() -> None:
    need = wanted(load({**values(), "decode": {"replicas": 2, **OVER_TWO["decode"]}}, "test"), "o.p.s")
    assert {tier.tier: tier.replicas for tier in need.tiers}["decode"] == 4
