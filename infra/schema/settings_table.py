"""The settings as a Markdown table: docs/reference/settings.md is made from it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

HEAD = """# Settings

Everything under `splitserve:` in `stacks/Pulumi.<env>.yaml`. Unknown keys are refused with the nearest
known one; all faults come in one message, before anything is created. Made by `splitserve settings` from
`infra/settings.py`; `stacks/schema.json` lets editors complete and check the files. What must fit together
is in [rules](rules.md).
"""


def settings_table(settings: type[BaseModel]) -> str:
    """One table a section, with the section's own docstring above it. A section that occurs again
    refers to where it was shown."""
    parts, shown = [HEAD], dict[type[BaseModel], str]()
    for key, field in _fields(settings):
        section = _section(field.annotation)
        if section is None:
            continue
        about = " ".join((section.__doc__ or "").split())
        parts.append(f"\n## {key}\n\n{about}\n")
        if section in shown:
            parts.append(f"\nAs `{shown[section]}`.\n")
            continue
        parts.append("\n| key | default | meaning |\n|---|---|---|\n")
        parts += _rows(section, key, shown)
    parts.append("\n## Others\n\n| key | default | meaning |\n|---|---|---|\n")
    parts += [_row(key, field) for key, field in _fields(settings) if _section(field.annotation) is None]
    return "".join(parts)


def _rows(section: type[BaseModel], prefix: str, shown: dict[type[BaseModel], str]) -> Iterator[str]:
    shown[section] = prefix
    for name, field in _fields(section):
        key, inner = f"{prefix}.{name}", _section(field.annotation)
        if inner is None:
            yield _row(key, field)
        elif inner in shown:
            about = " ".join((field.description or "").split()).rstrip(".")
            yield f"| `{key}` | | {'; '.join(part for part in (about, f'as `{shown[inner]}`') if part)} |\n"
        else:
            yield from _rows(inner, key, shown)


def _fields(section: type[BaseModel]) -> Iterator[tuple[str, FieldInfo]]:
    for name, field in section.model_fields.items():
        yield field.alias or name, field


def _row(key: str, field: FieldInfo) -> str:
    meaning = " ".join((field.description or "").split())
    allowed = _words(field.annotation)
    text = "; ".join(part for part in (meaning.rstrip("."), allowed) if part)
    return f"| `{key}` | {_default(field)} | {text} |\n"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True)
    return (
        "none"
        if default in (None, "", {}, [])
        else f"`{str(default).lower() if default is True or default is False else default}`"
    )


def _words(annotation: Any) -> str:
    """The words that a setting may be, if it is one of a few."""
    for candidate in (annotation, *get_args(annotation)):
        if get_origin(candidate) is Literal:
            return "one of " + ", ".join(f"`{word}`" for word in get_args(candidate))
    return ""


def _section(annotation: Any) -> type[BaseModel] | None:
    for candidate in (annotation, *get_args(annotation)):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None
