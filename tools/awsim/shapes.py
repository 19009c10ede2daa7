"""AWS's own service models (botocore's) as a judge: names, types, enums, patterns, lengths. Pure.

boto3 by itself checks required members and types only, and what AWS would refuse for a wrong enum or
pattern passes unseen. Two directions: `convert` turns Pulumi's property names into API parameters,
`faults` says what AWS would refuse in finished parameters.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any

import botocore.session
from botocore.model import OperationModel, ServiceModel, Shape, StructureShape

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
"""Pulumi's mark for a value not known yet (pulumi/pulumi sdk/go/common/resource/plugin/rpc.go)."""


class ConversionFault(ValueError):
    """An input that the API has no parameter for; the message names its path."""


@functools.cache
def _session() -> Any:
    return botocore.session.get_session()


@functools.cache
def service(name: str) -> ServiceModel:
    """The service's model, as in botocore's data folder."""
    return _session().get_service_model(name)


def operation(service_name: str, action: str) -> OperationModel:
    return service(service_name).operation_model(action)


def input_shape(service_name: str, action: str) -> StructureShape:
    shape: Any = operation(service_name, action).input_shape
    if shape is None:
        raise ConversionFault(f"{service_name}:{action} takes no parameters")
    return shape


def plain(name: str) -> str:
    """A name without case and separators, under which Pulumi's and AWS's spellings are equal."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def is_unknown(value: Any) -> bool:
    """Whether the value is unknown, or has an unknown part."""
    if isinstance(value, Mapping):
        return any(is_unknown(item) for item in value.values())
    if isinstance(value, list):
        return any(is_unknown(item) for item in value)
    return isinstance(value, str) and UNKNOWN in value


def convert(value: Any, shape: Shape, renames: Mapping[str, str], path: str = "") -> Any:
    """Pulumi's value as the API's parameter.

    `renames` maps a path of Pulumi names, without list indexes, to the member that it means.
    A single object where the API wants a list becomes a list of one: the Terraform schema's lists of
    at most one element are single objects in Pulumi.
    """
    if value is None or value == UNKNOWN:
        return value
    kind = shape.type_name
    if kind == "structure":
        return _structure(value, shape, renames, path)
    if kind == "list":
        items = value if isinstance(value, list) else [value]
        return [convert(item, _member(shape), renames, path) for item in items if item is not None]
    if kind == "map":
        if not isinstance(value, Mapping):
            raise ConversionFault(f"{path}: found {value!r}, need a map")
        return {key: convert(item, _value(shape), renames, path) for key, item in value.items()}
    return _scalar(value, kind, path)


def _structure(value: Any, shape: Any, renames: Mapping[str, str], path: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ConversionFault(f"{path}: found {value!r}, need an object")
    members = {plain(name): name for name in shape.members}
    converted = {}
    for key, item in value.items():
        below = f"{path}.{key}" if path else key
        name = members.get(plain(renames.get(below, key)))
        if name is None:
            raise ConversionFault(f"{below}: {shape.name} of the API has no such member")
        if item is not None:
            converted[name] = convert(item, shape.members[name], renames, below)
    return converted


def _scalar(value: Any, kind: str, path: str) -> Any:
    if kind == "boolean" and value in ("true", "false"):  # some of Terraform's booleans are strings
        return value == "true"
    if kind in ("integer", "long") and isinstance(value, float) and value.is_integer():
        return int(value)
    if kind in ("float", "double") and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value


def _member(shape: Any) -> Shape:
    return shape.member


def _value(shape: Any) -> Shape:
    return shape.value


def faults(value: Any, shape: Shape, path: str = "") -> Iterator[str]:
    """What AWS would refuse: one message a fault, each with the parameter's path. Unknowns pass."""
    if value is None or (isinstance(value, str) and UNKNOWN in value):
        return
    yield from _known_faults(value, shape, path)


def _known_faults(value: Any, shape: Shape, path: str) -> Iterator[str]:
    kind = shape.type_name
    wrong = _wrong_type(value, kind)
    if wrong:
        yield f"{path}: found {value!r}, need {wrong}"
    elif kind == "structure":
        yield from _structure_faults(value, shape, path)
    elif kind == "list":
        yield from _length_faults(len(value), shape, f"{path}: number of elements")
        for index, item in enumerate(value):
            yield from faults(item, _member(shape), f"{path}[{index}]")
    elif kind == "map":
        yield from _length_faults(len(value), shape, f"{path}: number of entries")
        for key, item in value.items():
            yield from faults(item, _value(shape), f"{path}.{key}")
    elif kind == "string":
        yield from _string_faults(value, shape, path)
    elif kind in ("integer", "long", "float", "double"):
        yield from _length_faults(value, shape, path)


def _structure_faults(value: Mapping[str, Any], shape: Any, path: str) -> Iterator[str]:
    for name in shape.required_members:
        if name not in value:
            yield f"{path or shape.name}: {name} is required"
    for name, item in value.items():
        below = f"{path}.{name}" if path else name
        if name not in shape.members:
            yield f"{below}: {shape.name} of the API has no such member"
        else:
            yield from faults(item, shape.members[name], below)


def _wrong_type(value: Any, kind: str) -> str | None:
    """What is needed instead, or None where the type fits."""
    wanted: dict[str, tuple[tuple[type, ...], str]] = {
        "structure": ((Mapping,), "an object"),
        "map": ((Mapping,), "a map"),
        "list": ((list, tuple), "a list"),
        "string": ((str,), "a string"),
        "integer": ((int,), "a whole number"),
        "long": ((int,), "a whole number"),
        "float": ((int, float), "a number"),
        "double": ((int, float), "a number"),
        "boolean": ((bool,), "true or false"),
    }
    types, words = wanted.get(kind, ((object,), ""))
    fits = isinstance(value, types) and (kind == "boolean" or not isinstance(value, bool) or object in types)
    return None if fits else words


def _length_faults(size: float, shape: Any, what: str) -> Iterator[str]:
    low, high = shape.metadata.get("min"), shape.metadata.get("max")
    if low is not None and size < low:
        yield f"{what}: found {size}, need at least {low}"
    if high is not None and size > high:
        yield f"{what}: found {size}, need at most {high}"


def _string_faults(value: str, shape: Any, path: str) -> Iterator[str]:
    yield from _length_faults(len(value), shape, f"{path}: length")
    enum = getattr(shape, "enum", None) or []
    if enum and value not in enum:
        shown = ", ".join(enum[:12]) + (", …" if len(enum) > 12 else "")
        yield f"{path}: found {value!r}, need one of {shown}"
    pattern = _pattern(shape.metadata.get("pattern"))
    if pattern and not pattern.fullmatch(value):
        yield f"{path}: {value!r} does not match {pattern.pattern}"


@functools.cache
def _pattern(text: str | None) -> re.Pattern[str] | None:
    """The service's pattern; None where Java's syntax is not Python's.

    AWS matches the whole value, and the published patterns leave the end open at times
    (`^[0-9A-Za-z][A-Za-z0-9\\-_]*` for an EKS cluster's name).
    """
    if not text:
        return None
    try:
        return re.compile(text, re.DOTALL)
    except re.error:
        return None
