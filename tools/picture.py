"""Draws docs/images/overview.svg from overview.yaml: `python -m tools.picture`. The same source gives the same file.

Own code, since what draws diagrams by itself (Graphviz, Mermaid, D2) either lays them out anew with each version and
font, or needs a browser; a test could then not hold the picture against its source.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import yaml

FOLDER = Path(__file__).resolve().parents[1] / "docs/images"
SOURCE, PICTURE = FOLDER / "overview.yaml", FOLDER / "overview.svg"
ROUND, MARGIN = 8, 18
STYLE = """
text { font: 15px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2328; text-anchor: middle }
.note { font-size: 12px; fill: #59636e }
.corner { text-anchor: start; font-weight: 600 }
.bold { font-weight: 600 }
rect { fill: #ffffff; stroke: #59636e; stroke-width: 1.5 }
path { fill: none; stroke: #59636e; stroke-width: 1.8 }
marker path { stroke: none }
.edge { fill: #ddf4ff; stroke: #0969da } .live { fill: #f6f8fa; stroke: #1a7f37; stroke-width: 2 }
.candidate { fill: #f6f8fa; stroke-width: 2; stroke-dasharray: 8 5 } .optional { stroke-dasharray: 4 4 }
.gate { fill: #fff8c5; stroke: #9a6700 } .refused { fill: #ffebe9; stroke: #cf222e }
.kv { stroke: #8250df; stroke-width: 6 } .kv-text { fill: #8250df; font-weight: 600; font-size: 13px }
.measure { stroke: #9a6700; stroke-dasharray: 3 4 } .measure-text { fill: #9a6700; font-size: 13px }
.pass { stroke: #1a7f37; stroke-width: 2.5 } .pass-text { fill: #1a7f37; font-size: 13px }
.fail { stroke: #cf222e; stroke-width: 2.5 } .fail-text { fill: #cf222e; font-size: 13px }
.flow-text { font-size: 13px; fill: #59636e }
.head-kv { fill: #8250df } .head-measure { fill: #9a6700 } .head-pass { fill: #1a7f37 } .head-fail { fill: #cf222e }
.head-flow, .head-both { fill: #59636e }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc } .note, .flow-text { fill: #9198a1 }
rect { fill: #151b23; stroke: #9198a1 } path { stroke: #9198a1 }
.edge { fill: #0c2d4d; stroke: #4493f8 } .live { fill: #0d1117; stroke: #3fb950 } .candidate { fill: #0d1117 }
.gate { fill: #2e2a1f; stroke: #d29922 } .refused { fill: #3c1618; stroke: #f85149 }
.kv { stroke: #ab7df8 } .kv-text { fill: #ab7df8 } .measure { stroke: #d29922 } .measure-text { fill: #d29922 }
.pass { stroke: #3fb950 } .pass-text { fill: #3fb950 } .fail { stroke: #f85149 } .fail-text { fill: #f85149 }
.head-kv { fill: #ab7df8 } .head-measure { fill: #d29922 } .head-pass { fill: #3fb950 } .head-fail { fill: #f85149 }
.head-flow, .head-both { fill: #9198a1 }
}
"""
HEADS = ("flow", "both", "kv", "measure", "pass", "fail")


def draw(source: dict[str, Any]) -> str:
    """The SVG, light or dark as its reader's page is. `source` is {size, title, boxes, lines}, as in overview.yaml."""
    width, height = source["size"]
    heads = "".join(_head(style) for style in HEADS)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-labelledby="title">',
        f'<title id="title">{escape(source["title"])}</title>',
        f"<style>{STYLE}</style>",
        f"<defs>{heads}</defs>",
        *(_box(**box) for box in source["boxes"]),
        *(_line(**line) for line in source["lines"]),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _head(style: str) -> str:
    size = 3 if style == "kv" else 7
    return (
        f'<marker id="{style}" viewBox="0 0 10 10" refX="8" refY="5" markerWidth="{size}" markerHeight="{size}" '
        f'orient="auto-start-reverse"><path class="head-{style}" d="M0 0L10 5L0 10z"/></marker>'
    )


def _box(at: list[int], text: str, style: str, note: str = "", place: str = "middle") -> str:
    x, y, width, height = at
    drawn = f'<rect class="{style}" x="{x}" y="{y}" width="{width}" height="{height}" rx="{ROUND}"/>'
    if place == "corner":
        return drawn + _text(x + MARGIN, y + 30, text, "corner")
    middle = y + height // 2
    if not note:
        return drawn + _text(x + width // 2, middle + 5, text, "bold")
    return drawn + _text(x + width // 2, middle - 3, text, "bold") + _text(x + width // 2, middle + 15, note, "note")


def _line(path: list[list[int]], style: str, text: str = "", text_at: tuple[int, int] = (0, 0)) -> str:
    way = "M" + "L".join(f"{x} {y}" for x, y in path)
    start = f' marker-start="url(#{style})"' if style == "both" else ""
    drawn = f'<path class="{style}" d="{way}"{start} marker-end="url(#{style})"/>'
    return drawn + (_text(*text_at, text, f"{style}-text") if text else "")


def _text(x: int, y: int, text: str, style: str) -> str:
    return f'<text class="{style}" x="{x}" y="{y}">{escape(text)}</text>'


if __name__ == "__main__":
    PICTURE.write_text(draw(yaml.safe_load(SOURCE.read_text())))
