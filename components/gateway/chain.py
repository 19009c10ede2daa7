"""The legs of a request in their order: render, then per sample prefill and decode.

A sample is started again from prefill, once, when decode took nothing (503, no connection) and nothing
of it was handed on. What decode has taken is never sent twice.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Any, TypeVar

from .bootstrap import Bootstrap, ask_to_keep
from .faults import Fault, Refused
from .pods import Pod, prefix_of
from .push import Peers
from .samples import Sample, decode_body, prefill_body
from .upstream import Call, Upstream

GENERATE = "/inference/v1/generate"
PATHS = {"chat": "/v1/chat/completions", "completion": "/v1/completions"}
Item = TypeVar("Item")


class Chain:
    def __init__(self, upstream: Upstream) -> None:
        self.upstream = upstream
        self.settings = upstream.settings
        self.telemetry = upstream.telemetry
        self._peers = Peers()
        self._bootstrap = Bootstrap(upstream, self.settings.bootstrap_port)

    async def render(self, kind: str, body: dict[str, Any], headers: dict[str, str]) -> list[dict[str, Any]]:
        """One rendered request per prompt. Raises: Fault, the render tier's 400 among them."""
        with self.telemetry.timed("render"):
            answer = await self.at_render(PATHS[kind] + "/render", body, headers)
        return answer if isinstance(answer, list) else [answer]

    async def at_render(self, path: str, body: dict[str, Any], headers: dict[str, str]) -> Any:
        call = Call("render", path, body, headers, self.settings.render_limit_s, changes_nothing=True)
        return (await self.upstream.ask(call))[1]

    async def generate(self, sample: Sample, *, stream: bool) -> AsyncGenerator[dict[str, Any], None]:
        """The engine's chunks, or its one whole answer. Raises: Fault."""
        for last in (False, True):
            begun = False
            try:
                async with aclosing(self._once(sample, stream)) as pieces:
                    async for piece in pieces:
                        begun = True
                        yield piece
                return
            except Refused:
                if begun or last:
                    raise
                self.telemetry.restarts.inc()

    async def _once(self, sample: Sample, stream: bool) -> AsyncGenerator[dict[str, Any], None]:
        if self.settings.topology == "collocated":
            pieces = self._decode(sample, stream, None)
        else:
            pod = self.upstream.pods.pick("prefill", prefix=self._prefix(sample), prefer=sample.siblings.prefill)
            sample.siblings.prefill = pod  # now, not when it has answered: the others are about to ask as well
            told = await self._told_at_once(pod, sample) if pod else None
            if pod is not None and told is not None:
                pieces = self._both(sample, stream, pod, told)
            else:
                pieces = self._one_after_the_other(sample, stream)
        async with aclosing(pieces):
            async for piece in pieces:
                yield piece

    async def _told_at_once(self, pod: Pod, sample: Sample) -> dict[str, Any] | None:
        """What decode may be told before prefill has answered; None: it must wait for the answer."""
        if self.settings.dispatch == "bootstrap":
            return await self._bootstrap.params_for(pod, sample)
        return self._peers.params_for(pod, sample) if self.settings.dispatch == "concurrent" else None

    async def _one_after_the_other(self, sample: Sample, stream: bool) -> AsyncGenerator[dict[str, Any], None]:
        _, params = await self._prefill(sample)
        async with aclosing(self._decode(sample, stream, params)) as pieces:
            async for piece in pieces:
                yield piece

    async def _both(
        self, sample: Sample, stream: bool, pod: Pod, told: dict[str, Any]
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Both legs at once; the failure of one ends the other."""
        pieces = self._decode(sample, stream, told)
        prefill = asyncio.ensure_future(self._prefill(sample, only=pod))
        first = asyncio.ensure_future(anext(pieces))
        try:
            await asyncio.wait({prefill, first}, return_when=asyncio.FIRST_COMPLETED)
            if first.done():
                first.result()  # decode failed, or had the whole prompt cached
            _, params = await prefill
            if self.settings.dispatch == "concurrent":
                self._peers.check(pod, params or {})
            yield await first
            async for piece in pieces:
                yield piece
        finally:
            for leg in (prefill, first):
                leg.cancel()
            await asyncio.gather(prefill, first, return_exceptions=True)
            await pieces.aclose()

    def _prefix(self, sample: Sample) -> bytes | None:
        aware = self.settings.prefill_policy == "prefix_aware"
        return prefix_of(sample.token_ids, self.settings.prefix_tokens) if aware else None

    async def _prefill(self, sample: Sample, only: Pod | None = None) -> tuple[Pod, dict[str, Any] | None]:
        """Have the prompt's KV cache made. Raises: Fault 502 when the answer names none: decode would
        then answer 200 all the same, having prefilled the prompt itself."""
        by_transfer = self.settings.dispatch == "bootstrap"
        body = prefill_body(sample, ask_to_keep(sample)) if by_transfer else prefill_body(sample)
        call = Call(
            "prefill", GENERATE, body, sample.headers, self.settings.prefill_limit_s,
            tokens=len(sample.token_ids), prefix=self._prefix(sample), prefer=sample.siblings.prefill, only=only,
        )  # fmt: skip
        with self.telemetry.timed("prefill"):
            pod, answer = await self.upstream.ask(call)
        sample.siblings.prefill, sample.prefilled = pod, answer
        params = answer.get("kv_transfer_params")
        if by_transfer:
            return pod, None  # it never names what it holds: decode asks for the transfer by its id
        if not params:
            self.telemetry.without_kv.inc()
            if not self.settings.allow_local_prefill:
                message = "the prefill tier named no KV cache to transfer; is its connector configured?"
                raise Fault(502, message, reason="prefill_without_kv_params")
            return pod, None
        self._peers.learn(pod, params) if only is None else None
        return pod, params

    async def _decode(
        self, sample: Sample, stream: bool, params: dict[str, Any] | None
    ) -> AsyncGenerator[dict[str, Any], None]:
        tier = self.settings.engine_tier
        body = decode_body(sample, stream=stream, kv_transfer_params=params)
        limit_s = self.settings.request_limit_s
        # With KV named, a 503 goes back to prefill; a pod that refused the connection is simply replaced.
        call = Call(tier, GENERATE, body, sample.headers, limit_s, elsewhere=params is None)
        start = time.perf_counter()
        if not stream:
            yield (await self.upstream.ask(call))[1]
            self.telemetry.leg.labels("decode").observe(time.perf_counter() - start)
            return
        first = True
        async with aclosing(self.upstream.events(call)) as events:
            async for event in events:
                if first:
                    self.telemetry.leg.labels("decode_first_token").observe(time.perf_counter() - start)
                    first = False
                yield event
        self.telemetry.leg.labels("decode").observe(time.perf_counter() - start)


async def gathered(sources: Iterable[AsyncGenerator[Item, None]], most: int = 256) -> AsyncGenerator[list[Item], None]:
    """All that has come from the sources since the last look, until each has ended. The first failure ends all.

    At most `most` items wait: a client that reads slowly slows its engine down, not this server's memory.
    """
    queue: asyncio.Queue[tuple[bool, Any]] = asyncio.Queue(most)
    tasks = [asyncio.create_task(_pour(source, queue)) for source in sources]
    running = len(tasks)
    try:
        while running:
            taken = [await queue.get()]
            while not queue.empty():
                taken.append(queue.get_nowait())
            items = [item for is_item, item in taken if is_item]
            if items:
                yield items
            for is_item, end in taken:
                if not is_item:
                    running -= 1
                    if end is not None:
                        raise end
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _pour(source: AsyncGenerator[Any, None], queue: asyncio.Queue[tuple[bool, Any]]) -> None:
    end: Exception | None = None
    try:
        async with aclosing(source):
            async for item in source:
                await queue.put((True, item))
    except Exception as fault:
        end = fault
    await queue.put((False, end))
