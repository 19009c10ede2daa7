"""From settings to every argument of the components on AWS. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from components.platform.addons import addon_versions
from components.platform.addresses import subnets
from components.platform.aws_cluster import AwsClusterArgs, Pool
from components.platform.cluster import ClusterArgs
from components.platform.cluster_facts import ClusterFacts
from components.platform.gpu_nodes import GpuNodesArgs
from components.platform.load_balancer import LoadBalancerArgs
from components.platform.network import NetworkArgs
from components.platform.node_generation import NodeGeneration
from components.release.release import Release
from infra.aws_names import POOLS, STACK_TAG, platform_name, router_pool, second_zone, zones
from infra.node_generations import node_generation
from infra.schema.platform import Aws
from infra.settings import Settings

ALWAYS = ["vpc-cni", "kube-proxy", "coredns", "eks-pod-identity-agent", "eks-node-monitoring-agent"]


def generations(releases: Iterable[Release | None]) -> dict[str, NodeGeneration]:
    """Every generation of GPU nodes that some release needs, by name."""
    found = [NodeGeneration.from_json(n) for release in releases if release for n in release.nodes.values()]
    return {generation.name: generation for generation in found}


def stack_tags(aws: Aws, stack: str) -> dict[str, str]:
    return {STACK_TAG: stack, **aws.tags}


def cluster_args(settings: Settings, stack: str) -> AwsClusterArgs:
    aws = aws_of(settings)
    return AwsClusterArgs(
        region=aws.region,
        network=_network(aws, settings),
        cluster=_cluster(aws, settings, platform_name(stack)),
        pools=_pools(aws),
        router_pool=router_pool(aws),
        tags=stack_tags(aws, stack),
    )


def gpu_nodes_args(settings: Settings, stack: str, cluster: ClusterFacts,
                   needed: dict[str, NodeGeneration]) -> GpuNodesArgs:  # fmt: skip
    aws = aws_of(settings)
    most = {generation.tier: _most(aws, generation.tier) for generation in needed.values()}
    return GpuNodesArgs(cluster, needed, most, stack_tags(aws, stack))


def full_sizes(settings: Settings) -> dict[str, int]:
    """How many nodes each engine tier's groups get, whatever their generation."""
    aws = settings.platform.aws
    groups = dict(aws.node_groups) if aws else {}
    return {tier: group.nodes for tier, group in groups.items() if group}


def aws_of(settings: Settings) -> Aws:
    assert settings.platform.aws is not None  # Platform.parts_fit
    return settings.platform.aws


def _most(aws: Aws, tier: str) -> int:
    group = getattr(aws.node_groups, tier)
    return (group.max_nodes or group.nodes) if group else 1


def _network(aws: Aws, settings: Settings) -> NetworkArgs:
    return NetworkArgs(
        cidr=aws.network.cidr,
        region=aws.region,
        gpu_zone=aws.zone,
        ranges=subnets(aws.network.cidr, aws.zone, zones(aws)),
        nat=aws.network.nat,
        endpoints=aws.network.endpoints,
        public=settings.edge.internet_facing or aws.network.public_subnets,
    )


def _cluster(aws: Aws, settings: Settings, name: str) -> ClusterArgs:
    wanted, model = aws.cluster, settings.model
    drivers = [
        *(["aws-mountpoint-s3-csi-driver"] if model.s3 else []),
        *(["aws-fsx-csi-driver"] if model.lustre else []),
    ]
    asked = [name for name in wanted.addons if name not in (*ALWAYS, *drivers)]
    return ClusterArgs(
        name=name,
        version=aws.kubernetes_version,
        subnets=[],
        public_cidrs=wanted.public_cidrs,
        admins=wanted.admins,
        log_types=list(wanted.log_types),
        log_days=wanted.log_days,
        deletion_protection=wanted.deletion_protection,
        addons=addon_versions([*ALWAYS, *drivers, *asked], wanted.addons),
    )


def _pools(aws: Aws) -> list[Pool]:
    groups = {tier: getattr(aws.node_groups, tier) for tier in POOLS}
    return [
        Pool(node_generation(tier, group, aws), group.nodes, group.max_nodes or group.nodes)
        for tier, group in groups.items()
        if group
    ]


def load_balancer_args(settings: Settings, cluster: ClusterFacts) -> LoadBalancerArgs:
    """The way in from outside, before the pool that runs the routers."""
    aws, edge = aws_of(settings), settings.edge
    found = cluster.public if edge.internet_facing else cluster.private
    where = aws.load_balancer_zones or [aws.zone]
    return LoadBalancerArgs(
        kind=edge.load_balancer,
        vpc_id=cluster.vpc_id,
        account=cluster.account,
        subnets={zone: found[zone] for zone in _enough(where, aws, edge.load_balancer)},
        internet_facing=edge.internet_facing,
        client_cidrs=edge.client_cidrs or [aws.network.cidr],
        node_security_group=cluster.security_group,
        autoscaling_group=cluster.router_nodes,
        node_port=edge.node_port,
        port=edge.port,
        certificate=edge.certificate,
        idle_timeout_s=edge.idle_timeout_s,
        cross_zone=edge.cross_zone,
        drain_s=max(settings.router.drain_s, settings.rollout.drain_limit_s),
        access_logs=edge.access_logs,
        deletion_protection=edge.deletion_protection,
    )


def _enough(where: list[str], aws: Aws, kind: str) -> list[str]:
    """An application balancer needs two zones ("Availability Zones", user guide)."""
    given = list(dict.fromkeys(where))
    return list(dict.fromkeys([*given, second_zone(aws)])) if kind == "application" and len(given) < 2 else given
