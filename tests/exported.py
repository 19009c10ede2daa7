"""A serving stack's outputs as plain data, by the program's own writer: what tests of readers read."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pulumi

from components.hardware.geometry import Attention, groups_to_json
from components.release.ledger import Ledger, advance, plan_update
from components.release.release import Expectation, Release
from components.release.switch import ReleaseSwitch
from components.release.verdict import Verdict
from infra.outputs import Configured, exported

GATE = {"limitMs": 100.0, "retry": 0}
LAYERS = groups_to_json((Attention(8, 4, 64, heads=8),))
EXPECTATION = Expectation("prefill-decode", "tiny", 8000, 8080, 32, 2048, 2048, "bfloat16", 1, LAYERS)
PASS = Verdict("pass", "fast", "KV transfer 20 ms", "", kv_transfer_ms=20.5, kv_transfer_aged_ms=30.25)
FAIL = Verdict("fail", "slow-link", "412 ms aged, limit 100", "mend the link", kv_transfer_aged_ms=412.0)
UNKNOWN = Verdict("inconclusive", "pair-unmeasured", "no statistics", "export them")
NOT_READY = Verdict("fail", "not-ready", "its decoder did not start", "read the pod's message")


def release(name: str, model: str = "tiny", secret: str | None = None) -> Release:
    return Release(name, f"note of {name}", replace(EXPECTATION, model=model, api_key_secret=secret), {"prefill": {}})


def updated(ledger: Ledger, judged: Release, verdict: Verdict) -> tuple[Ledger, dict[str, Any]]:
    """One update: the ledger after it, and all that it exports, nulls included."""
    after = advance(ledger, plan_update(ledger, judged, 0), verdict, GATE)
    switch = SimpleNamespace(
        endpoint="http://10.0.0.9", ledger=after.to_json(), verdict=verdict.to_json(),
        gate=SimpleNamespace(verdict=verdict.to_json(), evidence={"pairs": []}),
    )  # fmt: skip
    return after, _resolved(Configured(judged.id, judged.expectation.model, "team"), switch)


def outputs_after(*updates: tuple[Release, Verdict]) -> dict[str, Any]:
    """What a stack exports after some updates."""
    ledger, values = Ledger(), dict[str, Any]()
    for judged, verdict in updates:
        ledger, values = updated(ledger, judged, verdict)
    return values


def passed(name: str = "r1", **of: Any) -> dict[str, Any]:
    return outputs_after((release(name, **of), PASS))


def referenced(values: Any) -> Any:
    """As a stack reference has them: without what is null, numbers as floating point."""
    if isinstance(values, dict):
        return {key: referenced(value) for key, value in values.items() if value is not None}
    if isinstance(values, list):
        return [referenced(value) for value in values]
    return float(values) if isinstance(values, int) and not isinstance(values, bool) else values


def _resolved(configured: Configured, switch: SimpleNamespace) -> dict[str, Any]:
    async def resolve() -> dict[str, Any]:
        gate = SimpleNamespace(**{name: pulumi.Output.from_input(part) for name, part in vars(switch.gate).items()})
        parts = {name: pulumi.Output.from_input(part) for name, part in vars(switch).items() if name != "gate"}
        whole = exported(configured, cast(ReleaseSwitch, SimpleNamespace(**parts, gate=gate)))
        return cast(dict[str, Any], await pulumi.Output.from_input(whole).future())

    return json.loads(json.dumps(asyncio.run(resolve())))
