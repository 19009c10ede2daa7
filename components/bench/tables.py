"""A benchmark's figures as a table and as JSON. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from components.bench.comparison import Side
from components.bench.figures import Point
from components.bench.goodput import binding
from components.bench.load import ENOUGH_REQUESTS, Targets


def table(sides: Sequence[Side], targets: Targets) -> Table:
    """One row a rate and stack, stacks side by side under each rate."""
    found = Table(title=f"TTFT {targets.ttft_ms:g} ms and ITL {targets.itl_ms:g} ms ({targets.itl_of} of each request)")
    for column in ("requests/s", "stack", "sent/s", "within both", "TTFT p50", "p99", "ITL p50", "p99", "failed"):
        found.add_column(column, justify="left" if column == "stack" else "right", overflow="fold")
    rates = sorted({point.rate_per_s for side in sides for point in side.points})
    for rate in rates:
        for side in sides:
            if point := side.at(rate):
                found.add_row(f"{rate:g}", side.stack, *_cells(point, targets))
        found.add_section()
    return found


def _cells(point: Point, targets: Targets) -> list[str]:
    good = "" if point.good(targets) else "!"
    return [
        f"{point.sent_per_s:.3g}", f"{point.share:.1%}{good}", _ms(point.ttft_p50_ms), _ms(point.ttft_p99_ms),
        _ms(point.itl_p50_ms), _ms(point.itl_p99_ms), str(point.failed),
    ]  # fmt: skip


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def goodput_line(side: Side, targets: Targets) -> str:
    """One sentence: the goodput and what ends it."""
    found = side.goodput(targets)
    if found.missed is None and found.good is None:
        return f"{side.stack}: nothing was measured"
    if found.missed is None:
        return f"{side.stack}: goodput at least {found.rate_per_s:g} requests/s; no rate that was tried missed"
    what = binding(found.missed, targets)
    end = f"at {found.missed.rate_per_s:g} {found.missed.share:.1%} of requests were within both, {what} binds"
    if found.good is None:
        return f"{side.stack}: goodput below {found.missed.rate_per_s:g} requests/s; {end}"
    return f"{side.stack}: goodput {found.rate_per_s:g} requests/s; {end}"


def notes(sides: Sequence[Side]) -> list[str]:
    """What to know before these figures are believed."""
    points = [(side, point) for side in sides for point in side.points]
    lines = []
    few = min((point.requests for _, point in points if not point.enough), default=None)
    if few:
        lines.append(
            f"p99 of {few} requests is (nearly) their maximum; wanted {ENOUGH_REQUESTS}: --requests {ENOUGH_REQUESTS}"
        )
    for side, point in points:
        if point.failures:
            reason, count = point.failures[0]
            lines.append(
                f"{side.stack}, {point.rate_per_s:g} requests/s: {point.failed} failed, {count} with: {reason}"
            )
        if point.late:
            lines.append(
                f"{side.stack}, {point.rate_per_s:g} requests/s: the load generator sent only {point.sent_per_s:.3g} a "
                "second; its node has too little CPU"
            )
    return lines


def side_json(side: Side, targets: Targets) -> dict[str, Any]:
    found = side.goodput(targets)
    return {
        "stack": side.stack,
        "topology": side.topology,
        side.unit + "s": side.units,
        "goodput_per_s": found.rate_per_s,
        "bounded": found.bounded,
        "binds": binding(found.missed, targets) if found.missed else None,
        "rates": [_point_json(point, targets) for point in sorted(side.points, key=lambda point: point.rate_per_s)],
    }


def _point_json(point: Point, targets: Targets) -> dict[str, Any]:
    content = {key: round(value, 3) if isinstance(value, float) else value for key, value in asdict(point).items()}
    content["failures"] = [{"reason": reason, "count": count} for reason, count in point.failures]
    return content | {"share": round(point.share, 4), "good": point.good(targets)}
