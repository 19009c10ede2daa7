"""One generation of GPU nodes, or a pool of CPU nodes, as an EKS managed node group.

A GPU group starts empty and is never replaced: its nodes are started for a candidate and stopped after
a refusal by `NodeCount`, so that "no capacity" is an answer about the candidate and not a broken stack.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pulumi
import pulumi_aws as aws

from components.hardware.catalogue import known_instance
from components.hardware.instance import Instance, architecture_of
from components.nodes.names import OWN_PLUGIN, OWN_PLUGIN_LABEL
from components.platform.launch_template import launch_template
from components.platform.node_generation import (
    ACCELERATOR_LABEL,
    EFA_LABEL,
    GPU_TAINT,
    GPU_TAINT_VALUE,
    NODES_LABEL,
    ROUTER_NODES,
    TIER_TAINT,
    NodeGeneration,
)

CAPACITY_TYPE = {"on-demand": "ON_DEMAND", "reservation": "ON_DEMAND", "block": "CAPACITY_BLOCK", "spot": "SPOT"}
"""A reservation is on-demand capacity that is spoken for (EKS user guide, "Capacity Reservations")."""
CREATE_LIMIT = "30m"
REPAIR_AT_ONCE = 1
"""Nodes that EKS may replace at the same time: a tier stays served."""


@dataclass(frozen=True)
class NodeGroupArgs:
    """`pool` is a CPU pool that starts at once with `nodes`; without it the group starts empty.
    `security_groups` go on every interface, the cluster's own first."""

    cluster: pulumi.Input[str]
    role_arn: pulumi.Input[str]
    generation: NodeGeneration
    subnet: pulumi.Input[str]
    security_groups: Sequence[pulumi.Input[str]]
    nodes: int
    max_nodes: int
    pool: bool = False
    runs_routers: bool = False
    tags: dict[str, str] = field(default_factory=dict)


class NodeGroup(pulumi.ComponentResource):
    """Launch template, placement group and node group of one generation."""

    name: pulumi.Output[str]
    autoscaling_group: pulumi.Output[str]

    def __init__(self, name: str, args: NodeGroupArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("splitserve:platform:NodeGroup", name, None, opts)
        self._args, self._child = args, pulumi.ResourceOptions(parent=self)
        group = self._node_group(name, self._template(name))
        self.name = group.node_group_name
        self.autoscaling_group = group.resources.apply(_autoscaling_group)
        self.register_outputs({"name": self.name})

    def _template(self, name: str) -> aws.eks.NodeGroupLaunchTemplateArgs:
        args, generation = self._args, self._args.generation
        if generation.launch_template:
            return aws.eks.NodeGroupLaunchTemplateArgs(id=generation.launch_template, version="$Latest")
        groups = (
            [generation.security_group, *args.security_groups[:1]]
            if generation.security_group
            else args.security_groups
        )
        tags = {**args.tags, "Name": name}
        content = launch_template(generation, list(groups), self._placement_group(name), tags)
        template = aws.ec2.LaunchTemplate(
            name, name_prefix=f"{name}-", update_default_version=True, opts=self._child, **content
        )
        return aws.eks.NodeGroupLaunchTemplateArgs(id=template.id, version=template.latest_version.apply(str))

    def _placement_group(self, name: str) -> pulumi.Input[str] | None:
        given = self._args.generation.placement_group
        if given == "own":
            return aws.ec2.PlacementGroup(name, strategy="cluster", opts=self._child).name
        return None if given == "none" else given

    def _node_group(self, name: str, template: aws.eks.NodeGroupLaunchTemplateArgs) -> aws.eks.NodeGroup:
        args, generation = self._args, self._args.generation
        found = known_instance(generation.instance)
        count = args.nodes if args.pool else 0
        return aws.eks.NodeGroup(
            name,
            node_group_name=name,
            cluster_name=args.cluster,
            node_role_arn=args.role_arn,
            subnet_ids=[args.subnet],
            ami_type=ami_type(generation, found),
            release_version=generation.ami_release,
            version=generation.kubernetes_version,
            capacity_type=CAPACITY_TYPE[generation.capacity],
            launch_template=template,
            scaling_config={"desired_size": count, "min_size": count, "max_size": max(1, args.max_nodes)},
            labels=node_labels(generation, found, args.pool) | (ROUTER_NODES if args.runs_routers else {}),
            taints=[] if args.pool else taints(generation),
            # A full reservation has no room for one node more: end the old one first.
            update_config={"max_unavailable": 1, "update_strategy": "MINIMAL" if _reserved(generation) else "DEFAULT"},
            node_repair_config={"enabled": True, "max_parallel_nodes_repaired_count": REPAIR_AT_ONCE}
            if generation.repair
            else {"enabled": False},
            opts=pulumi.ResourceOptions(
                parent=self,
                ignore_changes=[] if args.pool else ["scalingConfig.desiredSize"],
                custom_timeouts=pulumi.CustomTimeouts(create=CREATE_LIMIT),
            ),
        )


def ami_type(generation: NodeGeneration, found: Instance | None) -> str:
    """EKS's name of the AMI: family, architecture, and whether it holds NVIDIA's driver."""
    arm = architecture_of(generation.instance, found) == "arm64"
    gpu = found is not None and found.gpus > 0
    machine = "ARM_64" if arm else "x86_64"
    if generation.ami == "bottlerocket":
        return f"BOTTLEROCKET_{machine}" + ("_NVIDIA" if gpu else "")
    return f"AL2023_{machine}_" + ("NVIDIA" if gpu else "STANDARD")


def node_labels(generation: NodeGeneration, found: Instance | None, pool: bool) -> dict[str, str]:
    """By which pods, device plugins and people find the nodes."""
    labels = {NODES_LABEL.format(generation.tier): "true" if pool else generation.id}
    if found and found.gpus:
        labels[ACCELERATOR_LABEL] = "nvidia"
        if generation.ami == "bottlerocket":
            labels[OWN_PLUGIN_LABEL] = OWN_PLUGIN
    if found and found.efa_interfaces:
        labels[EFA_LABEL] = "true"
    return labels


def taints(generation: NodeGeneration) -> list[aws.eks.NodeGroupTaintArgs]:
    """Only the tier's pods and what tolerates GPU nodes may land there."""
    effect = "NO_SCHEDULE"
    return [
        aws.eks.NodeGroupTaintArgs(key=GPU_TAINT, value=GPU_TAINT_VALUE, effect=effect),
        aws.eks.NodeGroupTaintArgs(key=TIER_TAINT, value=generation.tier, effect=effect),
    ]


def _reserved(generation: NodeGeneration) -> bool:
    return generation.capacity in ("reservation", "block")


def _autoscaling_group(resources: Sequence[aws.eks.outputs.NodeGroupResource] | None) -> str:
    groups = [group for entry in resources or [] for group in entry.autoscaling_groups or []]
    return (groups[0].name or "") if groups else ""
