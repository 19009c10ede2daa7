"""Pulumi's properties as plain data: to and from the wire, what differs, what a refresh found. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from google.protobuf import json_format, struct_pb2

from tools.awsim.shapes import UNKNOWN

Properties = dict[str, Any]
Change = Literal["add", "delete", "update"]


def from_wire(struct: struct_pb2.Struct) -> Properties:
    """Whole numbers come as floats, and are whole numbers again; nulls are left out."""
    return _clean(json_format.MessageToDict(struct))


def _clean(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _clean(item) for key, item in value.items() if item is not None and not key.startswith("__")}
    if isinstance(value, list):
        return [_clean(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def to_wire(properties: Mapping[str, Any]) -> struct_pb2.Struct:
    struct = struct_pb2.Struct()
    struct.update({key: value for key, value in properties.items() if value is not None})
    return struct


@dataclass(frozen=True)
class Difference:
    """One changed property: its path (`vpcConfig.subnetIds[0]`) and how it changed."""

    path: str
    change: Change

    @property
    def plain_path(self) -> str:
        return re.sub(r"\[[^]]*\]", "", self.path)

    def below(self, prefixes: frozenset[str] | set[str]) -> bool:
        """Whether the path is one of these, or within one of these, or holds one of these."""
        return any(_within(self.plain_path, p) or _within(p, self.plain_path) for p in prefixes)


def _within(path: str, outer: str) -> bool:
    return path == outer or path.startswith(outer + ".")


def differences(old: Any, new: Any, path: str = "") -> Iterator[Difference]:
    """What an update would have to change. The order of plain values in a list does not count."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            below = _join(path, key)
            if key not in new:
                yield Difference(below, "delete")
            elif key not in old:
                yield Difference(below, "add")
            else:
                yield from differences(old[key], new[key], below)
    elif isinstance(old, list) and isinstance(new, list):
        if not _same_set(old, new):
            yield from _list_differences(old, new, path)
    elif not same(old, new):
        yield Difference(path, "update")


def _list_differences(old: list[Any], new: list[Any], path: str) -> Iterator[Difference]:
    for index in range(max(len(old), len(new))):
        below = f"{path}[{index}]"
        if index >= len(new):
            yield Difference(below, "delete")
        elif index >= len(old):
            yield Difference(below, "add")
        else:
            yield from differences(old[index], new[index], below)


def _join(path: str, key: str) -> str:
    if re.fullmatch(r"[A-Za-z_$][\w$]*", key):
        return f"{path}.{key}" if path else key
    return f'{path}["{key}"]'


def _same_set(old: list[Any], new: list[Any]) -> bool:
    scalars = not any(isinstance(item, (dict, list)) for item in [*old, *new])
    return scalars and UNKNOWN not in new and sorted(map(str, old)) == sorted(map(str, new))


def same(old: Any, new: Any) -> bool:
    """Equal, or equal as JSON documents (policies), or the same value spelled as text."""
    if old == new:
        return new != UNKNOWN
    if UNKNOWN in (old, new):
        return False
    documents = [_document(value) for value in (old, new)]
    if all(isinstance(document, (dict, list)) for document in documents):
        return documents[0] == documents[1]
    return _text(old) == _text(new)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _document(value: Any) -> Any:
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def reconciled(wanted: Any, found: Any) -> Any:
    """The input as it is in AWS now: unchanged where what was asked for is still so."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return {key: reconciled(item, found[key]) for key, item in wanted.items() if found.get(key) is not None}
    if isinstance(wanted, list) and isinstance(found, list):
        return wanted if _covers(wanted, found) else found
    return wanted if same(wanted, found) else found


def _covers(wanted: list[Any], found: list[Any]) -> bool:
    """Whether each wanted element is among the found ones, in any order, and there are no others."""
    left = list(found)
    for item in wanted:
        match = next((other for other in left if reconciled(item, other) == item), None)
        if match is None:
            return False
        left.remove(match)
    return not left


def merged(inputs: Mapping[str, Any], found: Mapping[str, Any]) -> Properties:
    """Outputs: what AWS says over what was asked for, level by level."""
    result = dict(inputs)
    for key, value in found.items():
        known = result.get(key)
        if value is None:
            continue
        if isinstance(known, dict) and isinstance(value, dict) and key not in ("tags", "tagsAll"):
            result[key] = merged(known, value)
        else:
            result[key] = known if known is not None and reconciled(known, value) == known else value
    return result


def with_unknowns(properties: Mapping[str, Any], names: tuple[str, ...]) -> Properties:
    """The properties with these (dotted) names unknown, unless they are given."""
    result = json.loads(json.dumps(dict(properties)))
    for name in names:
        place, steps = result, name.split(".")
        for step in steps[:-1]:
            place = place.setdefault(step, {})
            if not isinstance(place, dict):
                break
        if isinstance(place, dict):
            place.setdefault(steps[-1], UNKNOWN)
    return result
