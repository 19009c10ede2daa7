"""Ports and variables that connectors need in an engine's pod."""

from __future__ import annotations

from typing import Any

from components.serving.connectors.profile import ConnectorProfile, Port
from components.serving.connectors.profiles import profiles_of
from components.serving.connectors.transfer_config import chosen_for
from components.serving.spec import EngineSpec, EngineTier, ServingSpec

FIELD = "field:"


def connector_environment(serving: ServingSpec, tier: EngineTier) -> list[dict[str, Any]]:
    """The container's variables, in the order of the profiles."""
    port = str(serving.tiers[tier].engine.side_channel_port)
    found: dict[str, dict[str, Any]] = {}
    for profile in profiles_of(chosen_for(serving, tier)):
        for name, value in (profile.environment or {}).items():
            found[name] = {"name": name, **_value(value, port)}
    return list(found.values())


def _value(value: str, port: str) -> dict[str, Any]:
    if value.startswith(FIELD):
        return {"valueFrom": {"fieldRef": {"fieldPath": value.removeprefix(FIELD)}}}
    return {"value": port if value == "$port" else value}


def port_numbers(profile: ConnectorProfile, engine: EngineSpec, tier: EngineTier) -> list[tuple[str, int]]:
    """(name, number) of every port that a connector listens on in a pod of one engine."""
    return [
        (port.name, engine.side_channel_port + port.offset + step)
        for port in profile.ports
        if tier in port.tiers
        for step in range(_count(port, engine))
    ]


def _count(port: Port, engine: EngineSpec) -> int:
    return {
        "one": 1,
        "data": engine.data_parallel,
        "data-and-tensor": engine.data_parallel + engine.tensor_parallel - 1,
    }[port.per_rank]
