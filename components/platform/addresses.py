"""How a VPC's range is shared out: subnets by zone, and whether its nodes find addresses. Pure.

The GPU zone's private subnet gets half of the range: its nodes take most of the addresses. The other
half is eight equal parts: one private subnet for each further zone, and a part that holds the small
public subnets of NAT gateways and of balancers that face the internet, a /27 each at least, which an
application balancer needs (Application Load Balancers user guide, "Subnets for your load balancer").
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network

SERVICE_RANGE = "172.20.0.0/16"
"""The cluster's Service addresses: one of EKS's own two choices, stated so that it can be checked."""
SHORTEST_PREFIX, LONGEST_PREFIX = 16, 20
"""A VPC is at most a /16 (VPC user guide, "VPC CIDR blocks"); below a /20 parts get too small."""
RESERVED_BY_AWS = 5
"""Addresses of each subnet that AWS keeps (VPC user guide, "Subnet CIDR blocks")."""
WARM_ADDRESSES = 100
"""What the VPC CNI holds on a node: its interface's 50 addresses and those of a spare one
(WARM_ENI_TARGET=1, amazon-vpc-cni-k8s README; 50 is the most of any type here)."""


@dataclass(frozen=True)
class Subnets:
    """By zone; the first private one is the GPU zone's."""

    private: dict[str, str]
    public: dict[str, str]


def subnets(cidr: str, gpu_zone: str, other_zones: list[str]) -> Subnets:
    """The ranges of every subnet. Raises ValueError for a range of the wrong size, or too many zones."""
    half, rest = vpc_range(cidr).subnets(prefixlen_diff=1)
    parts = list(rest.subnets(prefixlen_diff=3))
    others = [zone for zone in dict.fromkeys(other_zones) if zone != gpu_zone]
    if len(others) >= len(parts):
        raise ValueError(f"{len(others) + 1} zones, at most {len(parts)} are possible")
    private = {gpu_zone: str(half)} | {zone: str(part) for zone, part in zip(others, parts, strict=False)}
    small = parts[-1].subnets(prefixlen_diff=3)
    return Subnets(private, {zone: str(part) for zone, part in zip(private, small, strict=False)})


def vpc_range(cidr: str) -> IPv4Network:
    """Raises ValueError for what is no network, of the wrong size, or where the Services' addresses are."""
    network = IPv4Network(cidr)
    if not SHORTEST_PREFIX <= network.prefixlen <= LONGEST_PREFIX:
        raise ValueError(f"a /{network.prefixlen}, between /{SHORTEST_PREFIX} and /{LONGEST_PREFIX} is possible")
    if network.overlaps(IPv4Network(SERVICE_RANGE)):
        raise ValueError(f"{cidr} overlaps the Services' range {SERVICE_RANGE}, which EKS refuses")
    return network


def free_addresses(cidr: str) -> int:
    return IPv4Network(cidr).num_addresses - RESERVED_BY_AWS


def addresses_of_node(ip_interfaces: int) -> int:
    """Addresses that one node takes: its interfaces', and what the VPC CNI keeps for pods."""
    return ip_interfaces + WARM_ADDRESSES
