"""Availability Zones, and which instance types they have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from components.platform.preflight.answer import Answer, fault, ok, unknown
from components.platform.preflight.ask import Ask
from components.platform.preflight.check import Subject, check, each_group
from components.platform.preflight.wanted import Wanted, WantedGroup

BAD_STATES = ("unavailable", "impaired")


def _zones(wanted: Wanted) -> Iterable[Subject]:
    """Each zone once, under the first key that names it."""
    keys: dict[str, str] = {wanted.zone: "platform.aws.zone"}
    for group in wanted.groups:
        keys.setdefault(group.zone, f"{group.key}.zone")
    for key, zone in wanted.other_zones:
        keys.setdefault(zone, key)
    return [Subject(key, zone) for zone, key in keys.items()]


@check("zone", "The zone exists, is opted into and available; its id is the same in every account.",
       ("ec2:DescribeAvailabilityZones",),
       "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_AvailabilityZone.html", _zones)  # fmt: skip
def zone(ask: Ask, subject: Subject) -> Iterator[Answer]:
    answer = ask.once("zones", lambda: ask.call("ec2", "describe_availability_zones", AllAvailabilityZones=True))
    yield judge_zone(subject.key, subject.thing, answer["AvailabilityZones"])


def judge_zone(key: str, name: str, zones: list[dict[str, Any]]) -> Answer:
    """`OptInStatus` is `opt-in-not-required` for every Availability Zone; others are opted into."""
    if not zones:
        return unknown(key, "no zone at all in EC2's answer", name)
    found = next((entry for entry in zones if entry["ZoneName"] == name), None)
    if found is None:
        return fault(key, repr(name), "a zone of the region", f"there are {_names(zones)}")
    status = found.get("OptInStatus", "opt-in-not-required" if found.get("ZoneType") == "availability-zone" else None)
    if status not in ("opt-in-not-required", "opted-in"):
        return fault(key, f"{name}, {status}", "a zone that the account is opted into",
                     f"opt in to zone group {found.get('GroupName')}, or take another zone")  # fmt: skip
    if found.get("State") in BAD_STATES:
        return fault(key, f"{name}, {found['State']}", "an available zone", "wait, or take another zone")
    if not found.get("State"):
        return unknown(key, f"{name}, of which EC2 says no state")
    return ok(key, f"{name} is {found.get('ZoneId', 'without an id')}, {found['State']}")


def _names(zones: list[dict[str, Any]]) -> str:
    return ", ".join(
        sorted(e["ZoneName"] for e in zones if e.get("ZoneType", "availability-zone") == "availability-zone")
    )


@check("offering", "The zone has the instance type.", ("ec2:DescribeInstanceTypeOfferings",),
       "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstanceTypeOfferings.html",
       each_group("instance"))  # fmt: skip
def offering(ask: Ask, subject: Subject) -> Iterator[Answer]:
    group: WantedGroup = subject.thing
    filters = [{"Name": "instance-type", "Values": [group.instance]}]

    def offers() -> list[dict[str, Any]]:
        return ask.pages("ec2", "describe_instance_type_offerings", "InstanceTypeOfferings",
                         LocationType="availability-zone", Filters=filters)  # fmt: skip

    yield judge_offering(subject.key, group, ask.once(("offerings", group.instance), offers))


def judge_offering(key: str, group: WantedGroup, offers: list[dict[str, Any]]) -> Answer:
    zones = sorted(offer["Location"] for offer in offers if offer["InstanceType"] == group.instance)
    if group.zone in zones:
        return ok(key, f"{group.instance} in {group.zone}")
    if zones:
        return fault(key, f"no {group.instance} in {group.zone}", "a zone that has the type",
                     f"set the zone to one of {', '.join(zones)}")  # fmt: skip
    return fault(key, f"no {group.instance} in any zone of the region", "a type that the region has",
                 "choose another type or region")  # fmt: skip
