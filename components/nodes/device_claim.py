"""What a tier asks for under Dynamic Resource Allocation: one GPU with the EFA devices on its PCIe root.

A pod names the template once for each of its GPUs. One claim for all would break two limits: a claim
allocates at most 32 devices (Kubernetes' AllocationResultsMaxSize; a p5 node has 8 GPUs and 32 EFAs), and
`matchAttribute` ties every device that it names to one and the same PCIe root.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pulumi

from components.nodes import dranet, nvidia_dra_driver
from components.nodes.daemon import declare, metadata

DRA_SINCE = (1, 34)
"""resource.k8s.io/v1 is served from here on (https://kubernetes.io/blog/2025/09/01/kubernetes-v1-34-dra-updates/)."""
DEVICES_A_CLAIM = 32
PCIE_ROOT = "resource.kubernetes.io/pcieRoot"


@dataclass(frozen=True)
class DeviceClaimArgs:
    """`aligned`: the EFA devices lie on the GPU's PCIe root; across roots DRANET's guide measured 6 GB/s
    in place of 11 on p4d (kubernetes-sigs/dranet, site/content/docs/user/aws-eks-efa.md)."""

    name: str
    namespace: str
    owner: str
    efas_per_gpu: int = 0
    aligned: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.efas_per_gpu < DEVICES_A_CLAIM:
            raise ValueError(f"{self.name}: found {self.efas_per_gpu} EFA devices a GPU, wanted 0 to 31")


def dra_fault(kubernetes_version: str) -> str | None:
    """Why this cluster can't allocate devices by DRA, with the way out; None where it can."""
    parts = re.match(r"v?(\d+)\.(\d+)", kubernetes_version)
    if parts and (int(parts[1]), int(parts[2])) >= DRA_SINCE:
        return None
    return (
        f"found Kubernetes {kubernetes_version}, wanted 1.34 or newer for devices by DRA (resource.k8s.io/v1); "
        "upgrade the cluster, or let device plugins hand out the devices"
    )


def render(args: DeviceClaimArgs) -> dict[str, Any]:
    """The ResourceClaimTemplate."""
    requests = [_request("gpu", nvidia_dra_driver.DEVICE_CLASS, 1)]
    devices: dict[str, Any] = {"requests": requests}
    if args.efas_per_gpu:
        requests.append(_request("efa", dranet.DEVICE_CLASS, args.efas_per_gpu))
        if args.aligned:
            devices["constraints"] = [{"requests": ["gpu", "efa"], "matchAttribute": PCIE_ROOT}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": metadata(args.name, args.owner, args.namespace),
        "spec": {"spec": {"devices": devices}},
    }


def _request(name: str, device_class: str, count: int) -> dict[str, Any]:
    exactly = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count}
    return {"name": name, "exactly": exactly}


def template_name(efas_per_gpu: int) -> str:
    """By what it holds: releases that ask for the same share one, and it is never changed under a live one."""
    return f"gpu-with-{efas_per_gpu}-efa"


def efas_per_gpu(template: str) -> int | None:
    """What a name of ours says; None for another's."""
    found = re.fullmatch(r"gpu-with-(\d+)-efa", template)
    return int(found[1]) if found else None


class DeviceClaim(pulumi.ComponentResource):
    """The template in the tiers' namespace."""

    template: pulumi.Output[str]

    def __init__(self, name: str, args: DeviceClaimArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("splitserve:nodes:DeviceClaim", name, None, opts)
        self.template = declare(render(args), self).metadata["name"]
        self.register_outputs({"template": self.template})
