"""The network interfaces of an EFA node, from its instance type alone. Pure.

Rules, each from AWS's page "Maximize network bandwidth on EC2 instances with multiple network cards"
(https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html, read 2026-08) unless it
says otherwise:

- The primary interface (card 0, device 0) is a plain ENA `interface`; `efa-only` can't be primary.
- If card 0 supports EFA: `efa-only` at card 0, device 1.
- Every other card that supports EFA: `efa-only` at device 0. It carries no IP address.
- Where EFA and IP share bandwidth, all of the IP bandwidth takes more ENA interfaces, at device 1: on
  p5 and p5e on every fourth card (0, 4, … 28), on p6-b200 and p6-b300 on every card. To save
  addresses: on card 0 only.
- p6-b300 has 17 cards, of which card 0 takes no EFA: 16 EFAs
  (https://github.com/aws/aws-parallelcluster/issues/7143). It follows from the cards' own kinds.
- GB200: even cards `efa`, odd ones `efa-only`
  (https://github.com/aws/aws-parallelcluster/pull/6930). How many cards a node has is not published.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from components.hardware.instance import Instance

Kind = Literal["interface", "efa", "efa-only"]
AddressUse = Literal["save", "bandwidth"]
"""`save`: one IP interface. `bandwidth`: as many as the type needs for its full IP bandwidth."""

ENA_EVERY = {"p5": 4, "p5e": 4, "p6-b200": 1, "p6-b300": 1}
"""By family: on which cards it takes an ENA interface for the whole IP bandwidth."""
ALTERNATING = ("p6e-gb200", "p6e-gb300")


class LayoutUnknown(ValueError):
    """AWS has published no layout for the type; the message says what is missing."""


@dataclass(frozen=True)
class Interface:
    """One entry of a launch template's NetworkInterfaces."""

    card: int
    device: int
    kind: Kind

    @property
    def carries_efa(self) -> bool:
        return self.kind != "interface"

    @property
    def needs_address(self) -> bool:
        return self.kind != "efa-only"


def layout(instance: Instance, addresses: AddressUse = "save") -> tuple[Interface, ...]:
    """The interfaces of a node, the primary one first. Without EFA: the primary alone."""
    if not instance.efa_interfaces:
        return (Interface(0, 0, "interface"),)
    if not instance.cards:
        raise LayoutUnknown(
            f"{instance.name}: how many network cards a node has is unknown; read it with "
            "`splitserve instances --refresh` where the type is offered, or give the launch template yourself"
        )
    if instance.family in ALTERNATING:
        return tuple(Interface(c.index, 0, "efa" if c.index % 2 == 0 else "efa-only") for c in instance.cards)
    return tuple(_limited(_by_card(instance, addresses), instance.efa_interfaces))


def _by_card(instance: Instance, addresses: AddressUse) -> Iterable[Interface]:
    yield Interface(0, 0, "interface")
    every = ENA_EVERY.get(instance.family) if addresses == "bandwidth" else None
    for card in instance.cards:
        primary = card.index == 0
        if card.takes_efa:
            yield Interface(card.index, 1 if primary else 0, "efa-only")
        if every and not primary and card.index % every == 0:
            yield Interface(card.index, 1, "interface")


def _limited(interfaces: Iterable[Interface], efa_interfaces: int) -> Iterable[Interface]:
    """At most as many EFAs as the type may have, whatever its cards would take."""
    left = efa_interfaces
    for interface in interfaces:
        if interface.carries_efa and not left:
            continue
        left -= interface.carries_efa
        yield interface


def layout_faults(instance: Instance, interfaces: Iterable[Interface]) -> list[str]:
    """What EC2 would refuse, or what would leave EFAs unused, in a layout that somebody else made."""
    interfaces = tuple(interfaces)
    places = [(i.card, i.device) for i in interfaces]
    cards = {card.index: card for card in instance.cards}
    efas = sum(i.carries_efa for i in interfaces)
    faults = [f"card {c}, device {d} is given twice" for c, d in sorted({p for p in places if places.count(p) > 1})]
    if places.count((0, 0)) != 1 or any(i.kind == "efa-only" for i in interfaces if (i.card, i.device) == (0, 0)):
        faults.append("the primary interface (card 0, device 0) must be there once, and not be `efa-only`")
    for interface in interfaces:
        card = cards.get(interface.card)
        if card is None:
            faults.append(f"card {interface.card}: {instance.name} has cards 0 to {len(cards) - 1}")
        elif interface.carries_efa and not card.takes_efa:
            faults.append(f"card {interface.card} of {instance.name} takes no EFA")
        elif interface.device >= card.max_interfaces:
            faults.append(f"card {interface.card}: device {interface.device}, allowed 0 to {card.max_interfaces - 1}")
    if efas > instance.efa_interfaces:
        faults.append(f"{efas} EFAs, and {instance.name} may have {instance.efa_interfaces}")
    elif efas < instance.efa_interfaces:
        faults.append(f"{efas} of {instance.efa_interfaces} EFAs are used")
    return faults
