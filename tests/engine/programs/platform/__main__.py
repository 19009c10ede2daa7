"""The platform that a stack file asks for, and its load balancer: everything on AWS, nothing in the cluster."""

from __future__ import annotations

import json
import os

import pulumi
import pulumi_aws as aws

from components.platform.aws_cluster import AwsCluster
from components.platform.gpu_nodes import GpuNodes
from components.platform.load_balancer import LoadBalancer
from infra.aws_arguments import cluster_args, gpu_nodes_args, load_balancer_args
from infra.aws_names import platform_name
from infra.node_generations import node_generations
from infra.read_plan import read_plan
from infra.stack_values import stack_values
from tools.cache import CHECKOUT

stack = pulumi.get_stack()
name = platform_name(stack)
plan, _, _ = read_plan(stack_values(json.loads(os.environ["PULUMI_CONFIG"])), CHECKOUT, stack)
settings = plan.settings
args = cluster_args(settings, stack)
provider = aws.Provider("aws", region=args.region, default_tags={"tags": dict(args.tags)})
opts = pulumi.ResourceOptions(providers=[provider])
cluster = AwsCluster(name, args, opts)
needed = {generation.name: generation for generation in node_generations(plan).values()}
after = pulumi.ResourceOptions(providers=[provider], depends_on=cluster.before_nodes)
GpuNodes(name, gpu_nodes_args(settings, stack, cluster.facts, needed), after)
pulumi.export("endpoint", LoadBalancer(name, load_balancer_args(settings, cluster.facts), opts).endpoint)
