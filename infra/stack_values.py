"""The stack file's keys as Pulumi hands them to a program: objects as JSON, everything else as text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from infra.naming import CONFIG_PREFIX
from infra.settings import Settings


def stack_values(raw: Mapping[str, str]) -> dict[str, Any]:
    """This project's keys without their prefix, each as the YAML had it."""
    texts = {field.alias or name for name, field in Settings.model_fields.items() if _is_text(field.annotation)}
    return {
        key.removeprefix(CONFIG_PREFIX): _parsed(value, key.removeprefix(CONFIG_PREFIX) in texts)
        for key, value in raw.items()
        if key.startswith(CONFIG_PREFIX)
    }


def _is_text(annotation: Any) -> bool:
    """Whether a setting is a word: then `123` and `true` are words, too."""
    return annotation is str or "str" in str(annotation) or "Literal" in str(annotation)


def _parsed(value: str, text: bool) -> Any:
    if text:
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value
