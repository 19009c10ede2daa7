"""EC2's placement groups, which moto lacks. Tags live with moto's other EC2 tags."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Any
from xml.sax.saxutils import escape

from tools.awsim.eks_state import ACCOUNT, Refused
from tools.awsim.neighbours import backend
from tools.awsim.wire import Answer, Call

NAMESPACE = "http://ec2.amazonaws.com/doc/2016-11-15/"
STRATEGIES = ("cluster", "spread", "partition")


class PlacementGroups:
    """By region, then by name."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, dict[str, str]]] = {}

    def reset(self) -> None:
        self._groups.clear()

    def answer(self, call: Call) -> Answer | None:
        """The answer of a placement group's call; None for any other call."""
        performed = {"CreatePlacementGroup": self._create, "DescribePlacementGroups": self._describe,
                     "DeletePlacementGroup": self._delete}.get(call.action)  # fmt: skip
        if performed is None:
            return None
        body = f'<{call.action}Response xmlns="{NAMESPACE}">{performed(call)}</{call.action}Response>'
        return Answer(200, {"Content-Type": "text/xml"}, body.encode())

    def exists(self, region: str, name: str) -> bool:
        return name in self._groups.get(region, {})

    def _create(self, call: Call) -> str:
        name, strategy = call.parameters["GroupName"], call.parameters.get("Strategy", "cluster")
        groups = self._groups.setdefault(call.region, {})
        if name in groups:
            raise Refused("InvalidPlacementGroup.Duplicate", f"The placement group '{name}' already exists.")
        if strategy not in STRATEGIES:
            raise Refused("InvalidParameterValue", f"Value ({strategy}) for parameter strategy is invalid.")
        count = call.parameters.get("PartitionCount", "2") if strategy == "partition" else None
        group = {"groupName": name, "strategy": strategy, "state": "available", "groupId": f"pg-{secrets.token_hex(8)}",
                 "groupArn": f"arn:aws:ec2:{call.region}:{ACCOUNT}:placement-group/{name}"}  # fmt: skip
        groups[name] = group | ({"partitionCount": count} if count else {})
        tags = [tag for given in call.parameters.get("TagSpecification", []) for tag in given["Tag"]]
        if tags:
            backend("ec2", call.region).create_tags([group["groupId"]], {t["Key"]: t["Value"] for t in tags})
        return f"<return>true</return><placementGroup>{_fields(call.region, groups[name])}</placementGroup>"

    def _describe(self, call: Call) -> str:
        groups = self._groups.get(call.region, {})
        names: Iterable[str] = call.parameters.get("GroupName", sorted(groups))
        unknown = [name for name in names if name not in groups]
        if unknown:
            raise Refused("InvalidPlacementGroup.Unknown", f"The placement group '{unknown[0]}' is unknown.")
        items = "".join(f"<item>{_fields(call.region, groups[name])}</item>" for name in names)
        return f"<placementGroupSet>{items}</placementGroupSet>"

    def _delete(self, call: Call) -> str:
        name = call.parameters["GroupName"]
        if self._groups.get(call.region, {}).pop(name, None) is None:
            raise Refused("InvalidPlacementGroup.Unknown", f"The placement group '{name}' is unknown.")
        return "<return>true</return>"


def _fields(region: str, group: dict[str, str]) -> str:
    tags: list[dict[str, Any]] = backend("ec2", region).describe_tags(filters={"resource-id": [group["groupId"]]})
    shown = "".join(f"<item><key>{escape(t['key'])}</key><value>{escape(t['value'])}</value></item>" for t in tags)
    fields = "".join(f"<{key}>{escape(value)}</{key}>" for key, value in group.items())
    return f"{fields}<tagSet>{shown}</tagSet>"
