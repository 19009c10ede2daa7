"""Find out how a deployment's transfers are counted: by what is exposed, and by what one transfer moves.

NIXL's series stand on both sides from the start, pull or push (vllm 0.32 `nixl/stats.py`), so one
discarded transfer shows which side counts. Connectors without series of their own are seen by the
decoder's count of tokens that arrived.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from components.check.client import Client
from components.check.engine import Engine
from components.check.process import Series
from components.release import probe
from components.release.probe import CannotMeasure
from components.serving.connectors.measurement import Measurement, unmeasured
from components.serving.connectors.mooncake_store import MOONCAKE_STORE
from components.serving.connectors.nixl import PULL, PUSH
from components.serving.connectors.profiles import PROFILES

TRANSFERS = "vllm:nixl_xfer_time_seconds_count"
STORE = "vllm:mooncake_store_operation_"
ARRIVED_NAMES = (
    'vllm:prompt_tokens_by_source_total{source="external_kv_transfer"}',
    "vllm:external_prefix_cache_hits_total",
)
"""Tokens that a decoder received, the exacter name first; both are exposed by vLLM 0.32."""
UNKNOWN = unmeasured("neither side exposes a series of its transfers, and its connector is not known")


@dataclass(frozen=True)
class Detected:
    """`measurement` as the probe's plan has it. `seen` False: nothing of any connector was found."""

    name: str
    measurement: dict[str, Any]
    seen: bool = True
    arrival_counted: bool = True


def stated(name: str, decoders: list[Engine]) -> Detected:
    """The measurement of a connector that the user names. Raises ValueError with what is wrong about it."""
    profile = PROFILES.get(name)
    choices = ", ".join(sorted(key for key, one in PROFILES.items() if one.moves != "to-host"))
    if profile is None:
        raise ValueError(f"found `{name}`, wanted one of {choices}")
    if profile.requests.decode == "bootstrap":
        raise ValueError(
            f"found `{name}`, whose decoder must be told what the prefiller's bootstrap server says, which the probe "
            "can't; wanted another connector, or the prefiller's log: --decode-log FILE"
        )
    if profile.moves == "to-host":
        raise ValueError(f"found `{name}`, which moves nothing between tiers by itself; wanted one of {choices}")
    return _adapted(name, profile.measurement, decoders)


def detect(client: Client, plan: dict[str, Any], engines: dict[str, Engine]) -> Detected:
    """By one discarded transfer of each pair until one shows who counts; `engines` by URL.

    What fails here fails again when it is measured, and is reported then.
    """
    decoders = [engines[decode["url"]] for _, decode in plan["pairs"]]
    names = frozenset().union(*(engine.series for engine in engines.values()))
    if any(name.startswith(STORE) for name in names) and TRANSFERS not in names:
        return _adapted(MOONCAKE_STORE.name, MOONCAKE_STORE.measurement, decoders)
    try_out = plan | {"measurement": _adapted(PUSH.name, PUSH.measurement, decoders).measurement}
    moved = ""
    for pair in plan["pairs"]:
        try:
            moved = _who_counts(client, try_out, pair)
        except CannotMeasure:
            continue
        if moved:
            break
    if moved == "prefill":
        return _adapted(PUSH.name, PUSH.measurement, decoders)
    if moved == "decode" or TRANSFERS in names:
        return _adapted(PULL.name, PULL.measurement, decoders)
    return _adapted("unknown", UNKNOWN, decoders, seen=moved == "arrived")


def _who_counts(client: Client, plan: dict[str, Any], pair: Any) -> str:
    """`prefill` or `decode` for the side that counts a transfer, `arrived` where only tokens are, else nothing."""
    before = _both(client, pair)
    probe.transfer(client, plan, pair, probe.random_prompt(plan, plan["prompt_tokens"]), 2)
    deadline = time.monotonic() + probe.SETTLED_LIMIT_S
    arrived = plan["measurement"]["series"]["external_tokens"]["name"]
    while True:
        after = _both(client, pair)
        for side in ("prefill", "decode"):
            if _rise(before[side], after[side], TRANSFERS) > 0:
                return side
        if time.monotonic() > deadline:
            return "arrived" if _rise(before["decode"], after["decode"], arrived) > 0 else ""
        time.sleep(0.05)


def _both(client: Client, pair: Any) -> dict[str, Series]:
    return {side: client.series(pod["url"]) for side, pod in zip(("prefill", "decode"), pair, strict=True)}


def _rise(before: Series, after: Series, name: str) -> float:
    return (probe.total(dict(after), name) or 0) - (probe.total(dict(before), name) or 0)


def _adapted(name: str, measurement: Measurement, decoders: list[Engine], *, seen: bool = True) -> Detected:
    """With the name by which these decoders count what arrived."""
    plain = measurement.to_json()
    exposed = frozenset.intersection(*(engine.series for engine in decoders))
    known = [wanted for wanted in ARRIVED_NAMES if wanted.partition("{")[0] in exposed]
    entry = plain["series"]["external_tokens"]
    plain["series"]["external_tokens"] = entry | {"name": (known or ARRIVED_NAMES)[0]}
    return Detected(name, plain, seen, bool(known))
