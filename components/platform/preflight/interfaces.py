"""Whether EC2 describes a GPU type as the catalogue does, from which its interfaces are laid out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from components.hardware.catalogue import catalogue, dated
from components.hardware.ec2 import Difference, differences, read_instance_types
from components.hardware.instance import Instance
from components.platform.preflight.answer import Answer, fault, ok
from components.platform.preflight.ask import Ask
from components.platform.preflight.check import Subject, check, each_group
from components.platform.preflight.wanted import WantedGroup

DECISIVE = ("type", "efa_interfaces", "cards", "architecture", "gpus")
"""Facts that launch templates and pods are made from; in others the catalogue may be a little old."""
REFRESH = "`splitserve instances --refresh` takes EC2's word"


@check("interfaces", "EC2 gives the type the EFA interfaces, network cards, GPUs and architecture of the catalogue.",
       ("ec2:DescribeInstanceTypes", "ec2:DescribeInstanceTypeOfferings"),
       "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_NetworkInfo.html",
       each_group("instance", lambda group: group.has_gpus))  # fmt: skip
def interfaces(ask: Ask, subject: Subject) -> Iterator[Answer]:
    group: WantedGroup = subject.thing
    narrowed = _OneType(ask, group.instance)
    answer = ask.once(("hardware", group.instance), lambda: read_instance_types(narrowed))
    yield judge_hardware(subject.key, group.instance, answer, ask.wanted.region)


def judge_hardware(key: str, name: str, answer: dict[str, Instance], region: str) -> Answer:
    known, found = catalogue().get(name), answer.get(name)
    if found is None:
        return fault(key, f"{name}, which EC2 does not describe as a GPU type here", "a GPU type of the region")
    if known is None:
        return fault(key, f"{name}, which the {dated()} does not have", "a type of the catalogue", REFRESH)
    differing = [d for d in differences({name: known}, {name: found}, region) if d.fact != "regions"]
    decisive = [d for d in differing if d.fact in DECISIVE]
    if decisive:
        return fault(key, f"{name} with {_told(decisive, 'aws')}", f"{_told(decisive, 'catalogue')} ({dated()})",
                     REFRESH)  # fmt: skip
    note = f"; the {dated()} differs in {', '.join(d.fact for d in differing)}" if differing else ""
    return ok(key, f"{found.efa_interfaces} EFA interfaces on {len(found.cards)} network cards{note}")


def _told(differing: list[Difference], side: str) -> str:
    return ", ".join(f"{d.fact} {_short(getattr(d, side))}" for d in differing)


def _short(value: Any) -> str:
    return f"of {len(value)}, {sum(card.takes_efa for card in value)} with EFA" if isinstance(value, tuple) else str(value)  # fmt: skip


@dataclass(frozen=True)
class _OneType:
    """An EC2 client for `read_instance_types` that asks about one type only, by way of `Ask`."""

    ask: Ask
    instance: str

    @property
    def meta(self) -> SimpleNamespace:
        return SimpleNamespace(region_name=self.ask.wanted.region)

    def get_paginator(self, operation: str) -> SimpleNamespace:
        result = {"describe_instance_types": "InstanceTypes"}.get(operation, "InstanceTypeOfferings")
        filters = [{"Name": "instance-type", "Values": [self.instance]}]

        def paginate(**parameters: Any) -> list[dict[str, Any]]:
            return [{result: self.ask.pages("ec2", operation, result, Filters=filters, **parameters)}]

        return SimpleNamespace(paginate=paginate)
