"""What EC2 refuses in launch data and moto takes: the network interfaces.

EC2 itself checks some of this only when an instance starts; here the template is refused at once, so
that a test sees it. Rules: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html,
components/hardware/interfaces.py and the RunInstances page.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from moto.ec2.models.instance_types import INSTANCE_TYPES

from components.hardware.catalogue import catalogue
from components.hardware.instance import Instance, NetworkCard
from components.hardware.interfaces import Interface, layout_faults

NOT_REFUSED = "EFAs are used"
"""Fewer EFAs than possible is a waste, not an error of EC2's."""
INTERFACE_TYPES = ("interface", "efa", "efa-only")


def template_faults(data: dict[str, Any], region: str) -> list[str]:
    """The faults of LaunchTemplateData or of RunInstances, in the wire's names or moto's."""
    interfaces = data.get("NetworkInterfaces") or data.get("NetworkInterface") or []
    return list(_faults(data, interfaces)) if interfaces else []


def _faults(data: dict[str, Any], interfaces: list[dict[str, Any]]) -> Iterator[str]:
    if data.get("SecurityGroupIds") or data.get("SecurityGroupId") or data.get("SecurityGroup"):
        yield "network interfaces and an instance-level security group may not be specified on the same request"
    public = [i for i in interfaces if _is_true(i.get("AssociatePublicIpAddress"))]
    if public and len(interfaces) > 1:
        yield "the associatePublicIPAddress parameter cannot be specified when launching with multiple network interfaces"
    for interface in interfaces:
        kind = interface.get("InterfaceType", "interface")
        if kind not in INTERFACE_TYPES:
            yield f"interface type {kind!r}, need one of {', '.join(INTERFACE_TYPES)}"
            return
    yield from _layout(data.get("InstanceType"), [_interface(i) for i in interfaces])


def _interface(given: dict[str, Any]) -> Interface:
    card, device = int(given.get("NetworkCardIndex", 0)), int(given.get("DeviceIndex", 0))
    return Interface(card, device, given.get("InterfaceType", "interface"))


def _layout(name: str | None, interfaces: list[Interface]) -> Iterator[str]:
    known = instance_of(name) if name else None
    if known is None or not known.cards:
        yield from _faults_without_type(interfaces)
    else:
        yield from (fault for fault in layout_faults(known, interfaces) if NOT_REFUSED not in fault)


def _faults_without_type(interfaces: list[Interface]) -> Iterator[str]:
    places = [(i.card, i.device) for i in interfaces]
    for card, device in sorted({place for place in places if places.count(place) > 1}):
        yield f"card {card}, device {device} is given twice"
    primary = [i for i in interfaces if (i.card, i.device) == (0, 0)]
    if len(primary) != 1 or primary[0].kind == "efa-only":
        yield "the primary interface (card 0, device 0) must be there once, and not be `efa-only`"


def instance_of(name: str) -> Instance | None:
    """The type's network facts: the project's catalogue, else what moto recorded of EC2's answer."""
    found = catalogue().get(name)
    if found:
        return found
    recorded: dict[str, Any] | None = INSTANCE_TYPES.get(name)
    if recorded is None:
        return None
    network = recorded["NetworkInfo"]
    efas = network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0) if network.get("EfaSupported") else 0
    cards = tuple(
        NetworkCard(card["NetworkCardIndex"], tuple(card.get("InterfaceTypes", ["interface"])),
                    card["MaximumNetworkInterfaces"], 0.0)
        for card in network.get("NetworkCards", [])
    )  # fmt: skip
    return Instance(name, "", 0, None, "x86_64", None, None, None, 0.0, efas, cards, ())


def _is_true(value: Any) -> bool:
    return str(value).lower() == "true"
