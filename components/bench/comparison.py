"""Split or stay collocated, by what was measured. Pure.

The words are those of components/hardware/traffic.py, which advises before anything is measured. A choice
needs figures that bear it: no failed request, enough requests for a p99, and rates that end the search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from components.bench.figures import Point
from components.bench.goodput import Goodput, binding, goodput
from components.bench.load import ENOUGH_REQUESTS, Targets
from components.hardware.traffic import Choice

WORTH = 1.1
"""A split runs three or four services instead of one: a tenth more goodput is the least that pays."""
_LITTLE = "a split that wins less than a tenth does not pay for its services: three or four instead of one"


@dataclass(frozen=True)
class Side:
    """One stack's figures. `units` of hardware (`unit`: GPU or engine) that it was measured on."""

    stack: str
    topology: str
    units: int
    unit: str
    points: tuple[Point, ...]

    def goodput(self, targets: Targets) -> Goodput:
        return goodput(self.points, targets)

    def at(self, rate_per_s: float) -> Point | None:
        return next((point for point in self.points if point.rate_per_s == rate_per_s), None)


@dataclass(frozen=True)
class Comparison:
    """`choice` is None where both stacks have the same topology: then there is nothing to choose."""

    choice: Choice | None
    ratio: float | None
    """Goodput of the first over that of the second, per unit of hardware."""
    reasons: tuple[str, ...]


def compare(first: Side, second: Side, targets: Targets) -> Comparison:
    doubts = [*_doubts(first, targets), *_doubts(second, targets)]
    ratio = _ratio(first, second, targets)
    if first.topology == second.topology:
        return Comparison(None, ratio, (*doubts, *_figures(first, second, targets)))
    if doubts:
        return Comparison("measure", ratio, tuple(doubts))
    split, collocated = (second, first) if first.topology == "collocated" else (first, second)
    choice, reasons = _choose(split, collocated, targets)
    return Comparison(choice, ratio, (*_figures(first, second, targets), *reasons))


def decisive(side: Side, targets: Targets) -> list[Point]:
    """The points that a goodput rests on: up to the first rate that missed."""
    end = side.goodput(targets).missed
    return [point for point in side.points if end is None or point.rate_per_s <= end.rate_per_s]


def _doubts(side: Side, targets: Targets) -> list[str]:
    """Why a stack's figures bear no advice."""
    found, points = side.goodput(targets), decisive(side, targets)
    doubts = []
    if failed := sum(point.failed for point in points):
        sent = sum(point.requests for point in points)
        doubts.append(f"{side.stack}: {failed} of {sent} requests failed: mend that first")
    if fewest := min((point.requests for point in points if not point.enough), default=None):
        doubts.append(
            f"{side.stack}: {fewest} requests at a rate are too few for a p99, which needs {ENOUGH_REQUESTS}: "
            f"give --requests {ENOUGH_REQUESTS}"
        )
    if late := [point for point in points if point.late]:
        doubts.append(f"{side.stack}: the load generator could not keep to {late[0].rate_per_s:g} requests/s")
    if found.above:
        doubts.append(
            f"{side.stack}: {found.above.rate_per_s:g} requests/s met the targets and a lower rate did not: "
            "the runs are too short, give more --requests"
        )
    if not points:
        doubts.append(f"{side.stack}: nothing was measured")
    return doubts


def _per_unit(side: Side, targets: Targets) -> float | None:
    rate = side.goodput(targets).rate_per_s
    return None if rate is None or not side.units else rate / side.units


def _ratio(first: Side, second: Side, targets: Targets) -> float | None:
    one, other = _per_unit(first, targets), _per_unit(second, targets)
    return one / other if one is not None and other else None


def _choose(split: Side, collocated: Side, targets: Targets) -> tuple[Choice, tuple[str, ...]]:
    """Both sides' figures are sound."""
    mine, theirs = split.goodput(targets), collocated.goodput(targets)
    if not mine.bounded and not theirs.bounded:
        return "measure", ("both meet the targets at every rate that was tried: try higher ones",)
    if mine.rate_per_s is None and theirs.rate_per_s is None:
        return "measure", ("neither meets the targets at the lowest rate: ease the targets or add hardware",)
    if theirs.rate_per_s is None:
        return "split", _why(collocated, split, targets)
    if mine.rate_per_s is None:
        return "collocated", _why(split, collocated, targets)
    ratio = _ratio(split, collocated, targets) or 0.0
    if ratio >= WORTH and not theirs.bounded:
        return "measure", (f"{collocated.stack} meets the targets at every rate that was tried: try higher ones",)
    if ratio >= WORTH:
        return "split", _why(collocated, split, targets)
    if not mine.bounded:
        return "measure", (f"{split.stack} meets the targets at every rate that was tried: try higher ones",)
    reasons = (_LITTLE,) if ratio > 1 else _why(split, collocated, targets)
    return "collocated", reasons


def _why(loser: Side, winner: Side, targets: Targets) -> tuple[str, ...]:
    """What the loser misses first, and what the winner has there."""
    missed = loser.goodput(targets).missed
    if missed is None:
        return ()
    other = winner.at(missed.rate_per_s)
    what = binding(missed, targets)
    names = {"TTFT": ("TTFT",), "ITL": ("ITL",)}.get(what, ("TTFT", "ITL"))
    reasons = [_missed(loser, missed, other, winner, name, targets) for name in names]
    if loser.topology != "collocated" and what == "TTFT":
        reasons.append("TTFT binds: a split adds the transfer to it")
    return tuple(reasons)


def _missed(loser: Side, missed: Point, other: Point | None, winner: Side, name: str, targets: Targets) -> str:
    target = targets.ttft_ms if name == "TTFT" else targets.itl_ms
    met = missed.met_ttft if name == "TTFT" else missed.met_itl
    theirs = f"; {_short(winner)} {_p99(other, name)}" if other else ""
    return (
        f"{_short(loser)} {name} p99 {_p99(missed, name)} at {missed.rate_per_s:g} requests/s{theirs}; "
        f"{met} of {missed.requests} requests met the {target:g} ms target, {targets.share:.1%} should"
    )


def _p99(point: Point | None, name: str) -> str:
    value = None if point is None else point.ttft_p99_ms if name == "TTFT" else point.itl_p99_ms
    return "unknown" if value is None else f"{value:,.0f} ms"


def _short(side: Side) -> str:
    return "collocated" if side.topology == "collocated" else "split"


def _figures(first: Side, second: Side, targets: Targets) -> tuple[str, ...]:
    """Both goodputs, in requests per second and per unit of hardware."""
    per_unit = first.unit == second.unit and first.units != second.units
    return tuple(f"{side.stack} ({side.topology}): {_figure(side, targets, per_unit)}" for side in (first, second))


def _figure(side: Side, targets: Targets, per_unit: bool) -> str:
    found = side.goodput(targets)
    if found.rate_per_s is None:
        lowest = min((point.rate_per_s for point in side.points), default=0.0)
        return f"goodput below {lowest:g} requests/s"
    text = f"goodput {'' if found.bounded else 'at least '}{found.rate_per_s:g} requests/s"
    each = _per_unit(side, targets)
    return f"{text} on {side.units} {side.unit}s, {each:.3g} each" if per_unit and each is not None else text


def comparable(first: Sequence[str], second: Sequence[str]) -> list[str]:
    """Why two stacks can't be compared: what each of (model, unit of hardware) says. Empty when they can."""
    return [
        f"{what}: found `{one}` and `{other}`; wanted the same in both stacks"
        for what, one, other in zip(("model", "hardware is counted in"), first, second, strict=True)
        if one != other
    ]
