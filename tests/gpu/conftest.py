"""Real vLLM on two GPUs, as processes: no Kubernetes. `python3 -m pytest tests/gpu`, with docs/how-to/measure-on-gpus.md."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tools.gpu.engines import Engine, gpus, serving
from tools.gpu.models import make
from tools.gpu.scenarios import specs

WANTED_GPUS = 2


def lacking() -> str | None:
    """Why nothing can be measured here; None where it can."""
    found = gpus()
    if found < WANTED_GPUS:
        return f"found {found} GPUs, wanted {WANTED_GPUS}"
    return None if find_spec("vllm") else "found GPUs but no vLLM on PYTHONPATH: see docs/how-to/measure-on-gpus.md"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = lacking()
    for item in items:
        if item.get_closest_marker("gpu") and reason:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of logs and answers: $SPLITSERVE_OUT where that is set."""
    return Path(os.environ.get("SPLITSERVE_OUT") or tmp_path_factory.mktemp("engines"))


@pytest.fixture(scope="module")
def engines(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Engine]]:
    """All engines of the scenarios by name; they start at once."""
    wanted = specs(make("qwen2.5-7b", tmp_path_factory.mktemp("models")))
    with serving(list(wanted.values()), folder / "logs") as started:
        yield dict(zip(wanted, started, strict=True))
