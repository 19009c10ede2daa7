"""Node groups made visible on the local cluster's one node: labels and extended resources.

Every active node group with a desired size of one or more puts its labels on the node, and the sum of
its instances' GPUs and EFA interfaces into the node's capacity, as kubelet and the device plugins
would. Taints are left out: the one node must serve everybody. So are the labels by which device plugins
find nodes: there is no device for them here, and no way to their images.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from kubernetes import client as k8s
from kubernetes import config as k8s_config
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from components.hardware.catalogue import catalogue
from components.nodes.names import EFA_NODES, GPU_NODES
from tools.awsim.eks_app import Eks
from tools.awsim.eks_state import Thing
from tools.localcluster.layout import NODE_NAME

GPU, EFA = "nvidia.com/gpu", "vpc.amazonaws.com/efa"
LEFT_OUT = ("topology.kubernetes.io/zone", *GPU_NODES, *EFA_NODES)
"""The zone, which the local cluster's own tools set, and the device plugins' labels."""
POLL_S = 0.5


def wanted(groups: Iterable[Thing]) -> tuple[dict[str, str], dict[str, int]]:
    """(labels, extended resources) that the active groups give the node."""
    labels: dict[str, str] = {}
    resources: Counter[str] = Counter()
    for group in groups:
        desired = group.fields["scalingConfig"]["desiredSize"]
        if group.settled_status() not in ("ACTIVE", "UPDATING") or not desired:
            continue
        labels |= {key: value for key, value in group.fields["labels"].items() if key not in LEFT_OUT}
        found = catalogue().get(group.fields["instanceTypes"][0])
        if found:
            resources += Counter({GPU: found.gpus * desired, EFA: found.efa_interfaces * desired})
    return labels, dict(resources)


class NodeLabels(threading.Thread):
    """Keeps the node as the node groups say. What it set, it takes away again."""

    def __init__(self, eks: Eks, kubeconfig: str) -> None:
        super().__init__(daemon=True, name="node-labels")
        self._eks = eks
        self._api = k8s.CoreV1Api(k8s_config.new_client_from_config(kubeconfig))
        self._set: tuple[dict[str, str], dict[str, int]] = ({}, {})
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.wait(POLL_S):
            self.apply(*wanted(self._groups()))

    def end(self) -> None:
        """Take everything away and stop."""
        self._ended.set()
        self.join(POLL_S * 4)
        self.apply({}, {})

    def _groups(self) -> Iterator[Thing]:
        for region in list(self._eks.regions.values()):
            for cluster in list(region.clusters.values()):
                yield from list(cluster.node_groups.values())

    def apply(self, labels: dict[str, str], resources: dict[str, int]) -> None:
        """Patch what differs from the last patch; a cluster that is away is asked again later."""
        if (labels, resources) == self._set:
            return
        old_labels, old_resources = self._set
        changed: dict[str, Any] = {key: None for key in old_labels if key not in labels} | labels
        capacity = {key: None for key in old_resources if key not in resources}
        capacity |= {key: str(value) for key, value in resources.items()}
        try:
            self._api.patch_node(NODE_NAME, {"metadata": {"labels": changed}}, _request_timeout=10)
            status = {"status": {"capacity": capacity, "allocatable": capacity}}
            self._api.patch_node_status(NODE_NAME, status, _request_timeout=10)
        except (ApiException, HTTPError) as error:
            print(f"the node's labels were not set: {error}", file=sys.stderr)
            return
        self._set = (labels, resources)
