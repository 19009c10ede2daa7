"""A cluster on AWS that any number of serving stacks may use: network, control plane, CPU pools, roles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pulumi

from components.platform.cluster import Cluster, ClusterArgs
from components.platform.cluster_facts import ClusterFacts
from components.platform.efa_security import EfaSecurity, EfaSecurityArgs
from components.platform.iam import EC2, NODE_POLICIES
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
class AwsClusterArgs:
    """`cluster` is complete but for its subnets; routers run on the pool `router_pool`."""

    region: str
    network: NetworkArgs
    cluster: ClusterArgs
    pools: Sequence[Pool]
    router_pool: str
    tags: Mapping[str, str]


class AwsCluster(pulumi.ComponentResource):
    """`before_nodes` is what further nodes need to join; `ready` what pods need beside nodes of theirs."""

    facts: ClusterFacts
    pools: dict[str, NodeGroup]
    before_nodes: list[pulumi.Resource]
    ready: list[pulumi.Resource]

    def __init__(self, name: str, args: AwsClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("splitserve:platform:AwsCluster", name, None, opts)
        self._args, self._child = args, pulumi.ResourceOptions(parent=self)
        self._network = Network(name, args.network, self._child)
        self._cluster = Cluster(name, replace(args.cluster, subnets=list(self._network.private.values())), self._child)
        self._efa = EfaSecurity("efa", EfaSecurityArgs(self._network.vpc_id), self._child)
        self._role = Role("node", RoleArgs(EC2, NODE_POLICIES), self._child)
        # Nodes need their rights, the CNI and a way out before they can join.
        self.before_nodes = [*self._role.ready, *self._cluster.before_nodes, *self._network.ready, self._efa]
        self.pools = {pool.generation.tier: self._pool(name, pool) for pool in args.pools}
        self.ready = [*self._cluster.later_addons(list(self.pools.values()))]
        self.facts = self._facts()
        self.register_outputs({"clusterName": self.facts.name})

    @property
    def before_objects(self) -> list[pulumi.Resource]:
        """What has to be there before Kubernetes' API takes objects of ours."""
        return self._cluster.before_nodes

    def _pool(self, name: str, pool: Pool) -> NodeGroup:
        args = NodeGroupArgs(
            cluster=self._cluster.name,
            role_arn=self._role.arn,
            generation=pool.generation,
            subnet=self._network.private[pool.generation.zone],
            security_groups=[self._cluster.security_group],
            nodes=pool.nodes,
            max_nodes=pool.max_nodes,
            pool=True,
            runs_routers=pool.generation.tier == self._args.router_pool,
            tags=dict(self._args.tags),
        )
        opts = pulumi.ResourceOptions(parent=self, depends_on=self.before_nodes)
        return NodeGroup(f"{name}-{pool.generation.tier}", args, opts)

    def _facts(self) -> ClusterFacts:
        cluster, network = self._cluster, self._network
        return ClusterFacts(
            name=cluster.name,
            arn=cluster.arn,
            endpoint=cluster.endpoint,
            certificate_authority=cluster.certificate_authority,
            region=self._args.region,
            kubernetes_version=self._args.cluster.version,
            account=network.account,
            vpc_id=network.vpc_id,
            private=network.private,
            public=network.public,
            security_group=cluster.security_group,
            efa_security_group=self._efa.id,
            node_role_arn=self._role.arn,
            router_nodes=self.pools[self._args.router_pool].autoscaling_group,
        )
