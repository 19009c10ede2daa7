"""Goodput: the highest request rate that a topology sustains within its targets. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from components.bench.figures import Point
from components.bench.load import Targets

Binding = Literal["TTFT", "ITL", "TTFT and ITL", "failures", "load generator"]


@dataclass(frozen=True)
class Goodput:
    """`good` is the last rate before the first one that missed; None when the lowest missed already.

    `missed` is that first one; None when every rate was good, so that the goodput is at least the highest.
    `above` is a good rate above it: then the runs are too short to be believed.
    """

    good: Point | None
    missed: Point | None
    above: Point | None

    @property
    def rate_per_s(self) -> float | None:
        return self.good.rate_per_s if self.good else None

    @property
    def bounded(self) -> bool:
        return self.missed is not None


def goodput(points: Iterable[Point], targets: Targets) -> Goodput:
    """Of rates in any order. A good rate above a missed one is luck, so it doesn't count."""
    good: Point | None = None
    missed: Point | None = None
    above: Point | None = None
    for point in sorted(points, key=lambda point: point.rate_per_s):
        if not point.good(targets):
            missed = missed or point
        elif missed is None:
            good = point
        else:
            above = point
    return Goodput(good, missed, above)


def binding(point: Point, targets: Targets) -> Binding:
    """What kept a rate from being good: the target that fewer requests met, or what is no target at all."""
    if point.late and point.share >= targets.share:
        return "load generator"
    answered = point.requests - point.failed
    allowed = (1 - targets.share) * point.requests
    missed_ttft, missed_itl = answered - point.met_ttft, answered - point.met_itl
    if point.failed > max(allowed, missed_ttft, missed_itl):
        return "failures"
    # Each may lack less than is allowed while both together lack more.
    if missed_ttft > allowed and missed_itl > allowed:
        return "TTFT and ITL"
    if missed_ttft == missed_itl:
        return "TTFT and ITL"
    return "TTFT" if missed_ttft > missed_itl else "ITL"
