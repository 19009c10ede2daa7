"""The prod stack's cluster with `groups` GPU node groups, which its two engine tiers never come to.

Nothing else of the program: no release, no load balancer, nothing in the cluster.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count, islice
from pathlib import Path

import pulumi
import pulumi_aws as aws
import yaml

import infra
from components.platform.aws_cluster import AwsCluster
from components.platform.gpu_nodes import GpuNodes
from components.platform.node_generation import NodeGeneration
from infra.aws_arguments import aws_of, cluster_args, gpu_nodes_args
from infra.aws_names import platform_name
from infra.naming import CONFIG_PREFIX
from infra.node_generations import node_generation
from infra.settings import Settings, load

PROD = Path(infra.__path__[0]).parent / "stacks" / "Pulumi.prod.yaml"


def main() -> None:
    stack, groups = pulumi.get_stack(), pulumi.Config().require_int("groups")
    config = yaml.safe_load(PROD.read_text())["config"]
    settings = load({key.removeprefix(CONFIG_PREFIX): value for key, value in config.items()}, str(PROD))
    args, name = cluster_args(settings, stack), platform_name(stack)
    provider = aws.Provider("aws", region=args.region, default_tags={"tags": dict(args.tags)})
    cluster = AwsCluster(name, args, pulumi.ResourceOptions(providers=[provider]))
    nodes = gpu_nodes_args(settings, stack, cluster.facts, _generations(settings, groups))
    GpuNodes(name, nodes, pulumi.ResourceOptions(providers=[provider], depends_on=cluster.before_nodes))


def _generations(settings: Settings, groups: int) -> dict[str, NodeGeneration]:
    """As many as asked for, the tiers in turn; the first two are the prod stack's own."""
    found = {tier: settings.node_group(tier) for tier in settings.tiers}
    own = [node_generation(tier, group, aws_of(settings)) for tier, group in found.items() if group]
    # Another disk is another generation of as many resources.
    all_of_them = (replace(one, disk_gib=one.disk_gib + more) for more in count() for one in own)
    return {generation.name: generation for generation in islice(all_of_them, groups)}


main()
