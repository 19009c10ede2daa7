"""Alerts of prefill and decode behind vllm-router, each by its real fault on a live release."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import pytest

from components.observability.limits import AlertLimits
from tests.cluster import faults
from tests.cluster.alerting import Watch, limits_of, noted, watching
from tests.cluster.asking import Record, cluster_of, engine_url, pods_of
from tests.cluster.idle_probing import observed, run_now
from tools.deployment import Deployment

pytestmark = pytest.mark.nightly
SLOW_MBIT_PER_S = 20
"""8 MB of KV cache take 3 s."""
LIFE_S = 45
"""A start takes half of it; then KV cache is read without a pause. A read may end just before its prefiller does."""
MANY_AT_ONCE = 60
STREAMS = 4
ELSEWHERE = {
    "vllm-router: errors of engines a second",
    "vllm-router: circuit breaker",
    "Gateway: answers a second by status",
    "Gateway: legs of a request, mean",
}
"""Graphs that show something after faults, before other topologies, or behind the gateway."""


class Client:
    """Requests by the front door, and around it."""

    def __init__(self, deployment: Deployment, endpoint: str, model: str) -> None:
        self.deployment, self.endpoint, self.model = deployment, endpoint, model
        self.find()

    def find(self) -> None:
        """The engines' addresses, which change with their pods."""
        self.prefill, self.decode = (engine_url(self.deployment, tier) for tier in ("prefill", "decode"))

    def ask(self) -> None:
        faults.ask(self.endpoint, self.model)

    def ask_decoder_alone(self) -> None:
        assert faults.ask(self.decode, self.model) == 200

    def lose_parameters(self) -> None:
        """As a proxy does that asks both tiers and hands nothing from one to the other."""
        assert faults.ask(self.prefill, self.model) == 200
        self.ask_decoder_alone()

    def mostly_decoder_alone(self) -> None:
        self.ask()
        for _ in range(3):
            self.ask_decoder_alone()

    def leave_unfetched(self) -> None:
        faults.leave_unfetched(self.prefill, self.model)
        self.ask()


@pytest.fixture(scope="module")
def limits(deployment: Deployment) -> AlertLimits:
    return limits_of(deployment, least_tokens=500, least_transfers=1)


@pytest.fixture(scope="module")
def stack(deployment: Deployment) -> Deployment:
    finished = deployment.up(observed("alerts, split"))
    assert finished.code == 0, finished.text
    return deployment


@pytest.fixture(scope="module")
def watch(stack: Deployment, limits: AlertLimits, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watch]:
    with watching(stack, tmp_path_factory.mktemp("prometheus"), limits) as watch:
        yield watch


@pytest.fixture(scope="module")
def client(stack: Deployment) -> Client:
    outputs = stack.outputs()
    return Client(stack, outputs["endpoint"], outputs["model"])


def test_every_graph_of_the_kv_path_shows_live_traffic(watch: Watch, client: Client, limits: AlertLimits) -> None:
    def shown() -> bool:
        client.ask()
        watch.follow()
        return watch.empty_graphs(limits) == ELSEWHERE

    faults.until(shown, "values in every graph", 60)


def test_a_slow_link(watch: Watch, client: Client, record_property: Record) -> None:
    [decoder] = pods_of(watch.deployment, "decode")
    fault = faults.slow_link(decoder, SLOW_MBIT_PER_S)
    noted(record_property, [watch.fires("KvTransferSlow", fault, client.ask, client.ask, pod=decoder.name)])


def test_a_proxy_that_hands_no_parameters_over(watch: Watch, client: Client, record_property: Record) -> None:
    noted(record_property, [watch.fires("KvNotMoved", nullcontext(), client.lose_parameters, client.ask)])


def test_clients_of_a_decoder(watch: Watch, client: Client, record_property: Record) -> None:
    noted(record_property, [watch.fires("PrefillNotServed", nullcontext(), client.ask_decoder_alone, client.ask)])


def test_most_prompts_past_prefill(watch: Watch, client: Client, record_property: Record) -> None:
    noted(record_property, [watch.fires("KvPartlyMoved", nullcontext(), client.mostly_decoder_alone, client.ask)])


def test_kv_that_nobody_fetches(watch: Watch, client: Client, record_property: Record) -> None:
    noted(record_property, [watch.fires("KvExpired", nullcontext(), client.leave_unfetched, client.ask)])


def test_no_traffic_and_no_probe(watch: Watch, record_property: Record) -> None:
    """The idle probe itself, run by hand, ends it."""
    cluster = cluster_of(watch.deployment)

    def prove() -> None:
        passed, verdict = run_now(cluster)
        assert passed, verdict

    noted(record_property, [watch.fires("KvPathUnproved", nullcontext(), lambda: None, prove)])


def test_targets_that_are_not_selected(watch: Watch, client: Client, record_property: Record) -> None:
    @contextmanager
    def hidden() -> Iterator[None]:
        watch.hidden = True
        try:
            yield
        finally:
            watch.hidden = False

    noted(record_property, [watch.fires("MetricsMissing", hidden(), lambda: None, client.ask)])


def test_more_requests_than_there_is_room_for(watch: Watch, client: Client, record_property: Record) -> None:
    fault = faults.load(client.endpoint, client.model, MANY_AT_ONCE, tokens=8)
    names = ["TtftSlow", "RequestsQueue"]
    noted(record_property, watch.all_fire(names, fault, lambda: None, client.ask))


def test_decoders_that_compute_prompts(watch: Watch, client: Client, record_property: Record) -> None:
    """Each long prompt stops the answers beside it. Too many requests alone do not: they wait before prefill."""
    fault = faults.load(client.decode, client.model, STREAMS, tokens=16)
    noted(record_property, [watch.fires("ItlSlow", fault, lambda: None, client.ask)])


def test_an_engine_that_ends_again_and_again(watch: Watch, client: Client, record_property: Record) -> None:
    fault = faults.crashing(watch.deployment, "decode")
    times = watch.fires("RouterEngineErrors", fault, client.ask, client.ask)
    client.find()
    noted(record_property, [times])


def test_an_engine_that_hangs(watch: Watch, client: Client, record_property: Record) -> None:
    """Prefill: its liveness probe ends it after a while, and it starts again."""
    [prefiller] = pods_of(watch.deployment, "prefill")

    @contextmanager
    def hanging() -> Iterator[None]:
        with faults.hanging(prefiller):
            yield
        faults.wait_ready(watch.deployment, "prefill")

    noted(record_property, [watch.fires("PodNotScraped", hanging(), lambda: None, lambda: None, pod=prefiller.name)])
    client.find()


def test_a_prefiller_that_ends_while_its_kv_is_read(watch: Watch, client: Client, record_property: Record) -> None:
    """The last: decoders that read from it are started again too."""
    deployment = watch.deployment
    [decoder] = pods_of(deployment, "decode")

    @contextmanager
    def ending() -> Iterator[None]:
        with (
            faults.slow_link(decoder, SLOW_MBIT_PER_S),
            faults.load(client.endpoint, client.model, 2, tokens=1),
            faults.crashing(deployment, "prefill", LIFE_S),
        ):
            yield
        faults.restart(deployment, "decode", decoder)

    noted(record_property, [watch.fires("KvTransfersFailed", ending(), lambda: None, lambda: None)])
