"""The gate's settings as the ledger and the gate resource keep them."""

from __future__ import annotations

from typing import Any

from infra.plan import Plan


def gate_settings(plan: Plan) -> dict[str, Any]:
    """Plain values by camelCase key; `age` as text, since it may be a word or a number.

    With `maxRatio`, `expectedMs` is what the plan expects of the probe's prompt (None: unknown).
    """
    gate = plan.settings.gate
    values = gate.model_dump(by_alias=True) | {"age": str(gate.age), "readyLimitS": plan.ready_limit_s}
    if gate.unmeasured == "refuse":
        del values["unmeasured"]
    if gate.max_ratio is None:
        del values["maxRatio"]
        return values
    expected = plan.expected(gate.prompt_tokens)
    return values | {"expectedMs": expected.aged_ms if expected else None}
