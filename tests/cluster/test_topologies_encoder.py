"""An encoder tier before prefill and decode: deployed, gated and asked about images.

The model is `tiny-vision` (tools/localcluster/vision_model.py), which `make start` makes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from components.release.cluster import Cluster
from components.release.probe import parse_metrics, picture, total
from tests.cluster.asking import RENDER_ON_TWO_CORES, Change, cluster_of, engine_url, pods_of, shaped
from tools.cache import CHECKOUT
from tools.deployment import Deployment

METRICS_PORT = 29000
LIMIT_S = 60
RECOVERY_LIMIT_S = 150
MODEL = "tiny-vision"
NODE_FOLDER = "/tmp"
"""Of the local node: a memory file system that everyone may write to."""
PICTURES = [picture() for _ in range(3)]
ENCODER: dict[str, Any] = {"replicas": 1, "connector": "folder", "folder": {"node": NODE_FOLDER}, "reuseS": 600}


def encoding(topology: str) -> Change:
    """A topology of the vision model with a render and an encoder tier. `swap`: five engines are too many at once."""

    def change(settings: dict[str, Any]) -> None:
        shaped(topology, 1)(settings)
        settings["splitserve:note"] = f"{topology} with an encoder"
        settings["splitserve:model"] = {"name": MODEL, "folder": f".local/models/{MODEL}"}
        settings["splitserve:render"] = {"replicas": 1} | RENDER_ON_TWO_CORES
        settings["splitserve:encoder"] = ENCODER
        settings["splitserve:rollout"] = {"strategy": "swap"}

    return change


def asked(url: str, *pictures: str, **more: Any) -> httpx.Response:
    parts: list[dict[str, Any]] = [{"type": "image_url", "image_url": {"url": one}} for one in pictures]
    content = [*parts, {"type": "text", "text": "What is shown?"}]
    body = {"model": MODEL, "messages": [{"role": "user", "content": content}], "max_tokens": 12, "temperature": 0}
    return httpx.post(f"{url}/v1/chat/completions", json=body | more, timeout=LIMIT_S, trust_env=False)


def said(url: str, *pictures: str) -> str:
    reply = asked(url, *pictures)
    assert reply.status_code == 200, reply.text
    return reply.json()["choices"][0]["message"]["content"]


@pytest.fixture(scope="module")
def room(deployment: Deployment) -> Iterator[Deployment]:
    """Leaves the stack small again: another release beside three engines would not find the memory."""
    yield deployment

    def small(settings: dict[str, Any]) -> None:
        shaped("collocated", 0)(settings)
        settings["splitserve:rollout"] = {"strategy": "swap"}

    finished = deployment.up(small)
    assert finished.code == 0, finished.text


@pytest.fixture(scope="module")
def stack(room: Deployment) -> Deployment:
    """Before prefill and decode, of which encoders before collocated engines are a part."""
    assert (CHECKOUT / ".local/models" / MODEL).is_dir(), f"no {MODEL}: `make start` makes it"
    finished = room.up(encoding("prefill-decode"))
    assert finished.code == 0, finished.text
    return room


@pytest.fixture
def cluster(stack: Deployment) -> Cluster:
    return cluster_of(stack)


def counted(cluster: Cluster, pod: str, port: int, series: str) -> float:
    return total(parse_metrics(cluster.pod_page(pod, port, "metrics")), series) or 0


def test_the_gate_proved_that_embeddings_move(stack: Deployment) -> None:
    outputs = stack.outputs()
    assert outputs["verdict"] == "pass" and "encoder" in outputs["ledger"]["live"]["release"]["pods"]
    found = outputs["gate"]["evidence"]["encoder"]
    (pair,) = found["pairs"]
    # An output has no key for what is None.
    assert (found.get("error"), found.get("router_error"), pair.get("error")) == (None, None, None)
    assert pair["samples"]
    assert all(sample["moved"] == sample["own"] != sample["decoy"] for sample in pair["samples"])
    assert found["encoded"] == len(found["answers"]) == 3


def test_answers_to_images_are_an_engine_s_own(stack: Deployment) -> None:
    """An engine that is asked by itself encodes the images by itself."""
    tier = stack.outputs()["ledger"]["live"]["release"]["expectation"]["topology"].split("-")[0]
    engine = engine_url(stack, tier)
    for shown in (PICTURES[:1], PICTURES[1:2], PICTURES):
        assert said(stack.outputs()["endpoint"], *shown) == said(engine, *shown)
    assert said(engine, PICTURES[0]) != said(engine, PICTURES[1])


def test_an_image_is_encoded_once_and_text_is_not(stack: Deployment, cluster: Cluster) -> None:
    router = pods_of(stack, "router")[0].name

    def encoded() -> float:
        return counted(cluster, router, METRICS_PORT, "splitserve_gateway_encoded_items_total")

    endpoint, fresh = stack.outputs()["endpoint"], picture()
    before = encoded()
    said(endpoint)
    assert encoded() == before
    first = said(endpoint, fresh)
    assert (said(endpoint, fresh), encoded()) == (first, before + 1)


def test_a_stream_about_an_image_ends_as_it_should(stack: Deployment) -> None:
    reply = asked(stack.outputs()["endpoint"], PICTURES[0], stream=True)
    assert reply.status_code == 200 and reply.text.rstrip().endswith("data: [DONE]")


def test_a_client_can_name_no_image_of_another(stack: Deployment) -> None:
    endpoint = stack.outputs()["endpoint"]

    def named(url: str) -> str:
        content = [
            {"type": "image_url", "image_url": {"url": url}, "uuid": "../same"},
            {"type": "text", "text": "What?"},
        ]
        body = {"model": MODEL, "messages": [{"role": "user", "content": content}], "max_tokens": 12, "temperature": 0}
        reply = httpx.post(f"{endpoint}/v1/chat/completions", json=body, timeout=LIMIT_S, trust_env=False)
        assert reply.status_code == 200, reply.text
        return reply.json()["choices"][0]["message"]["content"]

    assert named(PICTURES[0]) != named(PICTURES[1])


def test_without_encoders_an_image_is_an_error_and_text_is_served(stack: Deployment, cluster: Cluster) -> None:
    endpoint, live = stack.outputs()["endpoint"], stack.outputs()["live"]
    cluster.scale(live, {"encoder": 0})
    try:
        deadline = time.monotonic() + LIMIT_S
        while (reply := asked(endpoint, picture())).status_code == 200 and time.monotonic() < deadline:
            time.sleep(1)
        assert reply.status_code == 503, reply.text
        assert (
            reply.json()["error"]["type"] == "ServiceUnavailableError" and "10." not in reply.json()["error"]["message"]
        )
        assert asked(endpoint).status_code == 200
    finally:
        cluster.scale(live, {"encoder": 1})
    deadline = time.monotonic() + RECOVERY_LIMIT_S
    while (reply := asked(endpoint, picture())).status_code != 200 and time.monotonic() < deadline:
        time.sleep(2)
    assert reply.status_code == 200, reply.text
