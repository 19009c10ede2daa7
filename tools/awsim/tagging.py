"""Tags in each service's own form. Pure, but for `apply`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Tags = dict[str, str]


def as_list(tags: Mapping[str, str], key: str = "Key", value: str = "Value") -> list[dict[str, str]]:
    return [{key: name, value: text} for name, text in sorted(tags.items())]


def from_list(found: list[dict[str, str]] | None, key: str = "Key", value: str = "Value") -> Tags:
    """Without AWS's own tags, as the Terraform provider leaves them out."""
    return own({tag[key]: tag[value] for tag in found or []})


def own(tags: Mapping[str, str] | None) -> Tags:
    return {key: value for key, value in (tags or {}).items() if not key.startswith("aws:")}


@dataclass(frozen=True)
class Tagging:
    """How a kind's tags go with its creation, and how they change later."""

    at_creation: Callable[[Tags], dict[str, Any]]
    change: Callable[[Any, str, Tags, list[str]], None]
    """(aws, resource, tags to set, keys to remove)."""

    def apply(self, aws: Any, resource: str, old: Tags, new: Tags) -> None:
        to_set = {key: value for key, value in new.items() if old.get(key) != value}
        to_remove = sorted(old.keys() - new.keys())
        if to_set or to_remove:
            self.change(aws, resource, to_set, to_remove)


def ec2_tagging(resource_type: str) -> Tagging:
    def change(aws: Any, resource: str, to_set: Tags, to_remove: list[str]) -> None:
        if to_remove:
            aws.call("ec2", "DeleteTags", Resources=[resource], Tags=[{"Key": key} for key in to_remove])
        if to_set:
            aws.call("ec2", "CreateTags", Resources=[resource], Tags=as_list(to_set))

    def at_creation(tags: Tags) -> dict[str, Any]:
        return {"TagSpecifications": [{"ResourceType": resource_type, "Tags": as_list(tags)}]} if tags else {}

    return Tagging(at_creation, change)


def call_tagging(
    service: str, tag: str, untag: str, resource: str, keys: str, *, tags: str = "Tags", form: str = "list",
    many: bool = False,
) -> Tagging:  # fmt: skip
    """A service with its own pair of calls. `form`: list, kms (TagKey, TagValue) or map."""

    def formed(values: Tags) -> Any:
        if form == "map":
            return values
        return as_list(values, "TagKey", "TagValue") if form == "kms" else as_list(values)

    def change(aws: Any, name: str, to_set: Tags, to_remove: list[str]) -> None:
        which: dict[str, Any] = {resource: [name] if many else name}
        if to_remove:
            aws.call(service, untag, **which, **{keys: to_remove})
        if to_set:
            aws.call(service, tag, **which, **{tags: formed(to_set)})

    return Tagging(lambda values: {tags: formed(values)} if values else {}, change)
