"""How the gate measures a connector's transfers: which series, of which tier, in which unit.

Names are those that vLLM 0.32 exposes: prometheus_client adds `_total` to counters, `_sum` and `_count`
to histograms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Side = Literal["prefill", "decode"]
BOTH: tuple[Side, ...] = ("prefill", "decode")


@dataclass(frozen=True)
class Series:
    """`factor` makes the probe's unit of the exposed one: ms, bytes, pieces, tokens. Its increase counts
    summed over the pods of `sides`."""

    name: str
    factor: float
    sides: tuple[Side, ...]


ARRIVED = {
    "external_tokens": Series('vllm:prompt_tokens_by_source_total{source="external_kv_transfer"}', 1, ("decode",))
}
"""Prompt tokens that the decoder did not compute: what vLLM's scheduler counts for every connector."""


@dataclass(frozen=True)
class Measurement:
    """`side` owns the transfer series. `unmeasured` says why times and bytes can't be measured; what arrived
    and what was answered can be judged nevertheless. `on_first_use`: a series that is not there yet is 0.
    `whole_blocks`: the last block of a prompt moves only when it is full. `bootstrap`: the decoder is told what the
    prefiller's bootstrap server says, at the side channel's port."""

    side: Side | None
    series: Mapping[str, Series] = field(default_factory=dict)
    dispatch: Literal["sequential", "concurrent", "none"] = "sequential"
    same_request_id: bool = False
    unmeasured: str | None = None
    on_first_use: bool = False
    whole_blocks: bool = False
    bootstrap: bool = False

    def to_json(self) -> dict[str, Any]:
        """As plain data, for the release's expectation and the probe's plan."""
        return {
            "side": self.side,
            "series": {
                key: {"name": one.name, "factor": one.factor, "sides": list(one.sides)}
                for key, one in self.series.items()
            },
            "dispatch": self.dispatch,
            "sameRequestId": self.same_request_id,
            "unmeasured": self.unmeasured,
            "onFirstUse": self.on_first_use,
            "wholeBlocks": self.whole_blocks,
        }


NOT_BETWEEN_TIERS = Measurement(side=None, dispatch="none")
"""Of a connector that moves nothing between tiers, and of one tier alone."""


def unmeasured(why: str, *, bootstrap: bool = False) -> Measurement:
    """Only what arrived can be counted."""
    said = f"can't be measured, because {why}"
    return Measurement(side=None, series=ARRIVED, unmeasured=said, bootstrap=bootstrap)
