"""The whole platform on AWS: network, cluster, node groups and the way in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pulumi

from components.platform.cluster import Cluster, ClusterArgs
from components.platform.efa_security import EfaSecurity, EfaSecurityArgs
from components.platform.eks_access import EksCluster
from components.platform.iam import EC2, NODE_POLICIES
from components.platform.launch_template import known_instance
from components.platform.network import Network, NetworkArgs
from components.platform.node_generation import NodeGeneration
from components.platform.node_group import NodeGroup, NodeGroupArgs
from components.platform.roles import Role, RoleArgs


@dataclass(frozen=True)
class Pool:
    """CPU nodes that are there before any release: for the cluster's own pods, routers and renderers."""

    generation: NodeGeneration
    nodes: int
    max_nodes: int


@dataclass(frozen=True)
class AwsPlatformArgs:
    """`generations` is every generation of GPU nodes that a release of this update needs, by name;
    `max_nodes` the largest size of each tier's group; `cluster` is complete but for its subnets."""

    region: str
    network: NetworkArgs
    cluster: ClusterArgs
    pools: Sequence[Pool]
    generations: Mapping[str, NodeGeneration]
    max_nodes: Mapping[str, int]
    tags: Mapping[str, str]


class AwsPlatform(pulumi.ComponentResource):
    """`reach` is what a kubeconfig needs; `ready` what pods of ours need."""

    network: Network
    cluster: Cluster
    reach: pulumi.Output[EksCluster]
    pools: dict[str, NodeGroup]
    node_groups: dict[str, NodeGroup]
    efa_security: EfaSecurity
    ready: list[pulumi.Resource]

    def __init__(self, name: str, args: AwsPlatformArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("splitserve:platform:AwsPlatform", name, None, opts)
        self._args, self._child = args, pulumi.ResourceOptions(parent=self)
        self.network = Network(name, args.network, self._child)
        self.cluster = self._cluster(name)
        self.efa_security = EfaSecurity("efa", EfaSecurityArgs(self.network.vpc_id), self._child)
        self._role = Role("node", RoleArgs(EC2, NODE_POLICIES), self._child)
        self.pools = {pool.generation.tier: self._pool(name, pool) for pool in args.pools}
        later = self.cluster.later_addons(list(self.pools.values()))
        self.node_groups = {key: self._node_group(name, found) for key, found in args.generations.items()}
        self.reach = self._reach()
        self.ready = [*later, *self.node_groups.values()]
        self.register_outputs({"clusterName": self.cluster.name})

    def _cluster(self, name: str) -> Cluster:
        args = replace(self._args.cluster, subnets=list(self.network.private.values()))
        return Cluster(name, args, self._child)

    def _pool(self, name: str, pool: Pool) -> NodeGroup:
        groups = [self.cluster.security_group]
        args = self._group_args(pool.generation, groups, pool.nodes, pool.max_nodes, pool=True)
        return NodeGroup(f"{name}-{pool.generation.tier}", args, self._after())

    def _node_group(self, name: str, generation: NodeGeneration) -> NodeGroup:
        found = known_instance(generation.instance)
        groups = [self.cluster.security_group, *([self.efa_security.id] if found and found.efa_interfaces else [])]
        most = self._args.max_nodes.get(generation.tier, 1)
        return NodeGroup(
            f"{name}-{generation.name}", self._group_args(generation, groups, 0, most, pool=False), self._after()
        )

    def _group_args(self, generation: NodeGeneration, groups: list[pulumi.Output[str]], nodes: int, most: int, *,
                    pool: bool) -> NodeGroupArgs:  # fmt: skip
        return NodeGroupArgs(
            cluster=self.cluster.name,
            role_arn=self._role.arn,
            generation=generation,
            subnet=self.network.private[generation.zone],
            security_groups=groups,
            nodes=nodes,
            max_nodes=most,
            pool=pool,
            tags=dict(self._args.tags),
        )

    def _after(self) -> pulumi.ResourceOptions:
        """Nodes need their rights, the CNI and a way out before they can join."""
        needed = [*self._role.ready, *self.cluster.before_nodes, *self.network.ready, self.efa_security]
        return pulumi.ResourceOptions(parent=self, depends_on=needed)

    def _reach(self) -> pulumi.Output[EksCluster]:
        cluster, region = self.cluster, self._args.region
        parts = pulumi.Output.all(cluster.name, cluster.arn, cluster.endpoint, cluster.certificate_authority)
        return parts.apply(lambda p: EksCluster(p[0], region, p[1], p[2], p[3]))
