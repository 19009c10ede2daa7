"""From a cluster's answers to what was found. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from kubernetes.utils import parse_quantity

from components.existing.answers import Answers
from components.existing.found import (
    Dra,
    Driver,
    Found,
    Installed,
    LeaderWorkerSets,
    LoadBalancer,
    Node,
    StorageClass,
    Taint,
    VolumeClaim,
)
from components.existing.images import plugins
from components.serving.labels import OWNER_LABEL

ZONE = "topology.kubernetes.io/zone"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
TOPOLOGY = ("topology.k8s.aws/network-node-layer-", "cloud.google.com/gce-topology-", "nvidia.com/gpu.clique")
"""Where in the network a node stands: EKS (user guide, node topology), GKE (placement), NVIDIA's GPU
feature discovery (the NVLink domain of multi-node systems)."""
PRODUCTS = ("nvidia.com/gpu.product", "cloud.google.com/gke-accelerator", "karpenter.k8s.aws/instance-gpu-name")
MEMORIES = ("nvidia.com/gpu.memory", "karpenter.k8s.aws/instance-gpu-memory")
"""In MiB: GPU feature discovery (k8s-device-plugin README, "Generated Labels"), Karpenter's well-known labels."""
CLOUDS = {"aws": "AWS", "gce": "GKE", "azure": "Azure", "oci": "OCI", "ocid1": "OCI", "ibm": "IBM Cloud",
          "openstack": "OpenStack", "digitalocean": "DigitalOcean", "coreweave": "CoreWeave", "k3s": "k3s"}  # fmt: skip
"""Provider ids of clusters with a cloud controller, which makes load balancers."""
_BALANCERS = ("aws-load-balancer-controller", "metallb", "kube-vip", "klipper-lb", "cloud-provider-", "cilium/operator")
_LWS_IMAGE = re.compile(r"(^|/)lws(-controller)?(:|$)")
_NOT_DEVICES = ("kubernetes.io/", "attachable-volumes-")


def read(answers: Answers) -> Found:
    """What was found, from plain JSON."""
    pods = _pods_by_node(answers)
    return Found(
        kubernetes_version=answers.version.get("gitVersion", "unknown"),
        nodes=tuple(sorted((_node(node, pods, answers) for node in answers.nodes), key=lambda node: node.name)),
        storage_classes=_storage_classes(answers),
        claims=_claims(answers),
        load_balancer=_load_balancer(answers),
        installed=_installed(answers),
        dra=_dra(answers),
        rights=answers.rights,
        unknown=answers.unknown,
        leader_worker_sets=_leader_worker_sets(answers),
        operator_kinds=answers.operator_kinds,
    )


def _node(node: Mapping[str, Any], pods: Mapping[str, list[Mapping[str, Any]]] | None, answers: Answers) -> Node:
    metadata, spec, status = node["metadata"], node.get("spec", {}), node.get("status", {})
    labels, info = metadata.get("labels") or {}, status.get("nodeInfo", {})
    name = metadata["name"]
    memory = next((labels[key] for key in MEMORIES if labels.get(key, "").isdigit()), None)
    return Node(
        name=name,
        ready=any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or []),
        schedulable=not spec.get("unschedulable", False),
        labels=labels,
        allocatable={key: _amount(value) for key, value in (status.get("allocatable") or {}).items() if _device(key)},
        used=None if pods is None else _used(pods.get(name, [])),
        ours={} if pods is None else _used(_inside(pods.get(name, []), answers.namespace)),
        instance_type=labels.get(INSTANCE_TYPE),
        zone=labels.get(ZONE),
        topology=_topology(labels, answers),
        gpu_product=next((labels[key] for key in PRODUCTS if labels.get(key)), None),
        gpu_memory_mib=int(memory) if memory else None,
        taints=tuple(Taint(t["key"], t.get("value") or "", t["effect"]) for t in spec.get("taints") or []),
        kernel=info.get("kernelVersion", ""),
        runtime=info.get("containerRuntimeVersion", ""),
        kubelet=info.get("kubeletVersion", ""),
        provider=_provider(spec.get("providerID") or ""),
    )


def _topology(labels: Mapping[str, str], answers: Answers) -> dict[str, str]:
    return {key: value for key, value in labels.items() if key.startswith(TOPOLOGY) or key in answers.topology_keys}


def _device(resource: str) -> bool:
    return resource.startswith("hugepages-") or ("/" in resource and not resource.startswith(_NOT_DEVICES))


def _amount(quantity: Any) -> int:
    """Kubernetes writes 1000 devices as `1k`, and huge pages as `10256Mi`."""
    return int(parse_quantity(str(quantity)))


def _provider(provider_id: str) -> str:
    """`aws:///us-east-1a/i-0` is aws; OCI's ids have no scheme."""
    return provider_id.split("://")[0].split(".")[0]


def _pods_by_node(answers: Answers) -> dict[str, list[Mapping[str, Any]]] | None:
    """The pods that hold devices, or will: a pod that has ended holds none."""
    if answers.pods is None:
        return None
    by_node: dict[str, list[Mapping[str, Any]]] = {}
    for pod in answers.pods:
        node = pod.get("spec", {}).get("nodeName")
        if node and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
            by_node.setdefault(node, []).append(pod)
    return by_node


def _inside(pods: list[Mapping[str, Any]], namespace: str) -> list[Mapping[str, Any]]:
    return [pod for pod in pods if pod["metadata"].get("namespace") == namespace]


def _used(pods: list[Mapping[str, Any]]) -> dict[str, int]:
    used: dict[str, int] = {}
    for pod in pods:
        for resource, amount in _asked(pod["spec"]).items():
            used[resource] = used.get(resource, 0) + amount
    return used


def _asked(spec: Mapping[str, Any]) -> dict[str, int]:
    """A pod's device requests: all containers and sidecars together, or its largest init container
    (https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers)."""
    total: dict[str, Decimal] = {}
    starting: dict[str, Decimal] = {}
    for container, begins in _containers(spec):
        resources = container.get("resources") or {}
        for resource, amount in {**(resources.get("limits") or {}), **(resources.get("requests") or {})}.items():
            if not _device(resource):
                continue
            asked = parse_quantity(str(amount))
            if begins:
                starting[resource] = max(starting.get(resource, Decimal(0)), asked)
            else:
                total[resource] = total.get(resource, Decimal(0)) + asked
    return {key: int(max(total.get(key, 0), starting.get(key, 0))) for key in total.keys() | starting.keys()}


def _containers(spec: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], bool]]:
    """Each container, and whether it only runs while the pod begins."""
    for container in spec.get("containers") or []:
        yield container, False
    for container in spec.get("initContainers") or []:
        yield container, container.get("restartPolicy") != "Always"


def _storage_classes(answers: Answers) -> tuple[StorageClass, ...] | None:
    if answers.storage_classes is None:
        return None
    mark = "storageclass.kubernetes.io/is-default-class"
    return tuple(
        StorageClass(
            item["metadata"]["name"],
            item.get("provisioner", ""),
            (item["metadata"].get("annotations") or {}).get(mark) == "true",
        )
        for item in answers.storage_classes
    )


def _claims(answers: Answers) -> tuple[VolumeClaim, ...] | None:
    if answers.claims is None:
        return None
    return tuple(VolumeClaim(c["metadata"]["name"], c.get("status", {}).get("phase", "")) for c in answers.claims)


def _load_balancer(answers: Answers) -> LoadBalancer:
    """A Service with an address proves it; a known controller or a cloud's nodes make it likely."""
    evidence = []
    for service in answers.services or []:
        if service.get("spec", {}).get("type") != "LoadBalancer":
            continue
        name = f"{service['metadata'].get('namespace')}/{service['metadata']['name']}"
        if (service.get("status", {}).get("loadBalancer") or {}).get("ingress"):
            evidence.append(f"Service {name} has an address")
    evidence += [f"{where} runs {image}" for where, image in _balancers(answers)]
    clouds = sorted({cloud for node in answers.nodes
                     if (cloud := CLOUDS.get(_provider(node.get("spec", {}).get("providerID") or "")))})  # fmt: skip
    evidence += [f"nodes of {cloud}, whose cloud controller makes load balancers" for cloud in clouds]
    return LoadBalancer(bool(evidence), tuple(dict.fromkeys(evidence)))


def _balancers(answers: Answers) -> Iterator[tuple[str, str]]:
    for workload in [*(answers.deployments or []), *(answers.daemon_sets or [])]:
        for container in workload["spec"]["template"]["spec"].get("containers") or []:
            image = container.get("image", "")
            if any(word in image for word in _BALANCERS):
                yield f"{workload['metadata'].get('namespace')}/{workload['metadata']['name']}", image


def _installed(answers: Answers) -> tuple[Installed, ...] | None:
    """Also a DaemonSet without a pod: its nodes may still come."""
    if answers.daemon_sets is None:
        return None
    found = []
    for item in answers.daemon_sets:
        metadata, status = item["metadata"], item.get("status", {})
        owner = (metadata.get("labels") or {}).get(OWNER_LABEL)
        for plugin, image in plugins(item["spec"]["template"]["spec"]):
            found.append(Installed(
                plugin, metadata.get("namespace", ""), metadata["name"], image, owner,
                status.get("desiredNumberScheduled", 0), status.get("numberReady", 0),
            ))  # fmt: skip
    return tuple(dict.fromkeys(found))


def _leader_worker_sets(answers: Answers) -> LeaderWorkerSets:
    """The controller by its image, of whatever registry, or by upstream's label (lws 0.7.0 `config/default`)."""
    for item in answers.deployments or []:
        metadata = item["metadata"]
        labels = metadata.get("labels") or {}
        template = item["spec"]["template"]
        said = (template.get("metadata") or {}).get("labels") or {}
        manages = said.get("control-plane") == "controller-manager" and said.get("app.kubernetes.io/name") == "lws"
        images = [c.get("image", "").split("@")[0] for c in template["spec"].get("containers") or []]
        if manages or any(_LWS_IMAGE.search(image) for image in images):
            name = f"{metadata.get('namespace')}/{metadata['name']}"
            return LeaderWorkerSets(answers.leader_worker_sets, name, labels.get(OWNER_LABEL))
    return LeaderWorkerSets(answers.leader_worker_sets)


def _dra(answers: Answers) -> Dra | None:
    if answers.dra_api is None:
        return None
    devices: dict[str, dict[str, int]] = {}
    for item in answers.resource_slices:
        spec = item["spec"]
        nodes = devices.setdefault(spec["driver"], {})
        node = spec.get("nodeName") or "several nodes"
        nodes[node] = nodes.get(node, 0) + len(spec.get("devices") or [])
    classes = tuple(sorted(item["metadata"]["name"] for item in answers.device_classes))
    return Dra(answers.dra_api, classes, tuple(Driver(name, nodes) for name, nodes in sorted(devices.items())))
