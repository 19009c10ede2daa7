"""What is read off clusters: EKS with EFA, InfiniBand, GKE with RoCE, an empty one, one that half answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.testing import CliRunner

from components.existing.answers import Answers
from components.existing.ask import Asker, CannotAsk
from components.existing.found import Found, Right, is_rdma
from components.existing.present import present
from components.existing.read import read
from components.existing.rights import page, plugin_rights, rules, serving_rights
from components.nodes.names import PLUGINS
from infra.commands import discover
from infra.schema.platform import Platform
from infra.table_text import table_text
from tests.unit.plans import ROOT

OWNER = "organization.splitserve.prod"


def node(name: str, allocatable: Mapping[str, str], labels: Mapping[str, str] | None = None, *, provider: str = "",
         ready: str = "True", taints: list[dict[str, str]] | None = None) -> dict[str, Any]:  # fmt: skip
    """A node as the API server writes it."""
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": {"providerID": provider} | ({"taints": taints} if taints else {}),
        "status": {
            "allocatable": {"cpu": "191450m", "memory": "2096Gi", "ephemeral-storage": "95551679124", "pods": "100",
                            "hugepages-1Gi": "0", **allocatable},
            "conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": ready}],
            "nodeInfo": {"kernelVersion": "6.12.40", "containerRuntimeVersion": "containerd://2.2.4",
                         "kubeletVersion": "v1.34.2"},
        },
    }  # fmt: skip


def pod(where: str, requests: Mapping[str, str], namespace: str = "default", **more: Any) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": dict(requests), "limits": dict(requests)}}
    return {"metadata": {"name": "p", "namespace": namespace}, "status": {"phase": "Running"},
            "spec": {"nodeName": where, "containers": [container], **more}}  # fmt: skip


def daemons(name: str, image: str, container: str = "c", *, command: list[str] | None = None,
            labels: Mapping[str, str] | None = None, namespace: str = "kube-system") -> dict[str, Any]:  # fmt: skip
    spec = {"containers": [{"name": container, "image": image, "command": command or []}]}
    return {"metadata": {"name": name, "namespace": namespace, "labels": dict(labels or {})},
            "spec": {"template": {"spec": spec}}, "status": {"desiredNumberScheduled": 2, "numberReady": 2}}  # fmt: skip


def storage(name: str, provisioner: str, *, default: bool) -> dict[str, Any]:
    mark = {"storageclass.kubernetes.io/is-default-class": str(default).lower()}
    return {"metadata": {"name": name, "annotations": mark}, "provisioner": provisioner}


def eks(**more: Any) -> Answers:
    """Two p5.48xlarge with AWS's EFA plugin, their second GPU half in use."""

    def p5(name: str) -> dict[str, Any]:
        labels = {"node.kubernetes.io/instance-type": "p5.48xlarge", "topology.kubernetes.io/zone": "us-east-1a",
                  "topology.k8s.aws/network-node-layer-1": "nn-1", "topology.k8s.aws/network-node-layer-3": "nn-3",
                  "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.memory": "81559",
                  "nvidia.com/gpu.present": "true"}  # fmt: skip
        devices = {"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "32", "hugepages-2Mi": "10256Mi",
                   "attachable-volumes-aws-ebs": "127"}  # fmt: skip
        return node(name, devices, labels, provider=f"aws:///us-east-1a/i-{name}",
                    taints=[{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}])  # fmt: skip

    values: dict[str, Any] = {
        "version": {"gitVersion": "v1.34.2-eks-abc"},
        "nodes": [p5("b"), p5("a")],
        "pods": [pod("a", {"nvidia.com/gpu": "4", "vpc.amazonaws.com/efa": "16", "hugepages-2Mi": "5120Mi"})],
        "daemon_sets": [
            daemons("aws-efa-k8s-device-plugin", "602401143452.dkr.ecr.us-east-1.amazonaws.com/eks/aws-efa-k8s-device-plugin:v0.5.20"),
            daemons("nvidia-device-plugin", "nvcr.io/nvidia/k8s-device-plugin:v0.19.3"),
        ],
        "deployments": [daemons("aws-load-balancer-controller", "public.ecr.aws/eks/aws-load-balancer-controller:v2.14.0")],
        "services": [], "storage_classes": [storage("gp3", "ebs.csi.aws.com", default=True)], "claims": [],
    }  # fmt: skip
    return Answers(**(values | more))


def infiniband(**more: Any) -> Answers:
    """Two nodes with InfiniBand by the RDMA shared plugin, one not ready; GPU operator; MetalLB; k8s 1.32."""
    labels = {"nvidia.com/gpu.product": "NVIDIA-H200", "nvidia.com/gpu.memory": "143771",
              "nvidia.com/gpu.clique": "cluster.0", "rack": "r7", "topology.kubernetes.io/zone": "hall-1"}  # fmt: skip
    devices = {"nvidia.com/gpu": "8", "rdma/hca_shared_devices_a": "1k"}
    operator = "nvcr.io/nvidia/k8s-device-plugin:v0.19.3"
    values: dict[str, Any] = {
        "version": {"gitVersion": "v1.32.5"},
        "nodes": [node("gpu-1", devices, labels), node("gpu-2", devices, labels, ready="Unknown")],
        "pods": [], "services": [], "storage_classes": [storage("ceph", "rbd.csi.ceph.com", default=False)], "claims": [],
        "daemon_sets": [
            daemons("nvidia-device-plugin-daemonset", operator, "nvidia-device-plugin", namespace="gpu-operator"),
            daemons("gpu-feature-discovery", operator, "gpu-feature-discovery", command=["gpu-feature-discovery"]),
            daemons("nvidia-device-plugin-mps-control-daemon", operator, "mps-control-daemon-ctr", command=["mps-control-daemon"]),
            daemons("rdma-shared-dp-ds", "nvcr.io/nvidia/mellanox/k8s-rdma-shared-dev-plugin@sha256:6032"),
            daemons("speaker", "quay.io/metallb/speaker:v0.15.2", namespace="metallb-system"),
        ],
        "deployments": [], "topology_keys": ("rack",),
    }  # fmt: skip
    return Answers(**(values | more))


def gke(**more: Any) -> Answers:
    """One A3 Ultra node over RoCE, with GKE's networks, the DRANET driver and NVIDIA's, and no NVIDIA labels."""
    labels = {"cloud.google.com/gke-accelerator": "nvidia-h200-141gb", "topology.kubernetes.io/zone": "us-central1-b",
              "node.kubernetes.io/instance-type": "a3-ultragpu-8g", "cloud.google.com/gce-topology-block": "b1"}  # fmt: skip
    devices = {
        "nvidia.com/gpu": "8",
        "networking.gke.io.networks/rdma-0": "1",
        "networking.gke.io.networks/rdma-0.IP": "1",
    }
    values: dict[str, Any] = {
        "version": {"gitVersion": "v1.34.1-gke.100"}, "nodes": [node("gke-1", devices, labels, provider="gce://p/z/gke-1")],
        "pods": [], "deployments": [], "storage_classes": [storage("standard-rwo", "pd.csi.storage.gke.io", default=True)],
        "claims": [],
        "daemon_sets": [daemons("nvidia-gpu-device-plugin-large-cos", "gke.gcr.io/nvidia-gpu-device-plugin@sha256:1")],
        "services": [{"metadata": {"name": "web", "namespace": "shop"}, "spec": {"type": "LoadBalancer"},
                      "status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.7"}]}}}],
        "dra_api": "v1", "device_classes": [{"metadata": {"name": "mrdma.google.com"}}],
        "resource_slices": [{"spec": {"driver": "dra.net", "nodeName": "gke-1", "devices": [{"name": "a"}, {"name": "b"}]}}],
    }  # fmt: skip
    return Answers(**(values | more))


def empty(**more: Any) -> Answers:
    """A cluster of CPU nodes that forbids most questions."""
    values: dict[str, Any] = {"version": {"gitVersion": "v1.31.0"}, "nodes": [node("cpu-1", {}, provider="kind://x")],
                              "unknown": ("pods: 403 Forbidden",)}  # fmt: skip
    return Answers(**(values | more))


def test_eks_with_efa() -> None:
    found = read(eks())
    first, second = found.nodes
    assert (first.name, first.gpus, first.gpus_free, second.gpus_free) == ("a", 8, 4, 8)
    assert first.rdma == {"vpc.amazonaws.com/efa": 32} and first.free("vpc.amazonaws.com/efa") == 16
    assert first.hugepages == {"hugepages-2Mi": 10256 << 20} and first.free("hugepages-2Mi") == 5136 << 20
    assert first.zone == "us-east-1a" and first.instance_type == "p5.48xlarge" and first.provider == "aws"
    assert list(first.topology.values()) == ["nn-1", "nn-3"]
    assert (first.gpu_product, first.gpu_memory_mib) == ("NVIDIA-H100-80GB-HBM3", 81559)
    assert str(first.taints[0]) == "nvidia.com/gpu=present:NoSchedule"
    assert (first.kernel, first.runtime) == ("6.12.40", "containerd://2.2.4")
    assert [item.plugin for item in found.installed or ()] == ["efa", "gpu"]
    assert found.load_balancer.able and len(found.load_balancer.evidence) == 2
    assert found.storage_classes and found.storage_classes[0].default
    assert set(present(found, OWNER)) == {"gpu", "efa"}


def test_infiniband_with_a_thousand_shares_written_as_1k() -> None:
    found = read(infiniband())
    assert found.nodes[0].rdma == {"rdma/hca_shared_devices_a": 1000}
    assert [item.ready for item in found.nodes] == [True, False] and found.rdma_resources == (
        "rdma/hca_shared_devices_a",
    )
    assert found.nodes[0].topology == {"nvidia.com/gpu.clique": "cluster.0", "rack": "r7"}
    assert found.load_balancer.evidence == ("metallb-system/speaker runs quay.io/metallb/speaker:v0.15.2",)
    assert not any(item.default for item in found.storage_classes or ())


def test_programs_that_share_the_device_plugins_image_are_told_apart() -> None:
    kinds = {item.name: item.plugin for item in read(infiniband()).installed or ()}
    assert kinds["nvidia-device-plugin-daemonset"] == "gpu"
    assert kinds["gpu-feature-discovery"] == "gpu-feature-discovery"
    assert kinds["nvidia-device-plugin-mps-control-daemon"] == "mps-control"


def test_gke_with_roce_and_dra() -> None:
    found = read(gke())
    assert found.nodes[0].rdma == {"networking.gke.io.networks/rdma-0": 1}
    assert found.nodes[0].gpu_product == "nvidia-h200-141gb" and found.nodes[0].topology
    assert found.dra and found.dra.api == "v1" and found.dra.drivers[0].devices == {"gke-1": 2}
    assert found.load_balancer.evidence[0] == "Service shop/web has an address"
    assert set(present(found, OWNER)) == {"gpu", "efa-dra"}


def test_an_empty_cluster_says_what_it_could_not_say() -> None:
    found = read(empty())
    assert found.nodes[0].gpus == 0 and found.nodes[0].gpus_free is None
    assert found.storage_classes is found.installed is found.dra is None
    assert not found.load_balancer.able and found.unknown == ("pods: 403 Forbidden",)
    assert present(found, OWNER) == {}
    assert json.loads(json.dumps(found.to_json()))["kubernetes_version"] == "v1.31.0"


@pytest.mark.parametrize(("resource", "rdma"), [
    ("rdma/ib", True), ("rdma/hca_shared_devices_a", True), ("vpc.amazonaws.com/efa", True),
    ("vke.volcengine.com/rdma", True), ("nvidia.com/mlnxnics", True), ("nvidia.com/hostdev", True),
    ("openshift.io/mlx5sriov", True), ("networking.gke.io.networks/rdma-0", True),
    ("networking.gke.io.networks/rdma-0.IP", False), ("nvidia.com/gpu", False), ("nvidia.com/gpu.shared", False),
    ("nvidia.com/mig-1g.10gb", False), ("nvidia.com/GH100_H100_SXM5_80GB", False), ("amd.com/gpu", False),
    ("hugepages-2Mi", False), ("smarter-devices/fuse", False)])  # fmt: skip
def test_rdma_resources_have_no_naming_rule(resource: str, rdma: bool) -> None:
    assert is_rdma(resource) == rdma


def test_a_plugin_of_this_stack_is_not_somebody_elses() -> None:
    """Were it, the next update would take it away."""
    ours = daemons("splitserve-nvidia-device-plugin", "nvcr.io/nvidia/k8s-device-plugin:v0.20.0", labels={"splitserve.dev/stack": OWNER})  # fmt: skip
    found = read(eks(daemon_sets=[ours]))
    assert set(present(found, OWNER)) == {"efa"}, "the nodes advertise EFA without a DaemonSet"
    assert "stack organization.splitserve.prod" in present(found, "organization.splitserve.dev")["gpu"]


def test_an_rdma_resource_without_daemon_set_is_the_nodes_own() -> None:
    found = read(infiniband(daemon_sets=[]))
    assert "rdma-shared" not in present(found, OWNER)
    assert "rdma-shared" in present(found, OWNER, "rdma/hca_shared_devices_a")


def test_init_containers_count_by_the_largest_and_sidecars_like_any_other() -> None:
    init = [{"name": "i", "resources": {"limits": {"nvidia.com/gpu": "6"}}},
            {"name": "s", "restartPolicy": "Always", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]  # fmt: skip
    found = read(eks(pods=[pod("a", {"nvidia.com/gpu": "2"}, "splitserve", initContainers=init),
                           pod("a", {"nvidia.com/gpu": "8"}) | {"status": {"phase": "Succeeded"}}]))  # fmt: skip
    assert found.nodes[0].gpus_free == 2 and found.nodes[0].ours["nvidia.com/gpu"] == 6


def block(found: Found) -> tuple[Platform, discover.Proposal]:
    proposed = discover.proposal(found, "~/.kube/config", None, "splitserve")
    written = yaml.safe_load(proposed.text())["config"]["splitserve:platform"]
    return Platform.model_validate(written), proposed


def test_the_proposed_block_is_one_that_the_settings_take() -> None:
    platform, proposed = block(read(infiniband()))
    hardware = platform.hardware
    assert hardware and (hardware.gpu, hardware.gpu_memory_gib, hardware.nodes) == ("NVIDIA-H200", 140, 1)
    assert (hardware.link, hardware.rdma_resource) == ("ib-ndr", "rdma/hca_shared_devices_a")
    assert any("ibstat" in note for note in proposed.notes) and "  # link:" in proposed.text()
    efa = block(read(eks()))[0]
    assert efa.hardware and (efa.hardware.link, efa.hardware.gpu_memory_gib) == ("roce-400", 80)
    assert efa.node_selector == {"nvidia.com/gpu.present": "true"}
    roce = block(read(gke()))[0].hardware
    assert roce and (roce.link, roce.gpu_memory_gib) == ("roce-400", 80), "no label says the memory: a note does"
    assert block(read(empty()))[0].hardware is None


def test_nodes_of_several_zones_are_told_apart_by_the_proposed_selector() -> None:
    answers = eks()
    far = json.loads(json.dumps(answers.nodes[0]).replace("us-east-1a", "us-east-1b").replace('"b"', '"c"'))
    platform, proposed = block(read(replace(answers, nodes=[*answers.nodes, far])))
    assert platform.node_selector["topology.kubernetes.io/zone"] == "us-east-1a"
    assert any("us-east-1b" in note for note in proposed.notes)


def test_the_rights_in_the_docs_are_made_from_the_code() -> None:
    assert (ROOT / "docs/reference/rights.md").read_text() == page(frozenset(PLUGINS)), (
        "write what `python -m components.existing.rights` prints to docs/reference/rights.md"
    )
    (rule,) = rules([Right("get", "pods"), Right("list", "pods"), Right("get", "nodes"), Right("list", "nodes")])
    assert rule == {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["get", "list"]}


def test_the_rights_are_those_of_the_documentation() -> None:
    asked = {str(right) for right in serving_rights("mine")}
    assert {"patch deployments/scale.apps in namespace mine", "deletecollection jobs.batch in namespace mine",
            "get pods/log in namespace mine", "create namespaces"} <= asked  # fmt: skip
    assert plugin_rights(frozenset()) == []
    assert "create clusterroles.rbac.authorization.k8s.io" in {
        str(right) for right in plugin_rights(frozenset(PLUGINS))
    }


class Api(BaseHTTPRequestHandler):
    """A cluster's API with pages, a refusal, and rights."""

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        nodes = [dict(item) for item in eks().nodes]
        if path == "/version":
            self._answer(200, {"gitVersion": "v1.34.2"})
        elif path == "/api/v1/nodes" and "continue=next" in query:
            self._answer(200, {"metadata": {}, "items": nodes[1:]})
        elif path == "/api/v1/nodes":
            self._answer(200, {"metadata": {"continue": "next"}, "items": nodes[:1]})
        elif path == "/api/v1/pods":
            self._answer(403, {"message": "pods is forbidden"})
        elif path.startswith("/apis/resource.k8s.io/v1/"):
            self._answer(404, {"message": "not found"})
        else:
            self._answer(200, {"metadata": {}, "items": None})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        attributes = body["spec"]["resourceAttributes"]
        self._answer(
            201, {"status": {"allowed": (attributes["resource"], attributes["subresource"]) != ("pods", "log")}}
        )

    def _answer(self, status: int, content: Any) -> None:
        text = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


@pytest.fixture
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield _kubeconfig(tmp_path, server.server_address[1])
    server.shutdown()
    server.server_close()


def _kubeconfig(folder: Path, port: int) -> str:
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump({
        "apiVersion": "v1", "kind": "Config", "current-context": "c", "users": [{"name": "u", "user": {"token": "t"}}],
        "clusters": [{"name": "k", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}]}))  # fmt: skip
    return str(path)


def test_the_asker_reads_every_page_and_notes_what_is_refused(kubeconfig: str) -> None:
    rights = [Right("get", "pods/log", "", "mine"), Right("create", "namespaces")]
    found = read(Asker(kubeconfig, None).answers("mine", rights))
    assert [item.name for item in found.nodes] == ["a", "b"] and found.nodes[0].gpus_free is None
    assert found.unknown == ("pods: pods is forbidden",)
    assert found.dra and found.dra.api == "v1beta2", "the newest version that is served"
    assert [right.allowed for right in found.rights] == [False, True]


def command() -> typer.Typer:
    app = typer.Typer()
    app.command()(discover.discover)
    return app


def test_the_command_prints_tables_and_a_block(kubeconfig: str) -> None:
    result = CliRunner().invoke(command(), ["--kubeconfig", kubeconfig])
    assert result.exit_code == 0, result.output
    assert "splitserve:platform:" in result.output and "Could not be asked: pods: pods is forbidden" in result.output
    assert "You may not: get pods/log in namespace splitserve" in result.output
    as_json = json.loads(CliRunner().invoke(command(), ["--kubeconfig", kubeconfig, "--json"]).output)
    assert as_json["platform"]["hardware"]["gpusPerNode"] == 8 and len(as_json["found"]["nodes"]) == 2


def test_a_cluster_that_does_not_answer_is_exit_code_2(tmp_path: Path) -> None:
    for path in (_kubeconfig(tmp_path, 1), str(tmp_path / "none")):
        result = CliRunner().invoke(command(), ["--kubeconfig", path])
        assert result.exit_code == 2 and "error:" in result.output
    with pytest.raises(CannotAsk, match="kubeconfig can't be used"):
        Asker(str(tmp_path / "none"), None)


def test_the_tables_show_every_node() -> None:
    for answers in (eks(), infiniband(), gke(), empty()):
        found = read(answers)
        assert all(table.row_count for table in (discover.tables(found)[0], discover.tables(found)[2]))


def test_no_name_is_cut_short() -> None:
    assert "…" not in table_text(discover.tables(read(eks()))[0])
