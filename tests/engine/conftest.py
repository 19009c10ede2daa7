"""The real Pulumi engine on a `file://` backend of the test's own, and a stack file with one change."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tools.cache import CHECKOUT, cache
from tools.deployment import Deployment
from tools.local import full_environment
from tools.own_engine import backend_url

STACK = f"engine-test-{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}"
"""Each process of pytest-xdist has its own: `pulumi` writes its settings into the checkout."""


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    """A fresh stack. A missing engine fails the test: `make test-engine` builds it first."""
    environment = {**os.environ, **full_environment(cache()), "PULUMI_BACKEND_URL": backend_url(tmp_path)}
    assert shutil.which("pulumi", path=environment["PATH"]), "no pulumi: run `make start` first"
    deployment = Deployment(STACK, "splitserve-engine-test", environment, show=False)
    made = deployment.run("stack", "init")
    assert made.code == 0, made.text
    yield deployment
    (CHECKOUT / "stacks" / f"Pulumi.{STACK}.yaml").unlink(missing_ok=True)


@pytest.fixture
def preview(deployment: Deployment) -> Callable[..., Any]:
    """`pulumi preview` with changes to the stack file."""

    def preview(*changes: Callable[[dict[str, Any]], None]) -> Any:
        return deployment.run("preview", "--config-file", str(deployment.stack_file(*changes)))

    return preview
