"""A `python` that runs the stand-in whatever module of vLLM it is told to run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools.cache import CHECKOUT


def interpreter(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    path = folder / "python"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} -m tests.unit.gpu_stand_in "$@"\n')
    path.chmod(0o755)
    monkeypatch.setenv("PYTHONPATH", str(CHECKOUT))
    return str(path)
