"""What several places must call the same on AWS: the platform, its pools, its zones. Free of Pulumi."""

from __future__ import annotations

from infra.schema.platform import Aws

POOLS = ("system", "router", "render")
STACK_TAG = "splitserve:stack"


def platform_name(stack: str) -> str:
    """Of the cluster, and the beginning of everything else's names."""
    return f"splitserve-{stack}"


def router_pool(aws: Aws) -> str:
    """The pool that runs the routers, before which the balancer stands."""
    return "router" if aws.node_groups.router else "system"


def zones(aws: Aws) -> list[str]:
    """The GPU zone first, then EKS's second and the load balancer's."""
    return list(dict.fromkeys([aws.zone, second_zone(aws), *aws.load_balancer_zones]))


def second_zone(aws: Aws) -> str:
    given = aws.second_zone or f"{aws.region}{'b' if aws.zone.endswith('a') else 'a'}"
    return given if given != aws.zone else f"{aws.region}a"
