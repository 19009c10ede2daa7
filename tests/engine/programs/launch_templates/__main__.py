"""The platform with one node group for each GPU type of the test, and a pool of CPU nodes."""

from __future__ import annotations

import pulumi
import pulumi_aws as aws

from components.platform.addons import BEFORE_NODES, addon_versions
from components.platform.addresses import subnets
from components.platform.aws_cluster import AwsCluster, AwsClusterArgs, Pool
from components.platform.cluster import ClusterArgs
from components.platform.gpu_nodes import GpuNodes, GpuNodesArgs
from components.platform.network import NetworkArgs
from components.platform.node_generation import NodeGeneration

NAME, REGION, ZONE, CIDR = "templates", "us-east-1", "us-east-1a", "10.64.0.0/16"
TAGS = {"splitserve:stack": "test", "team": "inference"}


def generation(tier: str, instance: str, **more: str | int) -> NodeGeneration:
    given = {
        "tier": tier, "instance": instance, "zone": ZONE, "capacity": "on-demand", "placement_group": "own",
        "addresses": "save", "disk_gib": 200, "ami": "al2023", "kubernetes_version": "1.34", "repair": True,
    }  # fmt: skip
    return NodeGeneration.from_json({**given, **more})


GENERATIONS = [
    generation("p4d", "p4d.24xlarge"),
    generation("p5", "p5.48xlarge"),
    generation("p5-bandwidth", "p5.48xlarge", addresses="bandwidth"),
    generation("p5en", "p5en.48xlarge"),
    generation("p6-b200", "p6-b200.48xlarge"),
    generation("p6-b200-bandwidth", "p6-b200.48xlarge", addresses="bandwidth"),
    generation("p6-b300", "p6-b300.48xlarge"),
    generation("p6-b300-bandwidth", "p6-b300.48xlarge", addresses="bandwidth"),
    generation("g6e", "g6e.48xlarge"),
]
POOL = Pool(generation("system", "m7i.large", placement_group="none", disk_gib=50), nodes=1, max_nodes=1)

provider = aws.Provider("aws", region=REGION, default_tags={"tags": TAGS})
ranges = subnets(CIDR, ZONE, ["us-east-1b"])
cluster = ClusterArgs(
    name=NAME, version="1.34", subnets=[], public_cidrs=[], admins=[], log_types=[], log_days=1,
    deletion_protection=False, addons=addon_versions(list(BEFORE_NODES), {}),
)  # fmt: skip
network = NetworkArgs(CIDR, REGION, ZONE, ranges, nat="none", endpoints=False, public=False)
args = AwsClusterArgs(region=REGION, network=network, cluster=cluster, pools=[POOL], router_pool="system", tags=TAGS)
made = AwsCluster(NAME, args, pulumi.ResourceOptions(providers=[provider]))
nodes = GpuNodesArgs(made.facts, {found.name: found for found in GENERATIONS}, {}, TAGS)
GpuNodes(NAME, nodes, pulumi.ResourceOptions(providers=[provider], depends_on=made.before_nodes))
pulumi.export("clusterSecurityGroup", made.facts.security_group)
pulumi.export("efaSecurityGroup", made.facts.efa_security_group)
pulumi.export("subnet", made.facts.private[ZONE])
