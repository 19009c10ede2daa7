"""What alerts are held against, and which parts of a stack there are to watch. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

Part = Literal["split", "gateway", "vllm-router", "measured", "names-kv", "idle-probe"]
"""What an alert may need: prefill and decode apart; which router; a connector whose transfers have series; one whose
prefillers name the KV cache in their answers; the probe of idle times."""
PARTS: frozenset[Part] = frozenset(get_args(Part))
SHORTEST_WINDOW_S = 300
"""What a rate is taken over where traffic never ends: 20 scrapes at the default interval."""
LONGEST_PAUSE_S = 3600
"""Where the idle probe pauses longer, its samples are not in every window."""


@dataclass(frozen=True)
class AlertLimits:
    """`transfer_ms` is the gate's own limit. TTFT is a mean, since those of prefill and decode add up. `least_tokens`:
    fewer prompt tokens in a window say nothing; `least_transfers` likewise. `failed_share` of requests.

    `window_s` is what rates are taken over: longer than the idle probe's longest pause, so that its samples are
    always within it.
    """

    namespace: str = "splitserve"
    transfer_ms: float = 100.0
    ttft_ms: float = 5000.0
    itl_p99_ms: float = 200.0
    queued_per_pod: float = 10.0
    failed_share: float = 0.05
    moved_share: float = 0.5
    least_tokens: int = 1024
    least_transfers: int = 3
    window_s: int = SHORTEST_WINDOW_S
    parts: frozenset[Part] = field(default=PARTS)

    @property
    def window(self) -> str:
        return duration(self.window_s)


def duration(seconds: int) -> str:
    """Prometheus' way to write a time: the largest unit that divides it."""
    for unit, length in (("h", 3600), ("m", 60)):
        if seconds and seconds % length == 0:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def window_for(longest_pause_s: int | None) -> int:
    """The window for an idle probe that pauses so long at most; None: there is none. Never so long that an alert
    comes hours late."""
    if longest_pause_s is None:
        return SHORTEST_WINDOW_S
    # A Job's pod starts late on a busy node, and the samples must be scraped.
    return max(SHORTEST_WINDOW_S, min(longest_pause_s, LONGEST_PAUSE_S) + SHORTEST_WINDOW_S)
