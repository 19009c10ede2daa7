"""What runs on nodes: the manifests against Kubernetes' own types, and what a cluster gets of them."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from typing import Any

import pulumi
import pulumi.runtime
import pytest
from kubernetes.client import models

from components.nodes import (
    dcgm_exporter,
    device_claim,
    dranet,
    efa_device_plugin,
    images,
    nvidia_device_plugin,
    nvidia_dra_driver,
    rdma_shared_device_plugin,
)
from components.nodes.dcgm_exporter import DcgmExporterArgs
from components.nodes.device_claim import DeviceClaim, DeviceClaimArgs
from components.nodes.efa_device_plugin import EfaDevicePluginArgs
from components.nodes.names import EFA_NODES, GPU_NODES, PRIVILEGED_BECAUSE, Plugin
from components.nodes.node_plugins import NodePlugins, NodePluginsArgs, PluginFault, decide, wanted_plugins
from components.nodes.nvidia_device_plugin import NvidiaDevicePluginArgs
from components.nodes.nvidia_dra_driver import NvidiaDraDriverArgs
from components.nodes.rdma_shared_device_plugin import RdmaSelectors, RdmaSharedDevicePluginArgs
from components.nodes.table import OWNER, plugin_table, rendered
from components.serving.labels import OWNER_LABEL
from tests.unit.plans import ROOT

DAEMONS = {plugin: manifest for plugin, (_, manifest) in rendered().items()}
CLAIM = DeviceClaimArgs("prefill-devices", "splitserve", OWNER, efas_per_gpu=4)
OTHERS = [
    rdma_shared_device_plugin.render_config(RdmaSharedDevicePluginArgs(OWNER)),
    *dranet.render_access(OWNER), dranet.render_device_class(OWNER),
    *nvidia_dra_driver.render_access(OWNER), nvidia_dra_driver.render_device_class(OWNER),
    device_claim.render(CLAIM),
]  # fmt: skip
TYPES = {"DaemonSet": "V1DaemonSet", "ConfigMap": "V1ConfigMap", "ServiceAccount": "V1ServiceAccount",
         "ClusterRole": "V1ClusterRole", "ClusterRoleBinding": "V1ClusterRoleBinding",
         "DeviceClass": "V1DeviceClass", "ResourceClaimTemplate": "V1ResourceClaimTemplate"}  # fmt: skip


def wrong_fields(value: Any, type_name: str, path: str = "") -> Iterator[str]:
    """Fields that Kubernetes' type does not have, or that hold another kind of value."""
    if match := re.fullmatch(r"list\[(.+)\]", type_name):
        if not isinstance(value, list):
            yield f"{path}: {value!r} is no list"
            return
        for index, item in enumerate(value):
            yield from wrong_fields(item, match[1], f"{path}[{index}]")
    elif match := re.fullmatch(r"dict\(str, (.+)\)", type_name):
        for key, item in value.items():
            yield from wrong_fields(item, match[1], f"{path}.{key}")
    elif model := getattr(models, type_name, None):
        if not isinstance(value, dict):
            yield f"{path}: {value!r} is no {type_name}"
            return
        names = {json_name: attribute for attribute, json_name in model.attribute_map.items()}
        for key, item in value.items():
            if key not in names:
                yield f"{path}.{key}: no field of {type_name}"
            else:
                yield from wrong_fields(item, model.openapi_types[names[key]], f"{path}.{key}")
    elif type_name in ("str", "int", "bool"):
        if type(value).__name__ != type_name:
            yield f"{path}: {value!r} is no {type_name}"


def pod(manifest: dict[str, Any]) -> dict[str, Any]:
    return manifest["spec"]["template"]["spec"]


def containers(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    return [*pod(manifest).get("initContainers", []), *pod(manifest)["containers"]]


@pytest.mark.parametrize("manifest", [*DAEMONS.values(), *OTHERS], ids=lambda m: f"{m['kind']}-{m['metadata']['name']}")
def test_every_field_is_one_that_kubernetes_has(manifest: dict[str, Any]) -> None:
    assert list(wrong_fields(manifest, TYPES[manifest["kind"]])) == []
    assert manifest["metadata"]["labels"][OWNER_LABEL] == OWNER


def test_a_misspelt_field_would_be_found() -> None:
    manifest = json.loads(json.dumps(DAEMONS["gpu"]))
    pod(manifest)["toleration"] = []
    pod(manifest)["containers"][0]["securityContext"]["privileged"] = "yes"
    assert len(list(wrong_fields(manifest, "V1DaemonSet"))) == 2


@pytest.mark.parametrize("plugin", DAEMONS)
def test_a_daemon_reaches_every_node_of_its_label_whatever_its_taints_or_type(plugin: Plugin) -> None:
    spec = pod(DAEMONS[plugin])
    assert spec["tolerations"] == [{"operator": "Exists"}]
    expected = EFA_NODES if plugin.startswith("efa") else GPU_NODES
    assert spec["nodeSelector"] == {"kubernetes.io/os": "linux", **expected}
    assert "instance-type" not in json.dumps(DAEMONS[plugin])
    affinity = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = affinity["nodeSelectorTerms"]
    assert {"key": "eks.amazonaws.com/compute-type", "operator": "NotIn", "values": ["auto"]} in term[
        "matchExpressions"
    ]


@pytest.mark.parametrize("plugin", DAEMONS)
def test_a_daemon_is_critical_bounded_and_not_awaited(plugin: Plugin) -> None:
    manifest = DAEMONS[plugin]
    assert pod(manifest)["priorityClassName"] == "system-node-critical"
    assert manifest["metadata"]["namespace"] == "kube-system"
    assert manifest["metadata"]["annotations"]["pulumi.com/skipAwait"] == "true"
    assert manifest["spec"]["updateStrategy"]["type"] == "RollingUpdate"
    labels = manifest["spec"]["template"]["metadata"]["labels"]
    assert manifest["spec"]["selector"]["matchLabels"].items() <= labels.items()
    for container in containers(manifest):
        assert (
            container["resources"]["requests"].keys() == {"cpu", "memory"}
            and container["resources"]["limits"]["memory"]
        )


PROFILING = dcgm_exporter.render(DcgmExporterArgs(OWNER, profiling=True))


@pytest.mark.parametrize("manifest", [*DAEMONS.values(), PROFILING], ids=[*DAEMONS, "dcgm with profiling"])
def test_a_privilege_has_a_reason_and_a_reason_a_privilege(manifest: dict[str, Any]) -> None:
    privileged = False
    for container in containers(manifest):
        security = container["securityContext"]
        privileged |= bool(security.get("privileged") or security.get("capabilities", {}).get("add"))
        if not security.get("privileged"):
            assert security["allowPrivilegeEscalation"] is False and security["capabilities"]["drop"] == ["ALL"]
    for metadata in (manifest["metadata"], manifest["spec"]["template"]["metadata"]):
        assert bool(metadata["annotations"].get(PRIVILEGED_BECAUSE)) == privileged
    assert manifest["metadata"]["labels"]["app.kubernetes.io/part-of"] == "splitserve-nodes"


def test_only_those_are_privileged_that_upstream_runs_so() -> None:
    privileged = {p for p, m in DAEMONS.items() if any(c["securityContext"].get("privileged") for c in containers(m))}
    assert privileged == {"efa", "rdma-shared", "gpu-dra"}


@pytest.mark.parametrize("plugin", DAEMONS)
def test_mounts_have_their_volumes(plugin: Plugin) -> None:
    volumes = {volume["name"] for volume in pod(DAEMONS[plugin])["volumes"]}
    mounted = {m["name"] for container in containers(DAEMONS[plugin]) for m in container["volumeMounts"]}
    assert mounted == volumes


def test_images_are_pinned() -> None:
    for image, _ in rendered().values():
        assert re.fullmatch(r"v?\d+\.\d+\.\d+[-.\w]*", image.tag), image.reference
        assert image.digest is None or re.fullmatch(r"sha256:[0-9a-f]{64}", image.digest)
    assert images.NVIDIA_DEVICE_PLUGIN.reference.count("@") == images.DCGM_EXPORTER.reference.count("@") == 1


def test_selector_image_and_runtime_class_are_the_clusters_to_say() -> None:
    gpu = pod(nvidia_device_plugin.render(NvidiaDevicePluginArgs(OWNER, {"nvidia.com/gpu.present": "true"}, "x@sha256:1", "nvidia")))  # fmt: skip
    assert gpu["nodeSelector"]["nvidia.com/gpu.present"] == "true" and gpu["runtimeClassName"] == "nvidia"
    assert gpu["containers"][0]["image"] == "x@sha256:1"
    efa = pod(efa_device_plugin.render(EfaDevicePluginArgs(OWNER, {"pool": "p5"}, "mirror/efa:1")))
    assert efa["nodeSelector"]["pool"] == "p5" and efa["containers"][0]["image"] == "mirror/efa:1"
    assert pod(dcgm_exporter.render(DcgmExporterArgs(OWNER, runtime_class="nvidia")))["runtimeClassName"] == "nvidia"


def test_the_rdma_plugin_gets_its_configuration_and_restarts_with_a_new_one() -> None:
    args = RdmaSharedDevicePluginArgs(OWNER, "ib", 64, RdmaSelectors(device_ids=("1021",), link_types=("infiniband",)))
    entry = json.loads(rdma_shared_device_plugin.render_config(args)["data"]["config.json"])["configList"][0]
    assert entry == {"resourceName": "ib", "resourcePrefix": "rdma", "rdmaHcaMax": 64,
                     "selectors": {"vendors": ["15b3"], "deviceIDs": ["1021"], "linkTypes": ["infiniband"]}}  # fmt: skip
    assert args.resource == "rdma/ib"
    other = dataclasses.replace(args, hca_max=65)
    annotations = [
        rdma_shared_device_plugin.render(a)["spec"]["template"]["metadata"]["annotations"] for a in (args, other)
    ]
    assert annotations[0] != annotations[1]


def test_an_rdma_configuration_that_the_plugin_would_refuse_is_refused_with_all_faults() -> None:
    with pytest.raises(ValueError, match="letters, digits") as caught:
        RdmaSharedDevicePluginArgs(OWNER, "hca-a", 0, RdmaSelectors(vendors=()))
    assert "rdmaHcaMax 0" in str(caught.value) and "no selector" in str(caught.value)


def test_the_dra_driver_mounts_the_parent_of_its_drivers_root() -> None:
    def paths(root: str) -> dict[str, str]:
        volumes = pod(nvidia_dra_driver.render(NvidiaDraDriverArgs(OWNER, driver_root=root)))["volumes"]
        return {volume["name"]: volume["hostPath"]["path"] for volume in volumes}

    assert paths("/")["driver-root-parent"] == "/"
    assert paths("/run/nvidia/driver")["driver-root-parent"] == "/run/nvidia"


def test_a_claim_is_for_one_gpu_and_the_efa_devices_of_its_pcie_root() -> None:
    devices = device_claim.render(CLAIM)["spec"]["spec"]["devices"]
    assert [(r["name"], r["exactly"]["deviceClassName"], r["exactly"]["count"]) for r in devices["requests"]] == [
        ("gpu", "gpu.nvidia.com", 1), ("efa", "efa.networking.k8s.aws", 4)]  # fmt: skip
    assert devices["constraints"][0]["matchAttribute"] == "resource.kubernetes.io/pcieRoot"
    assert (
        "constraints" not in device_claim.render(dataclasses.replace(CLAIM, aligned=False))["spec"]["spec"]["devices"]
    )
    with pytest.raises(ValueError, match="32 EFA"):
        dataclasses.replace(CLAIM, efas_per_gpu=32)


@pytest.mark.parametrize(
    ("version", "old"), [("1.33", True), ("v1.34.2-eks-abc", False), ("1.36+", False), ("?", True)]
)
def test_an_older_kubernetes_is_refused_with_the_way_out(version: str, old: bool) -> None:
    fault = device_claim.dra_fault(version)
    assert bool(fault) == old and (not fault or "upgrade the cluster, or let device plugins" in fault)


ALL = wanted_plugins(gpu=True, efa=True, rdma_shared=True)


def test_nothing_is_installed_twice() -> None:
    decision = decide(NodePluginsArgs(OWNER, ALL, {"gpu": "gpu-operator/nvidia-device-plugin-daemonset"}))
    assert decision.install == ("efa", "rdma-shared", "dcgm")
    assert decision.left == {"gpu": "gpu-operator/nvidia-device-plugin-daemonset"}


def test_plugin_and_driver_of_one_device_are_refused_together_with_an_old_cluster() -> None:
    dra = wanted_plugins(gpu=True, efa=True, devices_by="dra")
    assert dra == {"gpu-dra", "efa-dra", "dcgm"}
    with pytest.raises(PluginFault) as caught:
        decide(NodePluginsArgs(OWNER, dra, {"gpu": "kube-system/theirs"}, kubernetes_version="1.33"))
    assert len(caught.value.faults) == 2 and "kube-system/theirs" in caught.value.faults[0]
    with pytest.raises(PluginFault, match="both wanted"):
        decide(NodePluginsArgs(OWNER, frozenset({"gpu", "gpu-dra"})))
    assert wanted_plugins(gpu=True, efa=True, dcgm=False, devices_by="none") == frozenset()


class Recorder(pulumi.runtime.Mocks):
    """Keeps what is registered."""

    def __init__(self) -> None:
        self.made: dict[str, tuple[str, dict[str, Any]]] = {}

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str | None, dict[Any, Any]]:
        self.made[args.name] = (args.typ, args.inputs)
        return f"{args.name}-id", args.inputs

    def call(self, args: pulumi.runtime.MockCallArgs) -> tuple[dict[Any, Any], list[tuple[str, str]] | None]:
        return {}, None


def made_by(declare: Any) -> tuple[Recorder, Any]:
    """Everything that a program registers, and the value of the output that it returns."""
    recorder, seen = Recorder(), []
    pulumi.runtime.set_mocks(recorder, project="splitserve", stack="test", preview=False)

    @pulumi.runtime.test
    def program() -> Any:
        return declare().apply(seen.append)

    program()
    return recorder, seen[0]


def test_the_component_declares_what_is_missing_and_says_what_it_left() -> None:
    args = NodePluginsArgs(OWNER, ALL, {"efa": "kube-system/theirs"}, gpu_nodes={"pool": "gpu"})

    def declare() -> pulumi.Output[Any]:
        made = NodePlugins("nodes", args)
        return pulumi.Output.all(made.installed, made.left)

    recorder, (installed, left) = made_by(declare)
    kinds = [typ for typ, _ in recorder.made.values() if typ.startswith("kubernetes:")]
    assert sorted(kinds) == ["kubernetes:apps/v1:DaemonSet"] * 3 + ["kubernetes:core/v1:ConfigMap"]
    assert set(installed) == {"gpu", "rdma-shared", "dcgm"} and left == {"efa": "kube-system/theirs"}
    _, gpu = recorder.made["daemonset-splitserve-nvidia-device-plugin"]
    declared = nvidia_device_plugin.render(NvidiaDevicePluginArgs(OWNER, {"pool": "gpu"}))
    assert gpu["spec"] == declared["spec"] and gpu["metadata"] == declared["metadata"]


def test_by_dra_the_drivers_come_with_rights_and_classes() -> None:
    args = NodePluginsArgs(OWNER, wanted_plugins(gpu=True, efa=True, dcgm=False, devices_by="dra"))

    def declare() -> pulumi.Output[Any]:
        return pulumi.Output.all(NodePlugins("nodes", args).installed, DeviceClaim("claim", CLAIM).template)

    recorder, (installed, template) = made_by(declare)
    kinds = {typ.rsplit(":", 1)[1] for typ, _ in recorder.made.values() if typ.startswith("kubernetes:")}
    assert kinds == {
        "DaemonSet",
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
        "DeviceClass",
        "ResourceClaimTemplate",
    }
    assert set(installed) == {"gpu-dra", "efa-dra"} and template == "prefill-devices"
    _, binding = recorder.made["clusterrolebinding-splitserve-dranet"]
    assert binding["roleRef"]["name"] == "splitserve-dranet"


def test_the_table_in_the_documentation_is_that_of_the_code() -> None:
    assert (ROOT / "docs/reference/node-plugins.md").read_text() == plugin_table(), (
        "write plugin_table() of components/nodes/table.py to docs/reference/node-plugins.md"
    )
