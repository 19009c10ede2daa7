"""What a plan wants of AWS, as far as AWS can be asked about it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from components.hardware.catalogue import catalogue
from components.hardware.interfaces import AddressUse

Capacity = Literal["on-demand", "reservation", "block", "spot"]
GPU_TIERS = ("prefill", "decode", "collocated")


@dataclass(frozen=True)
class WantedGroup:
    """A node group. `key` is its place in the stack file, such as `platform.aws.nodeGroups.prefill`.

    `ami` is `al2023`, `bottlerocket` or the id of an AMI of your own. `node_group` is the end of the EKS
    node group's name, by which nodes that this group already has are known again.
    """

    key: str
    tier: str
    instance: str
    nodes: int
    zone: str
    capacity: Capacity = "on-demand"
    reservation: str | None = None
    placement_group: str = "none"
    addresses: AddressUse = "save"
    ami: str = "al2023"
    ami_release: str | None = None
    security_group: str | None = None
    launch_template: str | None = None
    node_group: str = ""

    @property
    def has_gpus(self) -> bool:
        return self.instance in catalogue() or self.tier in GPU_TIERS


@dataclass(frozen=True)
class Wanted:
    """A cluster. `eips` are Elastic IP addresses to allocate; `subnet_ids` those of a VPC that exists,
    empty where the stack makes one. What carries `own_tag` is the stack's already."""

    region: str
    zone: str
    groups: tuple[WantedGroup, ...]
    cluster_name: str
    kubernetes_version: str
    eips: int = 0
    subnet_ids: tuple[str, ...] = ()
    vpcs: int = 1
    """Networks to make: none where the cluster is there, or another stack's."""
    other_zones: tuple[tuple[str, str], ...] = ()
    """(key in the stack file, zone) of zones beside those of the node groups."""
    own_tag: tuple[str, str] | None = None
    swap: bool = False
    """Whether nodes that the cluster has end before others start, so that they make room."""
    programs: tuple[str, ...] = ("aws",)
    """What must be on PATH: the kubeconfig gets its token from `aws eks get-token`."""
