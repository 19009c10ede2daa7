"""Send requests at a rate to engines on one machine, and time every token.

vLLM's own `bench serve` (components/bench/generator.py) needs a router before several engines and starts for 20 s each
time; here the generator dispatches itself: to collocated engines in turn, or to prefill and then to decode. Arrivals are
a Poisson process of a fixed seed, as there, and what comes out is what components/bench reads.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import aiohttp

from components.bench.load import Load
from components.bench.reading import LATE, LATE_S, Request, Run
from components.serving.connectors.nixl import ASK_PREFILL

LIMIT_S = 300
FIRST_ID, LAST_ID = 256, 1791
"""Token ids that every model here has."""


@dataclass(frozen=True)
class Subject:
    """What is measured: engines that serve alone (`decode` empty), or prefill engines and decode engines."""

    name: str
    engines: tuple[str, ...]
    decode: tuple[str, ...] = ()

    @property
    def topology(self) -> str:
        return "prefill-decode" if self.decode else "collocated"


async def offer(subject: Subject, load: Load, rate_per_s: float, seed: int) -> Run:
    """All requests of one rate. The same seed is the same arrivals, never the same prompts: those may be cached."""
    chance = random.Random(seed)
    prompts = [random.choices(range(FIRST_ID, LAST_ID), k=load.prompt_tokens) for _ in range(load.requests)]
    due = list(accumulate([0.0, *(chance.expovariate(rate_per_s) for _ in prompts[1:])]))
    connector, limit = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=LIMIT_S)
    async with aiohttp.ClientSession(connector=connector, timeout=limit) as session:
        tasks, starts = [], []
        begun = time.monotonic()
        for number, (prompt, at) in enumerate(zip(prompts, due, strict=True)):
            await asyncio.sleep(begun + at - time.monotonic())
            starts.append(time.monotonic())
            tasks.append(asyncio.create_task(_one(session, subject, number, prompt, load)))
        requests = await asyncio.gather(*tasks)
    span_s = starts[-1] - starts[0]
    late = span_s > LATE * due[-1] + LATE_S
    return Run(tuple(requests), span_s, time.monotonic() - begun, late)


async def _one(session: aiohttp.ClientSession, subject: Subject, number: int, prompt: list[int], load: Load) -> Request:
    """One request from its first byte sent to its last token; what goes wrong is its `error`."""
    times = [time.monotonic()]
    try:
        params = await _prefilled(session, subject, number, prompt) if subject.decode else None
        among = subject.decode or subject.engines
        body = _body(prompt, load.output_tokens, stream=True) | ({"kv_transfer_params": params} if params else {})
        async for moment in _tokens(session, among[number % len(among)], body):
            times.append(moment)
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        return Request(0.0, (), f"{type(error).__name__}: {error}"[:300])
    gaps = tuple((after - before) * 1000 for before, after in pairwise(times[1:]))
    came = len(times) - 1
    fault = None if came >= load.output_tokens else f"the answer broke off after {came} of {load.output_tokens} tokens"
    return Request((times[1] - times[0]) * 1000 if came else 0.0, gaps, fault)


async def _prefilled(session: aiohttp.ClientSession, subject: Subject, number: int, prompt: list[int]) -> Any:
    """What prefill says for a decoder."""
    url = f"{subject.engines[number % len(subject.engines)]}/v1/completions"
    async with session.post(url, json=_body(prompt, 1) | {"kv_transfer_params": ASK_PREFILL}) as response:
        response.raise_for_status()
        params = (await response.json(content_type=None)).get("kv_transfer_params")
    if not params:
        raise ValueError(f"{url} told nothing for a decoder")
    return params


async def _tokens(session: aiohttp.ClientSession, url: str, body: dict[str, Any]) -> AsyncIterator[float]:
    """When each token came."""
    async with session.post(f"{url}/v1/completions", json=body) as response:
        response.raise_for_status()
        async for line in response.content:
            if line.startswith(b"data: ") and not line.startswith(b"data: [DONE]"):
                yield time.monotonic()


def _body(prompt: list[int], tokens: int, *, stream: bool = False) -> dict[str, Any]:
    return {
        "model": "model",
        "prompt": prompt,
        "max_tokens": tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": stream,
    }
