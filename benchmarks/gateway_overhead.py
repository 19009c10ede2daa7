"""What the gateway adds to a request, against a client that goes the same legs by itself.

`python -m benchmarks.gateway_overhead` starts fake tiers and a gateway as processes and takes turns: one
request through the gateway, one direct, at 1, 8 and 64 streams at once. `--render`, `--prefill` and
`--decode` name real tiers instead. Ends with one line of JSON: milliseconds, p50 and p99, until the
first text and until the end. On a machine with few cores the fakes share them with the gateway, and at
64 streams the figure is the machine's more than the gateway's.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import socket
import statistics
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp

KV_ASKED = {"do_remote_decode": True, "do_remote_prefill": False, "remote_engine_id": None}
KV_ASKED |= {"remote_block_ids": None, "remote_host": None, "remote_port": None}
TIERS = ("render", "prefill", "decode")
START_LIMIT_S = 60.0
Times = tuple[float, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for tier in TIERS:
        parser.add_argument(f"--{tier}", metavar="URL", help="default: a fake, started here")
    parser.add_argument("--model", default="fake")
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--requests", type=int, default=64, help="per number of streams and way")
    parser.add_argument("--prompt-characters", type=int, default=2000)
    parser.add_argument("--tokens", type=int, default=32)
    print(json.dumps(asyncio.run(measured(parser.parse_args()))))


async def measured(asked: argparse.Namespace) -> dict[str, Any]:
    async with contextlib.AsyncExitStack() as stack:
        urls = {tier: getattr(asked, tier) or await started_fake(tier, stack) for tier in TIERS}
        gateway, _ = await started_gateway(urls, stack)
        session = await stack.enter_async_context(
            aiohttp.ClientSession(trust_env=False, connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=3))
        )
        result: dict[str, Any] = {"benchmark": "gateway_overhead", "tokens": asked.tokens, "requests": asked.requests}
        for streams in asked.streams:
            through: list[Times] = []
            direct: list[Times] = []
            await series(lambda: by_gateway(session, gateway, body_of(asked)), streams, streams)  # warms connections
            for _ in range(max(1, asked.requests // streams)):  # in turns, so that the machine's moods hit both
                through += await series(lambda: by_gateway(session, gateway, body_of(asked)), streams, streams)
                direct += await series(lambda: by_hand(session, urls, body_of(asked)), streams, streams)
            result[f"streams_{streams}"] = compared(through, direct)
            print(f"{streams} streams: {result[f'streams_{streams}']}", file=sys.stderr)
        return result


def body_of(asked: argparse.Namespace) -> dict[str, Any]:
    """A prompt of its own for each request, so that no prefix is cached."""
    prompt = f"{time.perf_counter_ns()} ".ljust(asked.prompt_characters, "x")
    message = {"role": "user", "content": prompt}
    body = {"model": asked.model, "messages": [message], "max_tokens": asked.tokens, "stream": True}
    return body | {"ignore_eos": True}  # a tiny model of random weights may end at once, without any text


async def series(once: Any, streams: int, count: int) -> list[Times]:
    """`count` requests, `streams` at once: (seconds to the first text, seconds to the end) of each."""
    left, out = iter(range(count)), []

    async def stream() -> None:
        for _ in left:
            out.append(await once())

    await asyncio.gather(*[stream() for _ in range(streams)])
    return out


async def by_gateway(session: aiohttp.ClientSession, url: str, body: dict[str, Any]) -> Times:
    start, first = time.perf_counter(), None
    async with session.post(url + "/v1/chat/completions", json=body) as response:
        response.raise_for_status()
        async for event in events(response):
            if first is None and any(choice["delta"].get("content") for choice in event["choices"]):
                first = time.perf_counter()
    assert first is not None
    return first - start, time.perf_counter() - start


async def by_hand(session: aiohttp.ClientSession, urls: dict[str, str], body: dict[str, Any]) -> Times:
    """The same legs without a gateway: what any proxy must do at least."""
    start, first, state = time.perf_counter(), None, None
    headers = {"X-Request-Id": f"direct-{time.perf_counter_ns()}"}

    async def ask(url: str, asked: Any) -> Any:
        async with session.post(url, json=asked, headers=headers) as response:
            response.raise_for_status()
            return await response.json()

    rendered = await ask(urls["render"] + "/v1/chat/completions/render", body)
    once = {"sampling_params": rendered["sampling_params"] | {"max_tokens": 1, "n": 1}}
    once |= {"stream": False, "stream_options": None, "kv_transfer_params": KV_ASKED}
    kept = await ask(urls["prefill"] + "/inference/v1/generate", rendered | once)
    decode = rendered | {"kv_transfer_params": kept["kv_transfer_params"]}
    async with session.post(urls["decode"] + "/inference/v1/generate", json=decode, headers=headers) as response:
        async for choices in batches(response):
            joined = choices[-1] | {"token_ids": [token for choice in choices for token in choice["token_ids"]]}
            asked = {"stream": True, "generate_chunk": {"request_id": "x", "choices": [joined]}, "stream_state": state}
            asked |= {"prompt_token_ids": rendered["token_ids"], "model": body["model"], "chat_request": body}
            state = (await ask(urls["render"] + "/v1/chat/completions/derender", asked))["stream_state"]
            first = first or time.perf_counter()
    assert first is not None
    return first - start, time.perf_counter() - start


async def batches(response: aiohttp.ClientResponse) -> AsyncIterator[list[dict[str, Any]]]:
    """The choices of all events that have come since the last look, as the gateway takes them."""
    queue: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()

    async def read() -> None:
        async for event in events(response):
            queue.put_nowait(event)
        queue.put_nowait(None)

    reading, ended = asyncio.create_task(read()), False
    while not ended:
        batch = [await queue.get()]
        while not queue.empty():
            batch.append(queue.get_nowait())
        ended = batch[-1] is None
        if choices := [choice for event in batch if event for choice in event["choices"]]:
            yield choices
    await reading


async def events(response: aiohttp.ClientResponse) -> AsyncIterator[dict[str, Any]]:
    async for line in response.content:
        if line.startswith(b"data: {"):
            event = json.loads(line[6:])
            if "error" in event:
                raise RuntimeError(event["error"])
            yield event


def compared(through: list[Times], direct: list[Times]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for place, name in enumerate(("first_text", "whole")):
        ours, theirs = quantiles([one[place] for one in through]), quantiles([one[place] for one in direct])
        for quantile, mine, other in zip(("p50", "p99"), ours, theirs, strict=True):
            out[f"{name}_{quantile}_ms"] = {
                "gateway": round(mine, 2), "direct": round(other, 2), "added": round(mine - other, 2),
            }  # fmt: skip
    return out


def quantiles(seconds: list[float]) -> tuple[float, float]:
    """p50 and p99 in milliseconds. Below 100 samples p99 is the largest."""
    ordered = sorted(seconds)
    return 1000 * statistics.median(ordered), 1000 * ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


async def started_fake(tier: str, stack: contextlib.AsyncExitStack) -> str:
    port = free_port()
    await started(["-m", "tests.unit.fake_gateway_tiers", tier, str(port)], port, stack)
    return f"http://127.0.0.1:{port}"


async def started_gateway(urls: dict[str, str], stack: contextlib.AsyncExitStack) -> tuple[str, int]:
    """(its URL, its process)."""
    port = free_port()
    flags = [f"--{tier}={url}" for tier, url in urls.items()]
    flags += ["--host=127.0.0.1", f"--port={port}", f"--metrics-port={free_port()}", "--drain-s=0"]
    process = await started(["-c", "from components.gateway.main import main; main()", *flags], port, stack)
    return f"http://127.0.0.1:{port}", process


async def started(arguments: list[str], port: int, stack: contextlib.AsyncExitStack) -> int:
    """A Python process that listens on `port`, ended with the stack: its id. Raises: TimeoutError."""
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, env=dict(os.environ))

    async def end() -> None:
        if process.returncode is None:
            process.terminate()
        await process.wait()

    stack.push_async_callback(end)
    async with asyncio.timeout(START_LIMIT_S):
        while True:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return process.pid
            await asyncio.sleep(0.1)


if __name__ == "__main__":
    main()
