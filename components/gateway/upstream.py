"""Calls to the tiers: which pod, under which limits, and what a failed call may be answered with.

A call is repeated on another pod only when the first took nothing: it refused the connection, answered
503, or the call changes nothing (render, derender).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from .faults import Fault, Refused, from_answer, from_error_event
from .json_text import NotJson, read_json, write_json
from .pods import Pod, Pods
from .settings import Settings
from .telemetry import Telemetry

TRIES = 3
"""Pods asked for one leg: with three gone at once the tier is gone, and the client had better know."""
KEEP_ALIVE_S = 3.0
"""Below uvicorn's 5 s (vLLM's VLLM_HTTP_TIMEOUT_KEEP_ALIVE): else a request meets a closing connection."""


class Unreachable(Exception):
    """The connection was refused or timed out: nothing was sent."""


class Broken(Fault):
    """The connection broke after the request was sent: what became of it is unknown."""


@dataclass(frozen=True)
class Call:
    """One leg's request. `prefer` is asked first, `only` alone."""

    tier: str
    path: str
    body: dict[str, Any]
    headers: dict[str, str]
    limit_s: float
    tokens: int = 0
    prefix: bytes | None = None
    prefer: Pod | None = None
    only: Pod | None = None
    changes_nothing: bool = False
    elsewhere: bool = True
    tried: list[Pod] = field(default_factory=list)


def session_of(settings: Settings) -> aiohttp.ClientSession:
    """No proxy, no cookies, no redirects: the tiers are addressed by pod and nothing may lead elsewhere."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_S),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=settings.connect_limit_s),
        trust_env=False,
    )


class Upstream:
    def __init__(
        self, session: aiohttp.ClientSession, settings: Settings, pods: Pods, telemetry: Telemetry, key: str | None
    ) -> None:
        self.session = session
        self.settings = settings
        self.pods = pods
        self.telemetry = telemetry
        self._headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})

    async def ask(self, call: Call) -> tuple[Pod, Any]:
        """One whole JSON answer, and the pod that gave it. Raises: Fault."""
        raw = write_json(call.body)
        fault: Fault | None = None
        while pod := self._next(call):
            try:
                with self.pods.load(pod, call.tokens), self._told(pod):
                    return pod, await self._whole(pod, call, raw)
            except Unreachable:
                fault = self._unreachable(call.tier)
            except (Refused, Broken) as found:
                fault = found
                if not self._may_go_elsewhere(call, found):
                    raise
        raise fault or self._unreachable(call.tier)

    async def events(self, call: Call) -> AsyncGenerator[dict[str, Any], None]:
        """The JSON of each event of a stream, up to `[DONE]`. Raises: Fault, also when it ends without that."""
        raw = write_json(call.body)
        fault: Fault | None = None
        while pod := self._next(call):
            try:
                with self.pods.load(pod), self._told(pod):
                    async with asyncio.timeout(self.settings.first_byte_limit_s):
                        response = await self._post(pod, call, raw)
                    async with response:
                        async for event in self._events(pod, response):
                            yield event
                    return
            except Unreachable:
                fault = self._unreachable(call.tier)
            except Refused as found:
                fault = found
                if not call.elsewhere:
                    raise
        raise fault or self._unreachable(call.tier)

    async def get(self, tier: str, path: str, headers: dict[str, str]) -> bytes:
        """A tier's answer to GET, as it is. Raises: Fault."""
        call = Call(tier, path, {}, headers, self.settings.render_limit_s, changes_nothing=True)
        while pod := self._next(call):
            with contextlib.suppress(Unreachable), self._told(pod):
                async with (
                    asyncio.timeout(call.limit_s),
                    self.session.get(
                        pod.url + path, headers=self._headers | headers, allow_redirects=False
                    ) as response,
                ):
                    payload = await response.read()
                if response.status != 200:
                    raise self._failed(pod, response.status, payload)
                return payload
        raise self._unreachable(tier)

    def _next(self, call: Call) -> Pod | None:
        if len(call.tried) >= TRIES:
            return None
        if call.only is not None:
            pod = None if call.tried else call.only
        else:
            pod = self.pods.pick(call.tier, call.tried, call.prefix, call.prefer)
        if pod is not None:
            call.tried.append(pod)
        return pod

    def _may_go_elsewhere(self, call: Call, fault: Fault) -> bool:
        return call.changes_nothing or (isinstance(fault, Refused) and call.elsewhere)

    def _unreachable(self, tier: str) -> Fault:
        return Refused(503, f"no {tier} pod could be reached", reason=f"{tier}_unreachable", retry_after_s=5)

    def _post(self, pod: Pod, call: Call, raw: bytes) -> Any:
        return self.session.post(
            pod.url + call.path, data=raw, headers=self._headers | call.headers, allow_redirects=False
        )

    async def _whole(self, pod: Pod, call: Call, raw: bytes) -> Any:
        async with asyncio.timeout(call.limit_s), self._post(pod, call, raw) as response:
            payload = await response.read()
        if response.status != 200:
            raise self._failed(pod, response.status, payload)
        return read_json(payload)

    async def _events(self, pod: Pod, response: aiohttp.ClientResponse) -> AsyncGenerator[dict[str, Any], None]:
        try:
            if response.status != 200:
                async with asyncio.timeout(self.settings.stall_limit_s):
                    payload = await response.read()
                raise self._failed(pod, response.status, payload)
            async for data in self._data(pod, response):
                event = read_json(data)
                if "error" in event:
                    self.telemetry.upstream_failures.labels(pod.tier, "status").inc()
                    raise from_error_event(event, pod.tier)
                yield event
        except BaseException:
            response.close()  # not back into the pool: the engine aborts when its client is gone
            raise

    async def _data(self, pod: Pod, response: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
        """The `data:` of each server-sent event before `[DONE]`. Comments are passed over."""
        limit_s, rest = self.settings.first_byte_limit_s, b""
        while True:
            async with asyncio.timeout(limit_s):
                piece = await response.content.readany()
            if not piece:
                raise Broken(502, f"the {pod.tier} tier's answer broke off", reason=f"{pod.tier}_broken")
            *events, rest = (rest + piece).split(b"\n\n")
            for event in events:
                if not event.startswith(b"data:"):
                    continue
                data = event[5:].strip()
                if data == b"[DONE]":
                    return
                yield data
                limit_s = self.settings.stall_limit_s

    def _failed(self, pod: Pod, status: int, payload: bytes) -> Fault:
        self.telemetry.upstream_failures.labels(pod.tier, "status").inc()
        fault = from_answer(pod.tier, status, payload)
        if isinstance(fault, Refused):
            self.pods.mark_down(pod)
        return fault

    @contextmanager
    def _told(self, pod: Pod) -> Iterator[None]:
        """Turn what the HTTP client raises into what the gateway's client may read."""
        count = self.telemetry.upstream_failures.labels
        try:
            yield
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as fault:
            count(pod.tier, "connect").inc()
            self.pods.mark_down(pod)
            raise Unreachable from fault
        except TimeoutError as fault:
            count(pod.tier, "timeout").inc()
            message = f"the {pod.tier} tier took too long"
            raise Fault(504, message, reason=f"{pod.tier}_timeout") from fault
        except Broken:
            count(pod.tier, "broken").inc()
            raise
        except (aiohttp.ClientError, NotJson) as fault:
            count(pod.tier, "broken").inc()
            message = f"the connection to the {pod.tier} tier broke"
            raise Broken(502, message, reason=f"{pod.tier}_broken") from fault
