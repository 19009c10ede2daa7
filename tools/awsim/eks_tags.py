"""Tags of EKS's resources, found by ARN."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tools.awsim.eks_state import Region, not_found

ARNS = ("arn", "nodegroupArn", "addonArn", "accessEntryArn", "associationArn")


def _tagged(region: Region) -> Iterator[dict[str, Any]]:
    for cluster in region.clusters.values():
        yield cluster.fields
        for things in (cluster.node_groups, cluster.addons):
            yield from (thing.fields for thing in things.values())
        for entries in (cluster.access, cluster.associations):
            yield from entries.values()


def _find(region: Region, arn: str) -> dict[str, Any]:
    for fields in _tagged(region):
        if arn in (fields.get(key) for key in ARNS):
            return fields
    raise not_found(f"Resource not found: {arn}")


def tag_resource(region: Region, call: dict[str, Any]) -> dict[str, Any]:
    fields = _find(region, call["resourceArn"])
    fields["tags"] = {**fields.get("tags", {}), **call["tags"]}
    return {}


def untag_resource(region: Region, call: dict[str, Any]) -> dict[str, Any]:
    fields = _find(region, call["resourceArn"])
    fields["tags"] = {key: value for key, value in fields.get("tags", {}).items() if key not in call["tagKeys"]}
    return {}


def list_tags_for_resource(region: Region, call: dict[str, Any]) -> dict[str, Any]:
    return {"tags": _find(region, call["resourceArn"]).get("tags", {})}
