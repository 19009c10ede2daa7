"""The shapes of public models by name, for plans without a copy of their `config.json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from components.hardware.nearest import nearest

FOLDER = Path(__file__).with_name("models")


class UnknownModel(ValueError):
    """No such model; the message names the nearest ones and what to give instead."""


def known_models() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def known_model(name: str) -> dict[str, Any]:
    """The shapes of a model. Raises UnknownModel."""
    wanted = name.lower().split("/")[-1].removesuffix("-instruct")
    if wanted in known_models():
        return json.loads((FOLDER / f"{wanted}.json").read_text())
    hint = nearest(wanted, known_models())
    raise UnknownModel(f"found {name!r}, whose shapes are not known; {hint} Or give the path of its config.json")
