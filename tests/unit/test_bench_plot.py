"""A picture of the curves; and before anything is measured, why there can't be one."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from components.bench import plot
from tests.unit.test_bench_comparison import FAST_KV, STALLS, TARGETS

needs_matplotlib = pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="the extra `plot`")


@needs_matplotlib
def test_the_same_figures_give_the_same_svg(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        plot.plot(tmp_path / name, [FAST_KV, STALLS], TARGETS)
    text = (tmp_path / "a.svg").read_text()
    assert text == (tmp_path / "b.svg").read_text() and "<svg" in text


@needs_matplotlib
def test_a_png_is_one(tmp_path: Path) -> None:
    plot.plot(tmp_path / "a.png", [STALLS], TARGETS)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("name", "words"), [("a.pdf", "ends in .svg or .png"), ("nowhere/a.svg", "found no folder")]
)  # fmt: skip
def test_a_picture_that_cannot_be_is_refused_at_once(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(plot.CannotPlot, match=words):
        plot.check(tmp_path / name)


def test_without_matplotlib_the_way_out_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(plot.importlib, "import_module", missing)
    with pytest.raises(plot.CannotPlot, match=r"pip install 'splitserve\[plot\]'"):
        plot.check(tmp_path / "a.svg")
