"""Which EKS node groups are GPU nodes, and which tiers they carry."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from components.hardware.catalogue import catalogue

NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
NODES_LABEL = "splitserve.dev/nodes-"
"""A node's label by tier; the prefix of components/platform/node_generation.py's NODES_LABEL."""
EXCHANGING_TIERS = ("prefill", "decode")
"""The tiers between which KV cache moves."""
GPU_TIERS = (*EXCHANGING_TIERS, "collocated")
GPU_FAMILY = re.compile(r"(p|g|gr)\d")
"""EC2's accelerated families with NVIDIA GPUs: P and G (EC2 user guide, instance type names)."""


DECIDING = ("labels", "amiType", "instanceTypes")
"""The properties that tell a GPU node group."""


def tiers(props: Mapping[str, Any]) -> list[str]:
    """The tiers that a node group is labelled for."""
    labels = props.get("labels") or {}
    return [key.removeprefix(NODES_LABEL) for key in labels if key.startswith(NODES_LABEL)]


def is_gpu_type(name: str) -> bool:
    return name in catalogue() or bool(GPU_FAMILY.match(name))


def is_gpu_group(props: Mapping[str, Any]) -> bool:
    """By its labels, its NVIDIA image or its instance types: those may be in the launch template alone."""
    return (
        any(tier in GPU_TIERS for tier in tiers(props))
        or "NVIDIA" in (props.get("amiType") or "")
        or any(is_gpu_type(name) for name in props.get("instanceTypes") or [])
    )
