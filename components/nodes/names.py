"""The words for what may run on a node beside the engines, and the labels by which nodes are chosen."""

from __future__ import annotations

from typing import Literal, get_args

Plugin = Literal["gpu", "efa", "rdma-shared", "dcgm", "gpu-dra", "efa-dra"]
PLUGINS: tuple[Plugin, ...] = get_args(Plugin)
DevicesBy = Literal["plugin", "dra", "none"]
"""Who hands devices to pods: a device plugin, a driver for Dynamic Resource Allocation, or nothing of ours."""

NAMESPACE = "kube-system"
"""Priority class system-node-critical is free to use here; elsewhere a cluster may limit it by quota
(https://kubernetes.io/docs/concepts/policy/resource-quotas/#limit-priority-class-consumption-by-default)."""
LWS_NAMESPACE = "lws-system"
"""Where the controller of LeaderWorkerSets runs: upstream's (lws 0.7.0 `config/default/kustomization.yaml`)."""
PART_OF = "app.kubernetes.io/part-of"
PART_OF_VALUE = "splitserve-nodes"
PRIVILEGED_BECAUSE = "splitserve.dev/privileged-because"

GPU_NODES = {"splitserve.dev/accelerator": "nvidia"}
EFA_NODES = {"splitserve.dev/efa": "true"}
"""Labels of the stack's own node groups. On a cluster that exists they are an argument."""
OWN_PLUGIN_LABEL = "splitserve.dev/gpu-plugin"
OWN_PLUGIN = "built-in"
"""On nodes whose AMI runs NVIDIA's device plugin itself: Bottlerocket's NVIDIA variants
(https://bottlerocket.dev/en/os/latest/#/api/settings/kubernetes-device-plugins/)."""

GPU_RESOURCE = "nvidia.com/gpu"
EFA_RESOURCE = "vpc.amazonaws.com/efa"
RDMA_PREFIX = "rdma"
"""The RDMA shared device plugin's own prefix (its README at v1.5.3, `resourcePrefix`)."""
