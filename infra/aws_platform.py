"""From a plan to the platform on AWS: every argument of its components. Pure but for the last function."""

from __future__ import annotations

from collections.abc import Iterable

import pulumi

from components.platform.addons import addon_versions
from components.platform.addresses import subnets
from components.platform.aws_platform import AwsPlatform, AwsPlatformArgs, Pool
from components.platform.cluster import ClusterArgs
from components.platform.load_balancer import LoadBalancer, LoadBalancerArgs
from components.platform.network import NetworkArgs
from components.platform.node_generation import NodeGeneration
from components.release.release import Release
from infra.aws_names import POOLS, STACK_TAG, platform_name, second_zone, zones
from infra.node_generations import ROUTER, node_generation
from infra.plan import Plan
from infra.schema.platform import Aws
from infra.settings import Settings

ALWAYS = ["vpc-cni", "kube-proxy", "coredns", "eks-pod-identity-agent", "eks-node-monitoring-agent"]


def generations(releases: Iterable[Release | None]) -> dict[str, NodeGeneration]:
    """Every generation of GPU nodes that some release needs, by name."""
    found = [NodeGeneration.from_json(n) for release in releases if release for n in release.nodes.values()]
    return {generation.name: generation for generation in found}


def platform_args(settings: Settings, stack: str, needed: dict[str, NodeGeneration]) -> AwsPlatformArgs:
    aws = settings.platform.aws
    assert aws is not None  # Platform.parts_fit
    tags = {STACK_TAG: stack, **aws.tags}
    return AwsPlatformArgs(
        region=aws.region,
        network=_network(aws, settings),
        cluster=_cluster(aws, settings, platform_name(stack)),
        pools=_pools(aws),
        generations=needed,
        max_nodes={g.tier: _most(aws, g.tier) for g in needed.values()},
        tags=tags,
    )


def full_sizes(settings: Settings) -> dict[str, int]:
    """How many nodes each engine tier's groups get, whatever their generation."""
    aws = settings.platform.aws
    groups = dict(aws.node_groups) if aws else {}
    return {tier: group.nodes for tier, group in groups.items() if group}


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
        public=settings.edge.internet_facing,
    )


def _cluster(aws: Aws, settings: Settings, name: str) -> ClusterArgs:
    wanted, model = aws.cluster, settings.model
    drivers = [
        *(["aws-mountpoint-s3-csi-driver"] if model.s3 else []),
        *(["aws-fsx-csi-driver"] if model.lustre else []),
    ]
    return ClusterArgs(
        name=name,
        version=aws.kubernetes_version,
        subnets=[],
        public_cidrs=wanted.public_cidrs,
        admins=wanted.admins,
        log_types=list(wanted.log_types),
        log_days=wanted.log_days,
        deletion_protection=wanted.deletion_protection,
        addons=addon_versions([*ALWAYS, *drivers], wanted.addons),
    )


def _pools(aws: Aws) -> list[Pool]:
    groups = {tier: getattr(aws.node_groups, tier) for tier in POOLS}
    return [
        Pool(node_generation(tier, group, aws), group.nodes, group.max_nodes or group.nodes)
        for tier, group in groups.items()
        if group
    ]


def load_balancer(platform: AwsPlatform, plan: Plan, stack: str, opts: pulumi.ResourceOptions) -> LoadBalancer:
    """The way in from outside, before the pool that runs the routers."""
    settings, aws = plan.settings, plan.settings.platform.aws
    assert aws is not None  # Platform.parts_fit
    edge, network = settings.edge, platform.network
    subnets = network.public if edge.internet_facing else network.private
    where = aws.load_balancer_zones or [aws.zone]
    pool = platform.pools.get(ROUTER) or platform.pools["system"]
    args = LoadBalancerArgs(
        kind=edge.load_balancer,
        vpc_id=network.vpc_id,
        account=network.account,
        subnets={zone: subnets[zone] for zone in _enough(where, aws, edge.load_balancer)},
        internet_facing=edge.internet_facing,
        client_cidrs=edge.client_cidrs or [aws.network.cidr],
        node_security_group=platform.cluster.security_group,
        autoscaling_group=pool.autoscaling_group,
        node_port=edge.node_port,
        port=edge.port,
        certificate=edge.certificate,
        idle_timeout_s=edge.idle_timeout_s,
        cross_zone=edge.cross_zone,
        drain_s=max(settings.router.drain_s, settings.rollout.drain_limit_s),
        access_logs=edge.access_logs,
        deletion_protection=edge.deletion_protection,
    )
    return LoadBalancer(platform_name(stack), args, opts)


def _enough(where: list[str], aws: Aws, kind: str) -> list[str]:
    """An application balancer needs two zones ("Availability Zones", user guide)."""
    return list(dict.fromkeys([*where, second_zone(aws)])) if kind == "application" and len(where) < 2 else where
