"""What Pulumi's analyzer can't infer of the arguments: what each setting means, its default, and unions.

All of it is in the stack file's schema already.
"""

from __future__ import annotations

from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from infra.package.arguments import alternatives
from infra.settings import Settings

SIMPLE = {str: "string", int: "integer", float: "number", bool: "boolean"}
Schema = dict[str, Any]


def completed(schema: Schema, package: str, component: str) -> Schema:
    """The inferred schema with descriptions, defaults' words and unions; changes it in place."""
    resource = schema["resources"][f"{package}:index:{component}"]
    _complete(resource["inputProperties"], Settings)
    for section in sections(Settings).values():
        if described := schema["types"].get(f"{package}:index:{section.__name__}"):
            _complete(described["properties"], section)
    return schema


def sections(section: type[BaseModel], found: dict[str, type[BaseModel]] | None = None) -> dict[str, type[BaseModel]]:
    """A section and all sections in it, by name."""
    found = {} if found is None else found
    if section.__name__ not in found:
        found[section.__name__] = section
        for field in section.model_fields.values():
            for inner in _sections_of(field.annotation):
                sections(inner, found)
    return found


def _sections_of(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [inner for part in get_args(annotation) for inner in _sections_of(part)]


def _complete(properties: Schema, section: type[BaseModel]) -> None:
    for name, field in section.model_fields.items():
        found = properties[field.alias or name]
        if words := _words(field):
            found["description"] = words
        _unite(found, field.annotation)


def _words(field: FieldInfo) -> str:
    """What the setting means, and its default where it is a plain value."""
    default = field.get_default()
    plain = isinstance(default, (str, int, float)) and not field.is_required() and default != ""
    told = f"Default: {str(default).lower() if isinstance(default, bool) else default}." if plain else ""
    return " ".join(part for part in (" ".join((field.description or "").split()), told) if part)


def _unite(found: Schema, annotation: Any) -> None:
    """In place of Any: what a union may be, of a field or of a mapping's values."""
    allowed = alternatives(annotation)
    if len(allowed) > 1:
        found.pop("$ref", None)
        found["oneOf"] = [{"type": kind} for kind in dict.fromkeys(_simple(one) for one in allowed)]
    elif get_origin(allowed[0]) is dict and "additionalProperties" in found:
        _unite(found["additionalProperties"], get_args(allowed[0])[1])


def _simple(allowed: Any) -> str:
    """The schema's name of a type; the words of a choice are texts."""
    return SIMPLE[type(get_args(allowed)[0]) if get_origin(allowed) is Literal else allowed]
