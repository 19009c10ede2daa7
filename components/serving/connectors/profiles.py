"""All connector profiles by name, and what is true of a choice of several."""

from __future__ import annotations

from components.serving.connectors.chosen import Chosen
from components.serving.connectors.custom import CUSTOM
from components.serving.connectors.flexkv import FLEXKV
from components.serving.connectors.lmcache import LMCACHE, LMCACHE_MP
from components.serving.connectors.measurement import NOT_BETWEEN_TIERS, Measurement
from components.serving.connectors.mooncake import MOONCAKE
from components.serving.connectors.mooncake_store import MOONCAKE_STORE
from components.serving.connectors.moriio import MORIIO
from components.serving.connectors.multi import MULTI
from components.serving.connectors.nixl import PULL, PUSH
from components.serving.connectors.offloading import OFFLOADING, SIMPLE
from components.serving.connectors.profile import ConnectorProfile, Requests
from components.serving.spec import Topology

PROFILES: dict[str, ConnectorProfile] = {
    profile.name: profile
    for profile in (PULL, PUSH, MOONCAKE, MORIIO, MOONCAKE_STORE, LMCACHE, LMCACHE_MP, FLEXKV, OFFLOADING, SIMPLE,
                    MULTI, CUSTOM)
}  # fmt: skip


def profiles_of(chosen: Chosen) -> tuple[ConnectorProfile, ...]:
    """The profiles of the connectors that do something: those inside, or the one."""
    return tuple(PROFILES[part.name] for part in chosen.parts)


def mover(chosen: Chosen) -> ConnectorProfile | None:
    """What brings a prompt's KV cache from prefill to decode: directly, else through a store; None: nothing."""
    found = profiles_of(chosen)
    for moves in ("between-tiers", "through-store"):
        for profile in found:
            if profile.moves == moves:
                return profile
    return None


def measurement(chosen: Chosen, topology: Topology) -> Measurement:
    """How the gate measures it. Inside MultiConnector a child's series keep their names and labels
    (multi_connector.py build_prom_metrics), so that they are read as if it stood alone."""
    moving = mover(chosen)
    if topology == "collocated":
        return NOT_BETWEEN_TIERS
    return moving.measurement if moving else MULTI.measurement


def requests(chosen: Chosen, topology: Topology) -> Requests:
    """How a proxy dispatches a request to the tiers that run it."""
    moving = mover(chosen)
    return moving.requests if moving and topology == "prefill-decode" else MULTI.requests


def supports_hybrid(chosen: Chosen) -> bool | None:
    """Whether vLLM's hybrid KV cache manager stays on; None: not known."""
    found = [profile.hybrid for profile in profiles_of(chosen)]
    return False if False in found else None if None in found else True
