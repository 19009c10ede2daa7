"""Instance types and running instances as EC2 has them, for several checks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from components.platform.preflight.ask import Ask
from components.platform.preflight.wanted import Wanted, WantedGroup

CLUSTER_TAG = "eks:cluster-name"
NODE_GROUP_TAG = "eks:nodegroup-name"
"""EKS puts both on the instances of a managed node group."""
COUNTED_STATES = ("pending", "running")
FILTER_VALUES = 100
"""EC2 takes at most 200 values in one filter."""


@dataclass(frozen=True)
class Running:
    """An instance that runs or starts. `lifecycle` is "" for an On-Demand one."""

    instance: str
    lifecycle: str
    tags: tuple[tuple[str, str], ...]
    reservation: str | None
    subnet: str | None

    def is_of_cluster(self, cluster: str) -> bool:
        return bool(cluster) and dict(self.tags).get(CLUSTER_TAG) == cluster

    def is_node_of(self, cluster: str, group: WantedGroup) -> bool:
        """Whether this is a node that the group already has."""
        name = dict(self.tags).get(NODE_GROUP_TAG, "")
        return self.is_of_cluster(cluster) and bool(group.node_group) and name.endswith(group.node_group)


def running_instances(ask: Ask) -> list[Running]:
    """Every instance of the account in the region that runs or starts (DescribeInstances)."""
    states = [{"Name": "instance-state-name", "Values": list(COUNTED_STATES)}]
    answer = ask.once("instances", lambda: ask.pages("ec2", "describe_instances", "Reservations", Filters=states))
    return [_running(entry) for reservation in answer for entry in reservation["Instances"]]


def _running(entry: dict[str, Any]) -> Running:
    tags = tuple((tag["Key"], tag["Value"]) for tag in entry.get("Tags", []))
    return Running(entry["InstanceType"], entry.get("InstanceLifecycle", ""), tags,
                   entry.get("CapacityReservationId"), entry.get("SubnetId"))  # fmt: skip


def makes_room(wanted: Wanted, one: Running) -> bool:
    """Whether a running instance is a node that the plan counts already, or that ends before others start."""
    if wanted.swap:
        return one.is_of_cluster(wanted.cluster_name)
    return any(one.is_node_of(wanted.cluster_name, group) for group in wanted.groups)


def nodes_there(ask: Ask, group: WantedGroup) -> list[Running]:
    """The nodes that a group already has, at most as many as it wants."""
    found = [one for one in running_instances(ask) if one.is_node_of(ask.wanted.cluster_name, group)]
    return [one for one in found if one.instance == group.instance][: group.nodes]


def described(ask: Ask, names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """EC2's description by type name; a type that it does not have is not there."""
    wanted = sorted(set(names))
    parts = [tuple(wanted[i : i + FILTER_VALUES]) for i in range(0, len(wanted), FILTER_VALUES)]
    answers = [entry for part in parts for entry in ask.once(("types", part), lambda part=part: _types(ask, part))]
    return {entry["InstanceType"]: entry for entry in answers}


def _types(ask: Ask, names: tuple[str, ...]) -> list[dict[str, Any]]:
    filters = [{"Name": "instance-type", "Values": list(names)}]
    return ask.pages("ec2", "describe_instance_types", "InstanceTypes", Filters=filters)
