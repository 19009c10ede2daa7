"""The typed reader of a stack's outputs, for other teams' programs.

outputs = await read_outputs("organization/splitserve/prod")
pulumi.export("llm", outputs.endpoint)
"""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from infra import output_names as names


@dataclass(frozen=True)
class StackOutputs:
    """What a consumer needs. Times in milliseconds; None before the first gate has measured."""

    endpoint: str
    model: str
    live: str | None
    verdict: str
    kv_transfer_ms: float | None
    kv_transfer_aged_ms: float | None


async def read_outputs(stack: str) -> StackOutputs:
    """Read another stack's outputs by its full name, `organization/splitserve/STACK`.

    Raises KeyError when that stack has not been deployed by this program.
    """
    reference = pulumi.StackReference(stack)

    async def value(name: str) -> object:
        return (await reference.get_output_details(name)).value

    endpoint = await value(names.ENDPOINT)
    if endpoint is None:
        raise KeyError(f"stack {stack} has no output `{names.ENDPOINT}`: was it deployed by splitserve?")
    live, gate = await value(names.LIVE), await value(names.GATE)
    # The gate's own figures: after a refused release the engine keeps an output's last value for a null.
    judged = gate.get("verdict", {}) if isinstance(gate, dict) else {}
    fresh, aged = judged.get("kv_transfer_ms"), judged.get("kv_transfer_aged_ms")
    return StackOutputs(
        endpoint=str(endpoint),
        model=str(await value(names.MODEL)),
        live=str(live) if live else None,
        verdict=str(await value(names.VERDICT)),
        kv_transfer_ms=float(fresh) if isinstance(fresh, int | float) else None,
        kv_transfer_aged_ms=float(aged) if isinstance(aged, int | float) else None,
    )
