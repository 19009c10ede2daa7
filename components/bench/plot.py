"""Share of good requests and both p99 over the request rate, as a picture.

By matplotlib, the extra `splitserve[plot]`: without it everything but the picture works.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from components.bench.comparison import Side
from components.bench.figures import Point
from components.bench.load import Targets

KINDS = (".svg", ".png")
Value = Callable[[Point], float | None]


class CannotPlot(Exception):
    """No picture: the message says why and what to do."""


def check(path: Path) -> None:
    """Whether a picture could be written there, before hours are measured for it. Raises CannotPlot."""
    if path.suffix not in KINDS:
        raise CannotPlot(f"found `{path.name}`; wanted a name that ends in {' or '.join(KINDS)}")
    if not path.parent.is_dir():
        raise CannotPlot(f"found no folder {path.parent}; make it, or choose another")
    _matplotlib()


def plot(path: Path, sides: Sequence[Side], targets: Targets) -> None:
    """Write the picture. Raises CannotPlot."""
    figure_of, settings = _matplotlib()
    # The same figures give the same file.
    settings["svg.hashsalt"] = "splitserve"
    figure = figure_of(figsize=(7, 9), layout="constrained")
    axes = figure.subplots(3, sharex=True)
    _panel(axes[0], sides, "share within both targets", lambda p: p.share, targets.share)
    _panel(axes[1], sides, "TTFT p99, ms", lambda p: p.ttft_p99_ms, targets.ttft_ms)
    _panel(axes[2], sides, "ITL p99, ms", lambda p: p.itl_p99_ms, targets.itl_ms)
    axes[0].legend()
    axes[2].set_xlabel("requests/s")
    axes[2].set_xscale("log")
    rates = sorted({point.rate_per_s for side in sides for point in side.points})
    axes[2].set_xticks(rates, [f"{rate:g}" for rate in rates], rotation=45)
    axes[2].set_xticks([], minor=True)
    try:
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    except OSError as error:
        raise CannotPlot(f"{path} can't be written: {error.strerror}") from None


def _panel(axes: Any, sides: Sequence[Side], label: str, value: Value, target: float) -> None:
    for side in sides:
        points = sorted(side.points, key=lambda point: point.rate_per_s)
        found = [(point.rate_per_s, value(point)) for point in points]
        known = [(rate, number) for rate, number in found if number is not None]
        name = f"{side.stack} ({side.topology})"
        axes.plot([rate for rate, _ in known], [number for _, number in known], marker="o", label=name)
    axes.axhline(target, color="grey", linestyle="--", linewidth=1)
    axes.set_ylabel(label)
    axes.set_ylim(bottom=0)


def _matplotlib() -> tuple[Any, Any]:
    """matplotlib's Figure, which needs no display, and its settings."""
    try:
        return importlib.import_module("matplotlib.figure").Figure, importlib.import_module("matplotlib").rcParams
    except ImportError:
        raise CannotPlot("matplotlib is not installed; run: pip install 'splitserve[plot]'") from None
