"""Reserved capacity and placement groups.

States and fields: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CapacityReservation.html.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from components.platform.preflight.answer import Answer, fault, ok, unknown
from components.platform.preflight.ask import Ask, CouldNotAsk
from components.platform.preflight.check import Subject, check, each_group
from components.platform.preflight.instances import makes_room, running_instances
from components.platform.preflight.wanted import WantedGroup

KINDS = {"reservation": "default", "block": "capacity-block"}
"""The stack file's word, and EC2's ReservationType."""
NOT_YET = ("pending", "scheduled", "assessing", "delayed", "payment-pending")
LINUX = "Linux/UNIX"
SOON = timedelta(days=1)
BLOCK_END = timedelta(minutes=30)
"""EC2 begins to terminate a block's instances 30 minutes before its end (EC2 user guide, capacity-blocks-using)."""


@check("reservation", "The reservation or capacity block is active now, of the group's type and zone, with enough "
       "free instances, and tied to no other placement group.",
       ("ec2:DescribeCapacityReservations", "ec2:DescribeInstances"),
       "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CapacityReservation.html",
       each_group("reservation", lambda group: group.capacity in KINDS))  # fmt: skip
def reservation(ask: Ask, subject: Subject) -> Iterator[Answer]:
    group: WantedGroup = subject.thing
    if not group.reservation:
        yield fault(subject.key, f"none, with capacity {group.capacity}", "the reservation's id (cr-…)")
        return
    try:
        answer = ask.pages("ec2", "describe_capacity_reservations", "CapacityReservations",
                           CapacityReservationIds=[group.reservation])  # fmt: skip
    except CouldNotAsk as error:
        if not error.code.startswith(("InvalidCapacityReservationId", "InvalidCapacityReservationID")):
            raise
        answer = []
    sharing = [one for one in ask.wanted.groups if one.reservation == group.reservation]
    there = sum(one.reservation == group.reservation and makes_room(ask.wanted, one) for one in running_instances(ask))
    nodes = max(0, sum(one.nodes for one in sharing) - there)
    yield from judge_reservation(subject.key, group, answer, nodes, ask.now)


def judge_reservation(key: str, group: WantedGroup, answer: list[dict[str, Any]], nodes: int,
                      now: datetime) -> list[Answer]:  # fmt: skip
    """Every fault of its own; `nodes` is what is still to be launched into it, by all groups that name it."""
    found = next((entry for entry in answer if entry["CapacityReservationId"] == group.reservation), None)
    if found is None:
        return [fault(key, f"no {group.reservation} in this account and region", "a reservation that exists")]
    faults = [*_wrong_kind(key, group, found), *_not_active(key, found, now), *_wrong_place(key, group, found)]
    free = found.get("AvailableInstanceCount", 0)
    if free < nodes:
        faults.append(fault(key, f"{group.reservation} with {free} of {found.get('TotalInstanceCount', '?')} free",
                            f"{nodes} free for the nodes still to come", "end what uses it, or enlarge it"))  # fmt: skip
    if faults:
        return faults
    return [ok(key, f"{group.reservation}: {free} free, {_end(found, now)}", f"{nodes} free")]


def _wrong_kind(key: str, group: WantedGroup, found: dict[str, Any]) -> Iterator[Answer]:
    kind, platform = found.get("ReservationType", "default"), found.get("InstancePlatform")
    if kind != KINDS[group.capacity]:
        yield fault(f"{group.key}.capacity", f"{group.capacity}, and {group.reservation} is a {kind} reservation",
                    next(word for word, name in KINDS.items() if name == kind) if kind in KINDS.values() else kind)  # fmt: skip
    if found.get("InstanceType") != group.instance:
        yield fault(key, f"{group.reservation} of type {found.get('InstanceType')}", group.instance)
    if platform != LINUX:
        yield fault(key, f"{group.reservation} for {platform}", LINUX, "an instance must have its platform")


def _not_active(key: str, found: dict[str, Any], now: datetime) -> Iterator[Answer]:
    state, start, end = found.get("State"), found.get("StartDate"), found.get("EndDate")
    name = found["CapacityReservationId"]
    if state in NOT_YET:
        yield fault(key, f"{name}, {state}, {_moment('starts', start)}", "active now",
                    "deploy then: launches into it fail until it is active")  # fmt: skip
    elif state != "active":
        yield fault(key, f"{name}, {state}, {_moment('ended', end)}", "active now", "reserve anew")
    elif end is not None and end <= now:
        yield fault(key, f"{name}, {_moment('ended', end)}", "active now", "reserve anew")


def _wrong_place(key: str, group: WantedGroup, found: dict[str, Any]) -> Iterator[Answer]:
    zone, arn = found.get("AvailabilityZone"), found.get("PlacementGroupArn")
    if zone != group.zone:
        yield fault(key, f"{group.reservation} in {zone}", group.zone, f"set the group's zone to {zone}")
    tied = arn.rsplit("/", 1)[-1] if arn else None
    if tied and tied != group.placement_group:
        yield fault(f"{group.key}.placementGroup", f"{group.placement_group}, and {group.reservation} is tied to {tied}",
                    tied, "other launches get InsufficientInstanceCapacity")  # fmt: skip


def _moment(word: str, when: datetime | None) -> str:
    return f"{word} {when:%Y-%m-%d %H:%M} UTC" if when else f"no word on when it {word}"


def _end(found: dict[str, Any], now: datetime) -> str:
    end: datetime | None = found.get("EndDate")
    if end is None:
        return "without an end"
    text = _moment("ends", end)
    if end - now > SOON:
        return text
    hours = (end - now).total_seconds() / 3600
    block = found.get("ReservationType") == KINDS["block"]
    sooner = f", and its nodes are terminated from {_moment('', end - BLOCK_END).strip()} on" if block else ""
    return f"WARNING: {text}, in {hours:.1f} h{sooner}"


@check("placement-group", "The placement group exists, is available and of strategy cluster.",
       ("ec2:DescribePlacementGroups",),
       "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_PlacementGroup.html",
       each_group("placementGroup", lambda group: group.placement_group not in ("own", "none")))  # fmt: skip
def placement_group(ask: Ask, subject: Subject) -> Iterator[Answer]:
    name = subject.thing.placement_group
    try:
        answer = ask.call("ec2", "describe_placement_groups", GroupNames=[name])["PlacementGroups"]
    except CouldNotAsk as error:
        if not error.code.startswith("InvalidPlacementGroup"):
            raise
        answer = []
    yield judge_placement_group(subject.key, name, answer)


def judge_placement_group(key: str, name: str, answer: list[dict[str, Any]]) -> Answer:
    found = next((entry for entry in answer if entry["GroupName"] == name), None)
    if found is None:
        return fault(key, f"no placement group {name!r}", "one that exists, or `own`, or `none`")
    if found.get("Strategy") != "cluster":
        return fault(key, f"{name} of strategy {found.get('Strategy')}", "strategy cluster",
                     "only a cluster group puts nodes on one network segment")  # fmt: skip
    if found.get("State") == "available":
        return ok(key, f"{name}, cluster, available")
    if found.get("State"):
        return fault(key, f"{name}, {found['State']}", "an available placement group")
    return unknown(key, f"{name}, of which EC2 says no state")
