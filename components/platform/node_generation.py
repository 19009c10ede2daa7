"""What makes the nodes of a tier these nodes and no others. Pure.

Part of the release: other nodes are another release, whose node group is built beside the live one's
and whose KV transfer is measured before it gets traffic. How many nodes there are is capacity, and no
part of it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any, Literal

from components.hardware.interfaces import AddressUse

Capacity = Literal["on-demand", "reservation", "block", "spot"]
AmiFamily = Literal["al2023", "bottlerocket"]

ID_LENGTH = 8
NODES_LABEL = "splitserve.dev/nodes-{}"
"""By tier, so that a node may serve several; the value is the generation's id."""
ROUTER_NODES = {NODES_LABEL.format("router"): "true"}
"""On the pool that runs the routers, whichever that is."""
ACCELERATOR_LABEL = "splitserve.dev/accelerator"
EFA_LABEL = "splitserve.dev/efa"
TIER_TAINT = "splitserve.dev/tier"
GPU_TAINT = "nvidia.com/gpu"
GPU_TAINT_VALUE = "present"


@dataclass(frozen=True)
class NodeGeneration:
    """`placement_group` is `own`, `none` or a name; None elsewhere means EKS's own choice."""

    tier: str
    instance: str
    zone: str
    capacity: Capacity
    reservation: str | None
    placement_group: str
    addresses: AddressUse
    disk_gib: int
    ami: AmiFamily
    ami_release: str | None
    kubernetes_version: str
    launch_template: str | None
    security_group: str | None
    repair: bool

    @property
    def id(self) -> str:
        """A short hash of everything above."""
        canonical = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:ID_LENGTH]

    @property
    def name(self) -> str:
        return f"{self.tier}-{self.id}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(content: dict[str, Any]) -> NodeGeneration:
        """The engine leaves out what is None."""
        values: dict[str, Any] = {name: content.get(name) for name in NodeGeneration.__dataclass_fields__}
        return NodeGeneration(**values)


def node_selector(generation: NodeGeneration) -> dict[str, str]:
    """The label by which pods of a tier find the nodes of their generation."""
    return {NODES_LABEL.format(generation.tier): generation.id}


def tolerations(tier: str) -> list[dict[str, str]]:
    """What lets a tier's pods onto its nodes, which nothing else may use."""
    return [
        {"key": GPU_TAINT, "operator": "Exists", "effect": "NoSchedule"},
        {"key": TIER_TAINT, "operator": "Equal", "value": tier, "effect": "NoSchedule"},
    ]
