"""Which pod serves a leg, and how pods are found: choice by load and by prefix, list and watch of the API."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from components.gateway.discovery import Discovery, in_cluster
from components.gateway.faults import Fault
from components.gateway.pods import OVERLOAD_TOKENS, Pods, prefix_of
from components.gateway.settings import Settings
from tests.unit.fake_gateway_stand import of_generate, run, stand, until
from tests.unit.ports import free_port


def pods(count: int = 3, policy: str = "least_loaded") -> Pods:
    made = Pods(("prefill", "decode"), unhealthy_s=10, policy=policy)
    for tier in ("prefill", "decode"):
        made.put(tier, {f"pod-{number}": f"http://{tier}-{number}" for number in range(count)})
    return made


def test_prefill_goes_where_the_fewest_prompt_tokens_are_and_decode_where_the_fewest_requests_are() -> None:
    made = pods(2)
    first, second = made.all("prefill")
    one, other = made.all("decode")
    with made.load(first, 1000), made.load(second, 10), made.load(second, 10), made.load(one, 9):
        assert made.pick("prefill") is second
        assert made.pick("decode") is other
    assert (first.tokens, first.requests, second.tokens, one.requests) == (0, 0, 0, 0)


def test_one_prefix_goes_to_one_pod_and_prefixes_spread() -> None:
    made = pods(3, "prefix_aware")
    names = [prefix_of([number], 4) for number in range(300)]
    chosen = [made.pick("prefill", prefix=name) for name in names]
    assert chosen == [made.pick("prefill", prefix=name) for name in names]
    counts = Counter(pod.name for pod in chosen if pod)
    assert len(counts) == 3 and min(counts.values()) > 60


def test_a_pod_that_goes_moves_only_its_own_prefixes() -> None:
    made = pods(3, "prefix_aware")
    names = [prefix_of([number], 4) for number in range(100)]
    before = {name: made.pick("prefill", prefix=name) for name in names}
    made.put("prefill", {f"pod-{number}": f"http://prefill-{number}" for number in range(2)})
    for name, pod in before.items():
        assert pod is not None and (made.pick("prefill", prefix=name) is pod or pod.name == "pod-2")


def test_only_the_first_tokens_make_a_prefix() -> None:
    assert prefix_of([1, 2, 3], 2) == prefix_of([1, 2, 9], 2) != prefix_of([1, 3], 2)


def test_a_pod_with_too_much_in_flight_loses_its_prefix() -> None:
    made = pods(3, "prefix_aware")
    name = prefix_of([1], 4)
    first = made.pick("prefill", prefix=name)
    assert first is not None
    with made.load(first, OVERLOAD_TOKENS + 1):
        assert made.pick("prefill", prefix=name) not in (first, None)
    assert made.pick("prefill", prefix=name) is first


def test_an_unhealthy_pod_is_passed_over_unless_all_are() -> None:
    made = pods(2)
    first, second = made.all("decode")
    made.mark_down(first)
    assert made.pick("decode") is second
    assert made.pick("decode", tried=[second]) is first
    made.mark_down(second)
    assert made.pick("decode") is not None
    assert made.pick("decode", tried=[first, second]) is None


def test_a_pod_that_stays_keeps_its_load_and_a_new_address_is_a_new_pod() -> None:
    made = pods(1)
    (first,) = made.all("decode")
    first.requests = 3
    made.put("decode", {"pod-0": "http://decode-0", "pod-1": "http://x"})
    assert first in made.all("decode")
    made.put("decode", {"pod-0": "http://other"})
    assert made.all("decode")[0].requests == 0


def test_a_tier_without_a_pod_is_503() -> None:
    with pytest.raises(Fault) as told:
        Pods(("decode",), unhealthy_s=1).pick("decode")
    assert told.value.status == 503


def test_prefix_aware_prefill_sends_one_prompt_to_one_pod() -> None:
    async def body() -> None:
        async with stand(prefills=3, prefill_policy="prefix_aware") as s:
            for _ in range(6):
                await s.completion(prompt="the same")
            assert sorted(len(of_generate([one])) for one in s.prefill) == [0, 0, 6]

    run(body)


def pod(
    name: str, tier: str = "decode", ready: str = "True", version: str = "1", ip: str = "10.0.0.1", going: bool = False
) -> dict[str, Any]:
    meta: dict[str, Any] = {"uid": name, "name": name, "resourceVersion": version}
    meta["labels"] = {"splitserve.dev/tier": tier, "splitserve.dev/release": "r1"}
    if going:
        meta["deletionTimestamp"] = "now"
    return {"metadata": meta, "status": {"podIP": ip, "conditions": [{"type": "Ready", "status": ready}]}}


class Api:
    """A Kubernetes API server for pods: one list, and watches that tests feed."""

    def __init__(self) -> None:
        self.items: list[dict[str, Any]] = []
        self.events: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self.asked: list[dict[str, str]] = []
        self.tokens: list[str] = []
        self.status = 200

    async def pods(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(dict(request.query))
        self.tokens.append(request.headers.get("Authorization", ""))
        if self.status != 200:
            return web.Response(status=self.status)
        if "watch" not in request.query:
            return web.json_response({"metadata": {"resourceVersion": "7"}, "items": self.items})
        response = web.StreamResponse()
        await response.prepare(request)
        while (event := await self.events.get()) is not None:
            await response.write(json.dumps(event).encode() + b"\n")
        return response


@asynccontextmanager
async def found(account: Path, items: list[dict[str, Any]]) -> AsyncIterator[tuple[Api, Pods, Discovery]]:
    api = Api()
    api.items = items
    app = web.Application()
    app.router.add_get("/api/v1/namespaces/ns/pods", api.pods)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    (account / "token").write_text("one")
    settings = Settings(
        namespace="ns", release="r1", kubernetes_url=f"http://127.0.0.1:{port}", service_account=str(account)
    )
    made = Pods(settings.tiers, unhealthy_s=1)
    discovery = Discovery(settings, made)
    running = asyncio.create_task(discovery.run())
    await asyncio.wait_for(discovery.listed.wait(), 5)
    try:
        yield api, made, discovery
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await runner.cleanup()


def urls(made: Pods, tier: str = "decode") -> set[str]:
    return {one.url for one in made.all(tier)}


def test_ready_pods_of_the_release_are_found_by_tier_and_others_are_not(tmp_path: Path) -> None:
    items = [
        pod("a"),
        pod("b", tier="prefill", ip="10.0.0.2"),
        pod("c", tier="render", ip="fd00::3"),
        pod("d", ready="False", ip="10.0.0.4"),
        pod("e", going=True, ip="10.0.0.5"),
        pod("f", tier="router", ip="10.0.0.6"),
    ]

    async def body() -> None:
        async with found(tmp_path, items) as (api, made, _):
            assert urls(made) == {"http://10.0.0.1:8000"}
            assert urls(made, "prefill") == {"http://10.0.0.2:8000"}
            assert urls(made, "render") == {"http://[fd00::3]:8000"}
            assert api.asked[0] == {"labelSelector": "splitserve.dev/release=r1"}
            assert made.without() == []

    run(body)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        (None, "https://kubernetes.default.svc"),
        ("10.0.0.1", "https://10.0.0.1:6443"),
        ("fd00::1", "https://[fd00::1]:6443"),
    ],
)
def test_the_api_server_is_the_one_that_the_kubelet_names(
    monkeypatch: pytest.MonkeyPatch, host: str | None, url: str
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    if host:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    assert in_cluster() == url


def test_changes_are_followed_from_where_the_list_ended_and_the_token_is_read_again(tmp_path: Path) -> None:
    async def body() -> None:
        async with found(tmp_path, [pod("a")]) as (api, made, _):
            await until(lambda: len(api.asked) == 2)
            assert api.asked[1]["resourceVersion"] == "7"
            await api.events.put({"type": "ADDED", "object": pod("b", ip="10.0.0.2", version="8")})
            await until(lambda: len(urls(made)) == 2)
            await api.events.put({"type": "MODIFIED", "object": pod("a", ready="False", version="9")})
            await until(lambda: urls(made) == {"http://10.0.0.2:8000"})
            await api.events.put({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "20"}}})
            (tmp_path / "token").write_text("two")
            await api.events.put(None)
            await until(lambda: len(api.asked) == 3)
            assert api.asked[2]["resourceVersion"] == "20" and api.tokens[1:] == ["Bearer one", "Bearer two"]
            await api.events.put({"type": "DELETED", "object": pod("b", version="21")})
            await until(lambda: urls(made) == set())

    run(body)


def test_a_version_that_is_too_old_is_listed_again(tmp_path: Path) -> None:
    async def body() -> None:
        async with found(tmp_path, [pod("a")]) as (api, made, _):
            await until(lambda: len(api.asked) == 2)
            api.items = [pod("z", ip="10.0.0.9")]
            await api.events.put({"type": "ERROR", "object": {"code": 410, "message": "too old"}})
            await until(lambda: urls(made) == {"http://10.0.0.9:8000"})
            assert "watch" not in api.asked[2]

    run(body)


def test_while_the_api_fails_the_last_known_pods_stay_and_it_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("components.gateway.discovery.BACK_OFF_S", (0.01, 0.02))

    async def body() -> None:
        async with found(tmp_path, [pod("a")]) as (api, made, _):
            await until(lambda: len(api.asked) == 2)
            api.status = 500
            await api.events.put(None)
            await until(lambda: len(api.asked) >= 5)
            assert urls(made) == {"http://10.0.0.1:8000"}
            api.status, api.items = 200, [pod("b", ip="10.0.0.2")]
            await until(lambda: urls(made) == {"http://10.0.0.2:8000"})

    run(body)
