"""The instance catalogue: EC2's GPU types from `instances.json`, dated, with its source. Pure."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

from components.hardware.instance import Instance
from components.hardware.nearest import nearest

FILE = Path(__file__).with_name("instances.json")


class UnknownInstance(ValueError):
    """No such instance type in the catalogue; the message names the nearest ones."""


@functools.cache
def _content() -> dict[str, Any]:
    return json.loads(FILE.read_text())


@functools.cache
def catalogue() -> dict[str, Instance]:
    """Every GPU instance type that is known, by name."""
    return {name: Instance.from_json({"name": name, **entry}) for name, entry in _content()["instances"].items()}


def dated() -> str:
    """The catalogue's date and source, for messages."""
    return f"catalogue of {_content()['date']}"


def instance(name: str) -> Instance:
    """The type's facts. Raises UnknownInstance with the nearest names and what to do."""
    found = catalogue().get(name)
    if found:
        return found
    raise UnknownInstance(
        f"found {name!r}, which the {dated()} does not have; {nearest(name, catalogue())} "
        "(`splitserve instances --refresh` reads the types that AWS has now)"
    )


def known_instance(name: str) -> Instance | None:
    """The type where the catalogue has it: GPU types. Others are plain machines here."""
    return catalogue().get(name)


def save(instances: dict[str, Instance], source: str, date: str, path: Path = FILE) -> None:
    """Write the catalogue, sorted, so that a refresh shows as a small change."""
    entries = {name: found.to_json() for name, found in sorted(instances.items())}
    for entry in entries.values():
        del entry["name"]
    path.write_text(json.dumps({"source": source, "date": date, "instances": entries}, indent=1) + "\n")
