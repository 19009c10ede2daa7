"""How many pods each tier should have. Pure: sizes, signals and what was remembered in, decisions out.

Each signal tracks its target as a HorizontalPodAutoscaler's does
(https://kubernetes.io/docs/concepts/workloads/autoscaling/horizontal-pod-autoscale/), the highest wish of a
tier counts; then come the tier's windows, steps and bounds, and last the ratio of prefill to decode.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from .signals import Reading

ROUNDING = 1e-9
"""So that 3 pods' worth of load, summed in floating point, is not 4."""


@dataclass(frozen=True)
class Rules:
    """A tier's bounds in pods, and how it may move."""

    least: int
    most: int
    tolerance: float = 0.1
    up_step: int = 4
    down_step: int = 1


@dataclass(frozen=True)
class TierView:
    """One tier as it is seen this round.

    `current` is what its Deployment is set to. `ready` pods should have answered; pods that are not ready
    yet make up the rest. `asked_*` are the extremes of earlier recommendations within the windows,
    `size_low` and `size_high` those of its size within the step windows; `hold` says why nothing may be lowered.
    """

    current: int
    ready: int
    readings: Sequence[Reading]
    asked_low: int
    asked_high: int
    size_low: int
    size_high: int
    silent: int = 0
    """Ready pods that did not answer."""
    hold: str | None = None


@dataclass(frozen=True)
class Decision:
    """`recommended` is what the signals ask for, `wanted` what the tier shall be set to; `signal` asked for most."""

    current: int
    recommended: int
    wanted: int
    reason: str
    signal: str | None = None

    @property
    def action(self) -> str:
        return "up" if self.wanted > self.current else "down" if self.wanted < self.current else "hold"


def decide(
    views: Mapping[str, TierView], rules: Mapping[str, Rules], ratio: tuple[float, float]
) -> dict[str, Decision]:
    """A decision for each tier."""
    decisions = {tier: decide_alone(view, rules[tier]) for tier, view in views.items()}
    prefill, decode = decisions.get("prefill"), decisions.get("decode")
    # A tier of 0 is stopped, and nothing follows from it for the other.
    if prefill and decode and prefill.current and decode.current:
        boxes = tuple(reach(views[tier], rules[tier]) for tier in ("prefill", "decode"))
        kept = keep_ratio((prefill.wanted, decode.wanted), (boxes[0], boxes[1]), ratio)
        for tier, wanted in zip(("prefill", "decode"), kept, strict=True):
            if wanted != decisions[tier].wanted:
                decisions[tier] = replace(decisions[tier], wanted=wanted, reason="ratio")
    return decisions


def decide_alone(view: TierView, rules: Rules) -> Decision:
    """One tier by its own signals, windows, steps and bounds."""
    current = view.current
    if current == 0:
        return Decision(0, 0, 0, "stopped")
    asked, signal = recommend(view, rules.tolerance)
    recommended = min(max(asked, rules.least), rules.most)
    up, down = min(view.asked_low, recommended), max(view.asked_high, recommended)
    settled = up if up > current else down if down < current else current
    low, high = reach(view, rules)
    wanted = min(max(settled, low), high)
    if wanted != current:
        outside = not rules.least <= current <= rules.most
        reason = "bounds" if outside else "signal" if wanted == settled else "step"
    else:
        reason = _why_held(view, asked, recommended, settled)
    return Decision(current, recommended, wanted, reason, signal)


def _why_held(view: TierView, asked: int, recommended: int, settled: int) -> str:
    """Why a tier stays as it is, in one word for metrics and logs."""
    if not view.readings:
        return "no_metrics"
    if recommended == view.current:
        return "bounds" if asked != recommended else "silent_pods" if view.silent else "steady"
    if settled == view.current:
        return "up_window" if recommended > view.current else "down_window"
    if settled > view.current:
        return "step"
    return "silent_pods" if view.silent else view.hold or "step"


def recommend(view: TierView, tolerance: float) -> tuple[int, str | None]:
    """(pods, the signal that asks for most of them). Without any signal: what there is."""
    wishes = [(wish(view, reading, tolerance), reading.name) for reading in view.readings if reading.pods > 0]
    if not wishes:
        return view.current, None
    return max(wishes, key=lambda pair: pair[0])


def wish(view: TierView, reading: Reading, tolerance: float) -> int:
    """The pods that one signal asks for.

    Up: a pod that is silent counts as being at its target and one that starts as idle, so neither adds to
    the load and what is coming is not ordered again. Down: a silent pod forbids it.
    """
    usage = reading.value / reading.target
    missing = view.ready - reading.pods
    load = usage * reading.pods
    if usage > 1 + tolerance:
        load += missing
        if not reading.proportional:
            # Doubled at most, and then see what the new pods do once they serve: while they start, which takes
            # minutes, a queue only grows.
            load = min(load, 2 * view.ready)
        return max(_ceil(load), view.current) if load > view.current * (1 + tolerance) else view.current
    if usage < 1 - tolerance and missing <= 0:
        return min(_ceil(load), view.current)
    return view.current


def reach(view: TierView, rules: Rules) -> tuple[int, int]:
    """The sizes that the tier may be set to this round. Its bounds go before its steps."""
    current = view.current
    if current == 0:
        return 0, 0
    unknown = not view.readings or any(reading.pods < view.ready for reading in view.readings)
    held = view.hold or view.silent or unknown
    low = current if held else min(current, view.size_high - rules.down_step)
    high = max(current, 2 * view.size_low, view.size_low + rules.up_step)
    return min(max(low, rules.least), rules.most), min(max(high, rules.least), rules.most)


def keep_ratio(asked: tuple[int, int], boxes: tuple[tuple[int, int], tuple[int, int]],
               ratio: tuple[float, float]) -> tuple[int, int]:  # fmt: skip
    """The smallest (prefill, decode) not below `asked` with prefill/decode within `ratio`, each within its box.

    What can't be had that way is capped: the largest sizes that keep the ratio are asked for instead. (Sizes
    that keep it are closed under taking the larger, and the smaller, of each; so both are unique, and more
    load never makes a tier smaller.) Where no sizes within the boxes keep it, they come as near as they can.
    """
    lowest, highest = ratio
    (p_low, p_high), (d_low, d_high) = boxes
    if p_high < lowest * d_low - ROUNDING:
        return p_high, d_low
    if p_low > highest * d_high + ROUNDING:
        return p_low, d_high
    p, d = p_high, d_high
    while p >= p_low and d >= d_low:
        if p > highest * d + ROUNDING:
            p = _floor(highest * d)
        elif p < lowest * d - ROUNDING:
            d = _floor(p / lowest)
        else:
            return _smallest((min(asked[0], p), min(asked[1], d)), ratio)
    # Only because pods are whole: 3 decode pods have no half as many prefill pods.
    return asked


def _smallest(asked: tuple[int, int], ratio: tuple[float, float]) -> tuple[int, int]:
    """It exists, since the caller's cap keeps the ratio and is not below `asked`."""
    p, d = asked
    while True:
        if p < ratio[0] * d - ROUNDING:
            p = _ceil(ratio[0] * d)
        elif p > ratio[1] * d + ROUNDING:
            d = _ceil(p / ratio[1])
        else:
            return p, d


def _ceil(value: float) -> int:
    return math.ceil(value - ROUNDING)


def _floor(value: float) -> int:
    return math.floor(value + ROUNDING)
