"""The idle probe as one file, for a ConfigMap: its modules and all of ours that they import."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from components.program import archive

ROOT = Path(__file__).resolve().parents[2]
START = "components.observability.idle_probe.main"


@cache
def packed() -> bytes:
    """`idle_probe.pyz`: run by `python3 idle_probe.pyz`."""
    files = {str(path.relative_to(ROOT)): path.read_text() for path in needed(START)}
    return archive({**files, "__main__.py": f"from {START} import main\n\nmain()\n"})


def needed(start: str) -> list[Path]:
    """The files of a module, of the modules of ours that it imports, of those that these import, and of their
    packages."""
    found: dict[Path, None] = {}
    waiting = [start]
    while waiting:
        path = _file(waiting.pop())
        if path in found:
            continue
        found[path] = None
        waiting += imported(path.read_text())
    packages = {parent / "__init__.py" for path in found for parent in path.parents if ROOT in parent.parents}
    return sorted({*found, *packages})


def imported(text: str) -> Iterator[str]:
    """The modules of ours that a source imports."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("components."):
            yield node.module or ""


def _file(module: str) -> Path:
    path = ROOT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
