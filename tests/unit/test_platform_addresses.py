"""How a VPC's range is shared out: whatever range and zones, the subnets fit, and AWS can use them."""

from __future__ import annotations

from ipaddress import IPv4Network, collapse_addresses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.platform.addresses import addresses_of_node, free_addresses, subnets, vpc_range

SERVICES = IPv4Network("172.20.0.0/16")
"""One of the two ranges from which EKS takes Services' addresses."""
SMALLEST_FOR_A_BALANCER = 27
"""Application Load Balancers user guide, "Subnets for your load balancer": at least a /27."""
PRIVATE_RANGES = [IPv4Network(r) for r in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")]


@st.composite
def ranges(draw: st.DrawFn) -> IPv4Network:
    """A /16 to /20 of RFC 1918, which is what a VPC may have, away from the Services' range."""
    outer = draw(st.sampled_from(PRIVATE_RANGES))
    prefix = draw(st.integers(max(16, outer.prefixlen), 20))
    number = draw(st.integers(0, 2 ** (prefix - outer.prefixlen) - 1))
    found = IPv4Network((int(outer.network_address) + number * 2 ** (32 - prefix), prefix))
    return IPv4Network("10.64.0.0/16") if found.overlaps(SERVICES) else found


ZONES = st.lists(st.sampled_from([f"us-east-1{letter}" for letter in "abcdefgh"]), min_size=1, max_size=12)


@given(ranges(), ZONES)
def test_each_zone_has_its_subnets_and_none_overlaps_another(cidr: IPv4Network, zones: list[str]) -> None:
    found = subnets(str(cidr), zones[0], zones)
    assert found.private.keys() == found.public.keys() == set(zones)
    assert next(iter(found.private)) == zones[0]
    every = [IPv4Network(part) for part in (*found.private.values(), *found.public.values())]
    assert all(part.subnet_of(cidr) for part in every)
    assert sum(part.num_addresses for part in every) == sum(p.num_addresses for p in collapse_addresses(every))
    assert not any(part.overlaps(SERVICES) for part in every)


@given(ranges(), ZONES)
def test_gpu_nodes_have_half_of_the_range_and_balancers_enough(cidr: IPv4Network, zones: list[str]) -> None:
    found = subnets(str(cidr), zones[0], zones)
    assert IPv4Network(found.private[zones[0]]).num_addresses == cidr.num_addresses // 2
    assert all(IPv4Network(part).prefixlen <= SMALLEST_FOR_A_BALANCER for part in found.public.values())


@given(ranges(), ZONES, ZONES)
def test_a_zone_more_leaves_the_other_zones_subnets_where_they_are(
    cidr: IPv4Network, zones: list[str], more: list[str]
) -> None:
    """A subnet that moves is replaced, with all that lies in it."""
    before, after = subnets(str(cidr), zones[0], zones), subnets(str(cidr), zones[0], [*zones, *more])
    assert before.private.items() <= after.private.items()
    assert before.public.items() <= after.public.items()


def test_more_zones_than_parts_are_refused() -> None:
    zones = [f"z{number}" for number in range(9)]
    with pytest.raises(ValueError, match="9 zones, at most 8"):
        subnets("10.0.0.0/16", zones[0], zones)
    assert len(subnets("10.0.0.0/16", zones[0], zones[:8]).private) == 8


@pytest.mark.parametrize(
    ("cidr", "why"),
    [
        ("10.0.0.0/15", "a /15"),
        ("10.0.0.0/21", "a /21"),
        ("10.0.0.1/16", "host bits"),
        ("10.0.0/16", "4 octets"),
        ("fd00::/16", "4 octets"),
        ("172.20.0.0/16", "overlaps the Services' range"),
        ("172.20.240.0/20", "overlaps the Services' range"),
    ],
)
def test_a_range_that_aws_would_refuse_is_refused_first(cidr: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        vpc_range(cidr)


def test_aws_keeps_five_addresses_of_each_subnet() -> None:
    """VPC user guide, "Subnet CIDR blocks": the first four and the last."""
    assert (free_addresses("10.0.0.0/24"), free_addresses("10.0.0.0/28")) == (251, 11)


def test_a_node_takes_its_interfaces_addresses_and_two_interfaces_full_for_pods() -> None:
    """p5.48xlarge holds 50 IPv4 addresses an interface; WARM_ENI_TARGET=1 keeps one interface more than is used."""
    assert addresses_of_node(1) == 101 and addresses_of_node(8) == 108
