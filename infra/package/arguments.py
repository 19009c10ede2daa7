"""The component's arguments as types that Pulumi's analyzer reads, made from the stack file's own schema.

A section becomes a TypedDict, and a choice of words an enumeration, as the analyzer wants them. It knows no
unions: those fields are `Any` to it, and `infra/package/schema.py` says in the schema what they may be.
"""

from __future__ import annotations

import re
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypedDict, Union, get_args, get_origin

import pulumi
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from infra.settings import Settings

Types = dict[str, Any]


def arguments(section: type[BaseModel], made: Types | None = None) -> Any:
    """The TypedDict of a section, with those of all sections in it; `made` are those that there are, by name."""
    made = {} if made is None else made
    if section.__name__ not in made:
        fields = {name: _field(section, name, field, made) for name, field in section.model_fields.items()}
        # By the call, because no source could have them: they are the stack file's.
        made[section.__name__] = TypedDict(section.__name__, fields, total=False)  # type: ignore[operator]
        required = {name for name, field in section.model_fields.items() if field.is_required()}
        made[section.__name__].__optional_keys__ = frozenset(fields) - required
        made[section.__name__].__doc__ = section.__doc__
    return made[section.__name__]


def alternatives(annotation: Any) -> list[Any]:
    """The types that an annotation allows beside None, without their limits."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return alternatives(get_args(annotation)[0])
    if origin in (Union, UnionType):
        return [one for part in get_args(annotation) if part is not NoneType for one in alternatives(part)]
    return [annotation]


def _field(section: type[BaseModel], name: str, field: FieldInfo, made: Types) -> Any:
    return pulumi.Input[_shape(field.annotation, f"{section.__name__}{_capital(field.alias or name)}", made)]


def _shape(annotation: Any, name: str, made: Types) -> Any:
    """A type that the analyzer knows; `name` is that of an enumeration."""
    allowed = alternatives(annotation)
    if len(allowed) > 1:
        return Any
    only = allowed[0]
    origin = get_origin(only)
    if origin is Literal:
        return _enumeration(name, get_args(only), made)
    if origin is list:
        return list[pulumi.Input[_shape(get_args(only)[0], name, made)]]
    if origin is dict:
        return dict[str, pulumi.Input[_shape(get_args(only)[1], name, made)]]
    if isinstance(only, type) and issubclass(only, BaseModel):
        return arguments(only, made)
    return only


def _enumeration(name: str, values: tuple[Any, ...], made: Types) -> Any:
    """The same words elsewhere are another enumeration: sections may come to differ."""
    if name not in made:
        members = [(_member(value), value) for value in values]
        made[name] = Enum(name, members, type=type(values[0]), module=__name__)
        made[name].__doc__ = None
    return made[name]


def _member(value: Any) -> str:
    """`prefill-decode` as PrefillDecode; 125 as Of125, since a name begins with a letter."""
    if isinstance(value, int):
        return f"Of{value}"
    return "".join(_capital(part) for part in re.split(r"[^A-Za-z0-9]+", value))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


ServingArgs = arguments(Settings)
