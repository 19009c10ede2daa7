"""A gateway between fake tiers, all in one event loop on 127.0.0.1, for the gateway's tests."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import openai
import uvloop
from aiohttp import web

from components.gateway.main import serve
from components.gateway.settings import Settings
from tests.unit.fake_gateway_tiers import Cluster, Encoder, Engine, Render, Seen, Tier
from tests.unit.ports import free_port

CHAT = {"model": "fake", "messages": [{"role": "user", "content": "hi there"}]}
COMPLETION = {"model": "fake", "prompt": "hi there"}


@dataclass
class Stand:
    """`url` of the gateway, its tiers, and `stop` to send it into its drain."""

    url: str
    metrics_url: str
    session: aiohttp.ClientSession
    render: list[Render]
    prefill: list[Engine]
    decode: list[Engine]
    cluster: Cluster
    urls: dict[int, str]
    stop: asyncio.Event
    serving: asyncio.Task[None]
    servers: dict[int, web.AppRunner] = field(default_factory=dict)
    encoder: list[Encoder] = field(default_factory=list)

    def post(self, path: str, body: Any, **headers: str) -> Any:
        return self.session.post(
            self.url + path, json=body, headers={k.replace("_", "-"): v for k, v in headers.items()}
        )

    async def chat(self, **body: Any) -> tuple[int, Any]:
        async with self.post("/v1/chat/completions", CHAT | body) as response:
            return response.status, await response.json()

    async def completion(self, **body: Any) -> tuple[int, Any]:
        async with self.post("/v1/completions", COMPLETION | body) as response:
            return response.status, await response.json()

    async def events(self, path: str, body: Any) -> list[Any]:
        """Events of a stream, "[DONE]" as it is."""
        async with self.post(path, body | {"stream": True}) as response:
            assert response.status == 200, await response.text()
            parts = (await response.text()).split("\n\n")
        data = [part.removeprefix("data: ") for part in parts if part]
        return [one if one == "[DONE]" else json.loads(one) for one in data]

    async def metric(self, line: str) -> float:
        """The value of one series, `splitserve_gateway_` left out."""
        async with self.session.get(self.metrics_url) as response:
            page = await response.text()
        name = "splitserve_gateway_" + line + " "
        found = [float(row.removeprefix(name)) for row in page.splitlines() if row.startswith(name)]
        assert found, f"no series {line} in\n{page}"
        return found[0]

    def client(self, key: str = "none") -> openai.AsyncOpenAI:
        http = openai.DefaultAsyncHttpxClient(trust_env=False)
        return openai.AsyncOpenAI(base_url=self.url + "/v1", api_key=key, http_client=http, max_retries=0)

    async def shut(self, tier: Tier) -> None:
        """Close a tier's port: connections are refused from now on."""
        await self.servers.pop(id(tier)).cleanup()


def of_generate(tiers: Iterable[Tier]) -> list[Seen]:
    return [seen for tier in tiers for seen in tier.seen if seen.path.endswith("/generate")]


@asynccontextmanager
async def stand(
    *, prefills: int = 1, decodes: int = 1, renders: int = 1, encoders: int = 0,
    engine: dict[str, Any] | None = None,
    parsers: bool = False, **settings: Any,
) -> AsyncIterator[Stand]:  # fmt: skip
    cluster, made = Cluster(), engine or {}
    collocated = settings.get("topology") == "collocated"
    render = [Render(parsers=parsers) for _ in range(renders)]
    prefill = [] if collocated else [Engine(tier="prefill", cluster=cluster, **made) for _ in range(prefills)]
    decode = [Engine(tier="collocated" if collocated else "decode", cluster=cluster, **made) for _ in range(decodes)]
    encoder = [Encoder() for _ in range(encoders)]
    urls: dict[int, str] = {}
    servers: dict[int, web.AppRunner] = {}
    for tier in (*render, *encoder, *prefill, *decode):
        runner = web.AppRunner(tier.app(), handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        port = free_port()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        urls[id(tier)], servers[id(tier)] = f"http://127.0.0.1:{port}", runner
    by_tier = {"render": render, "prefill": prefill, "collocated" if collocated else "decode": decode}
    if encoder:
        by_tier |= {"encoder": encoder}
        settings = {"encoder_tier": "yes", **settings}
    chosen: dict[str, Any] = {
        "host": "127.0.0.1", "port": free_port(), "metrics_port": free_port(), "drain_s": 0.5, "drain_notice_s": 0.0,
        "queue_limit_s": 0.5, **{name: tuple(urls[id(one)] for one in tiers) for name, tiers in by_tier.items()},
    }  # fmt: skip
    if prefill:  # of one prefiller: a bootstrap port is the same on every pod, whose addresses differ
        chosen["bootstrap_port"] = int(urls[id(prefill[0])].rpartition(":")[2])
    own = Settings(**(chosen | settings))
    stop, ready = asyncio.Event(), asyncio.Event()
    serving = asyncio.create_task(serve(own, stop, ready))
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
    if serving.done():
        serving.result()
    base = f"http://127.0.0.1:{own.port}"
    metrics = f"http://127.0.0.1:{own.metrics_port}/metrics"
    async with aiohttp.ClientSession(trust_env=False) as session:
        made_stand = Stand(
            base, metrics, session, render, prefill, decode, cluster, urls, stop, serving, servers, encoder
        )
        try:
            yield made_stand
        finally:
            stop.set()
            await asyncio.wait_for(serving, 5)
            for runner in list(made_stand.servers.values()):
                await runner.cleanup()


def run(test: Callable[[], Awaitable[None]]) -> None:
    """One event loop per test, uvloop's as in the cluster, and a limit so that a hang is a failure."""

    async def limited() -> None:
        async with asyncio.timeout(20):
            await test()

    uvloop.run(limited())


async def until(holds: Callable[[], bool], limit_s: float = 20.0) -> None:
    """The limit is for a busy machine: none waits for it."""
    async with asyncio.timeout(limit_s):
        while not holds():
            await asyncio.sleep(0.01)


def on_a_stand(**made: Any) -> Callable[[Callable[..., Awaitable[None]]], Callable[..., None]]:
    """Run an async test on a `Stand` of these properties; its further parameters are pytest's."""

    def wrap(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
        def wrapped(**given: Any) -> None:
            async def body() -> None:
                async with stand(**made) as standing:
                    await test(standing, **given)

            run(body)

        signature = inspect.signature(test)
        shown = list(signature.parameters.values())[1:]
        vars(wrapped).update(vars(test) | {"__signature__": signature.replace(parameters=shown)})
        wrapped.__name__, wrapped.__doc__ = test.__name__, test.__doc__
        return wrapped

    return wrap
