"""IP addresses: whether the subnets of a VPC that exists hold nodes, their interfaces and pods.

The range of a VPC that the stack makes is shared out by `components/platform/addresses.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from components.hardware.catalogue import catalogue
from components.hardware.interfaces import LayoutUnknown, layout
from components.platform import addresses
from components.platform.preflight.answer import Answer, fault, ok, unknown
from components.platform.preflight.ask import Ask, CouldNotAsk
from components.platform.preflight.check import Subject, check
from components.platform.preflight.instances import nodes_there
from components.platform.preflight.wanted import Wanted, WantedGroup

KEY = "subnets"
CONTROL_PLANE_ADDRESSES = 6
"""In each subnet, for EKS itself (https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html)."""
CONTROL_PLANE_ZONES = 2


def addresses_of_node(group: WantedGroup) -> int:
    """The interfaces that take an address, and the pods. Raises LayoutUnknown."""
    known = catalogue().get(group.instance)
    interfaces = layout(known, group.addresses) if known else ()
    return addresses.addresses_of_node(max(1, sum(interface.needs_address for interface in interfaces)))


def needed(groups: Iterable[WantedGroup], there: Mapping[str, int]) -> dict[str, int]:
    """Addresses by zone for the nodes still to come; `there` counts nodes by the group's key."""
    found: dict[str, int] = {}
    for group in groups:
        missing = max(0, group.nodes - there.get(group.key, 0))
        found[group.zone] = found.get(group.zone, 0) + missing * addresses_of_node(group)
    return found


def _subnets(wanted: Wanted) -> Iterable[Subject]:
    return [Subject(KEY, wanted.subnet_ids)] if wanted.subnet_ids else []


@check("subnet-addresses", "The subnets lie in the groups' zones and in two at least, with enough free addresses.",
       ("ec2:DescribeSubnets", "ec2:DescribeInstances"),
       "https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html", _subnets)  # fmt: skip
def subnet_addresses(ask: Ask, subject: Subject) -> Iterator[Answer]:
    try:
        subnets = ask.pages("ec2", "describe_subnets", "Subnets", SubnetIds=list(subject.thing))
    except CouldNotAsk as error:
        if not error.code.startswith("InvalidSubnetI"):
            raise
        yield fault(subject.key, error.text, "subnets of this account and region")
        return
    there = {group.key: len(nodes_there(ask, group)) for group in ask.wanted.groups}
    try:
        yield from judge_subnets(subject.key, subject.thing, subnets, needed(ask.wanted.groups, there))
    except LayoutUnknown as error:
        yield unknown(subject.key, str(error))


def judge_subnets(key: str, wanted: Iterable[str], subnets: list[dict[str, Any]], needed: Mapping[str, int]) -> list[Answer]:  # fmt: skip
    """One answer a zone that nodes come to, and a fault for each thing that EKS would refuse."""
    known = {subnet["SubnetId"] for subnet in subnets}
    answers = [fault(key, f"no {name}", "subnets that exist") for name in wanted if name not in known]
    zones = sorted({subnet["AvailabilityZone"] for subnet in subnets})
    if len(zones) < CONTROL_PLANE_ZONES:
        answers.append(fault(key, f"subnets in {', '.join(zones) or 'no zone'}", "subnets in two zones",
                             "EKS puts its control plane's interfaces in two"))  # fmt: skip
    for subnet in subnets:
        if subnet["AvailableIpAddressCount"] < CONTROL_PLANE_ADDRESSES:
            answers.append(fault(f"{key}.{subnet['SubnetId']}", f"{subnet['AvailableIpAddressCount']} free addresses",
                                 f"{CONTROL_PLANE_ADDRESSES} for EKS itself"))  # fmt: skip
    return answers + [_judge_zone(key, zone, count, subnets) for zone, count in needed.items()]


def _judge_zone(key: str, zone: str, count: int, subnets: list[dict[str, Any]]) -> Answer:
    free = [subnet["AvailableIpAddressCount"] for subnet in subnets if subnet["AvailabilityZone"] == zone]
    if not free:
        return fault(key, f"no subnet in {zone}", "a subnet in the zone of each node group")
    found = f"{sum(free)} free addresses in {zone}"
    if sum(free) < count:
        return fault(key, found, f"{count} for nodes, interfaces and pods",
                     "use larger subnets, or addresses: save on p5 and p5e")  # fmt: skip
    return ok(key, found, f"{count} for nodes, interfaces and pods")
