"""What the gate expects of a release: it travels as JSON, in the ledger and in the release's record. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from components.hardware.geometry import Geometry, groups_from_json


@dataclass(frozen=True)
class Expectation:
    """What the gate compares its measurements with; all of it follows from the specification."""

    topology: str
    model: str
    engine_port: int
    router_port: int
    block_size: int
    max_model_len: int
    vocabulary: int
    kv_dtype: str
    tensor_parallel: int
    """Of the decode tier: each of its ranks reads its share."""
    layer_groups: list[dict[str, Any]]
    """The model's KV geometry: components/hardware/geometry.py."""
    render_port: int | None = None
    """None without a render tier."""
    encoder: str | None = None
    """The encoder tier's connector; None without one."""
    api_key_secret: str | None = None
    """The Secret whose key opens the release's own router."""
    measurement: dict[str, Any] | None = None
    """How the connector's transfers are measured (components/serving/connectors/measurement.py); None: as
    NIXL's in pull mode."""

    @property
    def geometry(self) -> Geometry:
        return Geometry(groups_from_json(self.layer_groups), self.vocabulary, 0)

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> Expectation:
        return Expectation(**whole_numbers(dict(content)))


def _number(value: Any) -> Any:
    """Undo what the engine does to numbers: it keeps all of them as floating point."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def whole_numbers(value: Any) -> Any:
    """A document of the engine's with its whole numbers as such, through and through."""
    if isinstance(value, dict):
        return {key: whole_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [whole_numbers(item) for item in value]
    return _number(value)
