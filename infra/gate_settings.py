"""The gate's settings as the ledger and the gate resource keep them."""

from __future__ import annotations

from typing import Any

from infra.settings import Gate


def gate_settings(gate: Gate) -> dict[str, Any]:
    """Plain values by camelCase key; `age` as text, since it may be a word or a number."""
    return gate.model_dump(by_alias=True) | {"age": str(gate.age)}
