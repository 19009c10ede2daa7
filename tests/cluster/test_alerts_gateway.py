"""Alerts of the gateway before prefill and decode, each by its real fault on a live release."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from components.serving.labels import workload_name
from tests.cluster import faults
from tests.cluster.alerting import Watch, limits_of, noted, watching
from tests.cluster.asking import Record, cluster_of, pods_of, shaped
from tools.deployment import Deployment

pytestmark = pytest.mark.nightly
SLOW_MBIT_PER_S = 10
"""8 MB of KV cache take 7 s, with two at once twice that."""
ROUTER_GRAPHS = {"vllm-router: errors of engines a second", "vllm-router: circuit breaker"}


@pytest.fixture(scope="module")
def stack(deployment: Deployment) -> Deployment:
    def rendered(settings: dict[str, Any]) -> None:
        shaped("prefill-decode", 1)(settings)
        settings["splitserve:note"] = "alerts, gateway"

    finished = deployment.up(rendered)
    assert finished.code == 0, finished.text
    return deployment


@pytest.fixture(scope="module")
def watch(stack: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watch]:
    with watching(stack, tmp_path_factory.mktemp("prometheus"), limits_of(stack)) as watch:
        yield watch


@pytest.fixture(scope="module")
def ask(stack: Deployment) -> Any:
    outputs = stack.outputs()
    return lambda: faults.ask(outputs["endpoint"], outputs["model"])


def test_every_graph_but_the_router_s_shows_live_traffic(watch: Watch, ask: Any) -> None:
    def shown() -> bool:
        ask()
        watch.follow()
        return watch.empty_graphs(limits_of(watch.deployment)) == ROUTER_GRAPHS

    faults.until(shown, "values in every graph", 60)


def test_a_slow_link_delays_first_bytes(watch: Watch, ask: Any, record_property: Record) -> None:
    [decoder] = pods_of(watch.deployment, "decode")
    fault = faults.slow_link(decoder, SLOW_MBIT_PER_S)
    noted(record_property, [watch.fires("GatewayFirstByteSlow", fault, ask, ask)])


def test_an_engine_that_ends_again_and_again(watch: Watch, ask: Any, record_property: Record) -> None:
    fault = faults.crashing(watch.deployment, "decode")
    names = ["GatewayUpstreamFails", "GatewayRequestsFail", "GatewayNoHealthyPod"]
    noted(record_property, watch.all_fire(names, fault, ask, ask))


def test_a_prefiller_without_its_connector(watch: Watch, ask: Any, record_property: Record) -> None:
    """As an admission webhook or a hand would change the workload: past Pulumi, past the gate."""
    deployment = watch.deployment
    noted(record_property, [watch.fires("GatewayPrefillWithoutKv", without_connector(deployment), ask, ask)])


@contextmanager
def without_connector(deployment: Deployment) -> Iterator[None]:
    cluster = cluster_of(deployment)
    name = workload_name("prefill", deployment.outputs()["live"])
    written = cluster.apps.read_namespaced_deployment(name, deployment.namespace)
    [container] = written.spec.template.spec.containers
    before = list(container.args)
    at = before.index("--kv-transfer-config")
    replaced(deployment, name, before[:at] + before[at + 2 :])
    try:
        yield
    finally:
        replaced(deployment, name, before)


def replaced(deployment: Deployment, name: str, arguments: list[str]) -> None:
    """Change the arguments of the workload's one container, and wait until its old pod is gone and a new one ready."""
    cluster = cluster_of(deployment)
    old = {pod.name for pod in pods_of(deployment, "prefill")}
    [container] = cluster.apps.read_namespaced_deployment(name, deployment.namespace).spec.template.spec.containers
    changed = {"spec": {"template": {"spec": {"containers": [{"name": container.name, "args": arguments}]}}}}
    cluster.apps.patch_namespaced_deployment(name, deployment.namespace, changed)

    def done() -> bool:
        now = {pod.name for pod in pods_of(deployment, "prefill")}
        return bool(now) and not now & old

    faults.until(done, "a prefiller with other arguments", faults.READY_LIMIT_S)
