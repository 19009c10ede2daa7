"""Which plugin a DaemonSet is, by its containers' images and commands. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_BY_IMAGE = (
    ("aws-efa-k8s-device-plugin", "efa"),
    ("k8s-rdma-shared-dev-plugin", "rdma-shared"),
    ("sriov-network-device-plugin", "sriov"),
    ("dcgm-exporter", "dcgm"),
    ("gpu-feature-discovery", "gpu-feature-discovery"),
    ("node-feature-discovery", "node-feature-discovery"),
    ("dranet", "efa-dra"),
    ("nvidia-gpu-device-plugin", "gpu"),
    ("nvidia/k8s-device-plugin", "gpu"),
    ("rocm/k8s-device-plugin", "gpu-amd"),
    ("dra-driver-nvidia-gpu", "gpu-dra"),
    ("k8s-dra-driver-gpu", "gpu-dra"),
    ("efa-exporter", "efa-metrics"),
    ("efa_exporter", "efa-metrics"),
    ("efa-node-exporter", "efa-metrics"),
    ("node_exporter_efa", "efa-metrics"),
    ("node-exporter", "node-exporter"),
    ("metallb", "metallb"),
)
_OTHER_PROGRAMS = {
    "gpu-feature-discovery": "gpu-feature-discovery",
    "mps-control-daemon": "mps-control",
    "config-manager": None,
    "compute-domain-kubelet-plugin": "compute-domains",
}
"""One image of NVIDIA's holds several programs: the device plugin's is GPU feature discovery's and the MPS
daemon's too (k8s-device-plugin v0.20.0, its Helm chart), the DRA driver's is that of compute domains."""


def plugins(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(plugin, image) of each container of a pod specification that is one we know."""
    for container in spec.get("containers") or []:
        if plugin := _plugin(container):
            yield plugin, container.get("image", "")


def _plugin(container: Mapping[str, Any]) -> str | None:
    """By the program where the image holds several, else by the image's repository."""
    said = " ".join([container.get("name", ""), *(container.get("command") or []), *(container.get("args") or [])])
    repository = container.get("image", "").split("@")[0].lower()
    found = next((plugin for word, plugin in _BY_IMAGE if word in repository), None)
    if found in ("gpu", "gpu-dra"):
        for program, plugin in _OTHER_PROGRAMS.items():
            if program in said or (program == "compute-domain-kubelet-plugin" and said.startswith("compute-domains")):
                return plugin
    return found
