"""Which node plugins a stack file leads to, what is left to others, and devices by DRA."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from components.existing.read import read
from components.hardware.catalogue import known_instance
from components.hardware.read_geometry import read_geometry
from components.nodes.names import EFA_NODES, EFA_RESOURCE, GPU_RESOURCE, OWN_PLUGIN, OWN_PLUGIN_LABEL
from components.nodes.node_plugins import decide
from components.nodes.nvidia_device_plugin import NvidiaDevicePluginArgs, render
from components.platform.node_group import node_labels
from components.release.release import Release, build_release
from components.serving.labels import IMAGE_EFA
from components.serving.spec import ModelSource, ModelSpec
from components.serving.workloads import deployment_spec
from infra.node_generations import node_generations
from infra.node_plugins import check_plugins, device_claims, plugin_args, plugins_wanted, rdma_counters
from infra.plan import Plan
from infra.serving_spec import serving_spec
from infra.settings import SettingsError, load
from tests.unit.plans import found, model_config, prod
from tests.unit.test_discovery import eks
from tests.unit.test_settings import values
from tools.localcluster.model import config

SOFTWARE = "platform.nodeSoftware"
OWNER = "o.splitserve.s"


def release(plan: Plan) -> Release:
    model = ModelSpec("m", ModelSource(repository="r"), "digest", read_geometry(model_config("llama-3.1-70b")))
    return build_release(serving_spec(plan, model, "image"))


@pytest.mark.parametrize(
    ("software", "plugins"),
    [
        ({}, {"gpu", "efa", "dcgm"}),
        ({"gpuMetrics": False}, {"gpu", "efa"}),
        ({"devices": "dra"}, {"gpu-dra", "efa-dra", "dcgm"}),
        ({"devices": "none"}, {"dcgm"}),
        ({"rdmaShared": True}, {"gpu", "efa", "dcgm", "rdma-shared"}),
    ],
)
def test_plugins_follow_from_what_pods_ask_for_and_from_the_settings(
    software: dict[str, Any], plugins: set[str]
) -> None:
    assert plugins_wanted(prod((SOFTWARE, software))) == plugins


def test_the_local_cluster_gets_none() -> None:
    plan = Plan(load(values(), "test"), config())
    assert plugins_wanted(plan) == frozenset()
    assert rdma_counters(plan, OWNER, "n", "image") is None


def test_what_a_cluster_has_is_left_to_whoever_has_it_and_ours_stays_ours() -> None:
    there = read(eks())
    assert {item.plugin for item in there.installed or ()} >= {"gpu", "efa"}
    left = decide(plugin_args(prod(), OWNER, there))
    assert not {"gpu", "efa"} & set(left.install) and {"gpu", "efa"} <= set(left.left)
    ours = tuple(replace(item, owner=OWNER) for item in there.installed or ())
    assert {"gpu", "efa"} <= set(decide(plugin_args(prod(), OWNER, replace(there, installed=ours))).install)


def test_dra_beside_another_s_device_plugin_is_refused_before_anything_is_declared() -> None:
    plan = prod((SOFTWARE, {"devices": "dra"}))
    with pytest.raises(SettingsError, match=r"platform.nodeSoftware: found gpu .*wanted no gpu-dra beside it"):
        check_plugins(plugin_args(plan, OWNER, read(eks())), "o/s")


def test_dra_on_an_older_kubernetes_is_refused() -> None:
    plan = prod((SOFTWARE, {"devices": "dra"}), ("platform.aws.kubernetesVersion", "1.33"))
    with pytest.raises(SettingsError, match=r"wanted 1\.34 or newer"):
        check_plugins(plugin_args(plan, OWNER, None), "o/s")


def test_under_dra_pods_claim_gpus_with_their_efa_and_ask_for_no_resource() -> None:
    made = release(prod((SOFTWARE, {"devices": "dra"})))
    for tier in ("prefill", "decode"):
        pod = made.pods[tier]
        resources = pod["containers"][0]["resources"]
        assert not {GPU_RESOURCE, EFA_RESOURCE} & {*resources["limits"], *resources["requests"]}
        assert len(pod["resourceClaims"]) == len(resources["claims"]) == 8
        assert {c["name"] for c in pod["resourceClaims"]} == {c["name"] for c in resources["claims"]}
    (claim,) = device_claims([made, None], OWNER, "splitserve")
    assert claim.efas_per_gpu == 4  # 32 EFA interfaces and 8 GPUs of a p5.48xlarge
    assert claim.name == made.pods["decode"]["resourceClaims"][0]["resourceClaimTemplateName"]
    assert "resourceClaims" not in made.pods["router"]


def test_device_plugins_lead_to_no_claim() -> None:
    made = release(prod())
    assert device_claims([made], OWNER, "splitserve") == []
    assert made.pods["prefill"]["containers"][0]["resources"]["limits"][GPU_RESOURCE] == "8"


def test_an_odd_share_of_efa_can_not_be_claimed() -> None:
    odd = prod((SOFTWARE, {"devices": "dra"}), ("engine.resources.extended.vpc.amazonaws.com/efa", 30))
    assert found(odd, "dra-efa-whole")[0].found == "30 for 8 GPUs"
    assert not found(prod((SOFTWARE, {"devices": "dra"})), "dra-efa-whole")


def test_bottlerocket_keeps_its_own_gpu_plugin() -> None:
    """Its NVIDIA AMIs run the plugin themselves; two would register the same resource."""
    plan = prod(("platform.aws.nodeGroups.decode.ami", "bottlerocket"))
    labels = {
        tier: node_labels(generation, known_instance(generation.instance), pool=False)
        for tier, generation in node_generations(plan).items()
    }
    assert labels["decode"][OWN_PLUGIN_LABEL] == OWN_PLUGIN and OWN_PLUGIN_LABEL not in labels["prefill"]
    manifest = render(NvidiaDevicePluginArgs(OWNER))
    affinity = manifest["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert {"key": OWN_PLUGIN_LABEL, "operator": "NotIn", "values": [OWN_PLUGIN]} in term["matchExpressions"]


def test_pods_say_that_their_image_holds_efa_where_the_stack_file_does() -> None:
    made = release(prod())
    spec = deployment_spec(made.id, "decode", made.pods["decode"], made.annotations)
    assert spec["template"]["metadata"]["annotations"] == {IMAGE_EFA: "true"}
    unsaid = release(prod(("imageContents", {})))
    assert unsaid.annotations == {} and unsaid.id == made.id
    assert Release.from_json(made.to_json()) == made


def test_rdma_counters_run_where_pods_ask_for_rdma() -> None:
    counters = rdma_counters(prod(), OWNER, "team", "image")
    assert counters and counters.selector == EFA_NODES and counters.namespace == "team"
    assert rdma_counters(prod((SOFTWARE, {"rdmaMetrics": False})), OWNER, "team", "image") is None
