"""The GPU node groups of a serving stack: one for each generation of nodes that a release needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi

from components.hardware.catalogue import known_instance
from components.platform.cluster_facts import ClusterFacts
from components.platform.node_generation import NodeGeneration
from components.platform.node_group import NodeGroup, NodeGroupArgs


@dataclass(frozen=True)
class GpuNodesArgs:
    """`generations` is every generation that a release of this update needs, by name; `max_nodes` the
    largest size of each tier's group."""

    cluster: ClusterFacts
    generations: Mapping[str, NodeGeneration]
    max_nodes: Mapping[str, int]
    tags: Mapping[str, str]


class GpuNodes(pulumi.ComponentResource):
    """`groups` by the generation's name; each starts empty."""

    groups: dict[str, NodeGroup]

    def __init__(self, name: str, args: GpuNodesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("splitserve:platform:GpuNodes", name, None, opts)
        self._args, self._name = args, name
        self.groups = {key: self._group(generation) for key, generation in args.generations.items()}
        self.register_outputs({key: group.name for key, group in self.groups.items()})

    def _group(self, generation: NodeGeneration) -> NodeGroup:
        args, cluster = self._args, self._args.cluster
        found = known_instance(generation.instance)
        efa = [cluster.efa_security_group] if found and found.efa_interfaces else []
        group = NodeGroupArgs(
            cluster=cluster.name,
            role_arn=cluster.node_role_arn,
            generation=generation,
            subnet=cluster.private[generation.zone],
            security_groups=[cluster.security_group, *efa],
            nodes=0,
            max_nodes=args.max_nodes.get(generation.tier, 1),
            tags=dict(args.tags),
        )
        return NodeGroup(f"{self._name}-{generation.name}", group, pulumi.ResourceOptions(parent=self))
