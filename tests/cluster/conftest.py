"""A stack of its own on the running local cluster: own backend, own namespace, real vLLM.

The tests of this folder share one stack, because a release takes most of a minute to start. Each
begins with a live release (`live`), whatever the one before left, so that one fault fails one test.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tools.cache import CHECKOUT, cache
from tools.deployment import Deployment
from tools.local import full_environment
from tools.localcluster import cluster
from tools.own_engine import backend_url

STACK = "cluster-test"


@pytest.fixture(scope="session")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    assert cluster.is_ready(cache().layout()), "the local cluster does not run: `make start` first"
    backend = tmp_path_factory.mktemp("state")
    environment = {**os.environ, **full_environment(cache()), "PULUMI_BACKEND_URL": backend_url(backend)}
    deployment = Deployment(STACK, "splitserve-cluster-test", environment)
    made = deployment.run("stack", "init")
    assert made.code == 0, made.text
    yield deployment
    deployment.run("cancel", "--yes")
    destroyed = deployment.run("destroy", "--yes", "--skip-preview", "--suppress-progress")
    (CHECKOUT / "stacks" / f"Pulumi.{STACK}.yaml").unlink(missing_ok=True)
    assert destroyed.code == 0, destroyed.text


@pytest.fixture
def live(deployment: Deployment) -> Deployment:
    """The stack with a release that passed and has the traffic."""
    if not deployment.outputs().get("live"):
        made = deployment.up()
        assert made.code == 0, made.text
    return deployment
