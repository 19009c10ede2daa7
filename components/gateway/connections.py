"""Open connections: how many there may be, and how long one may stay silent before its first request.

aiohttp limits neither: ten thousand clients that send a byte a minute would hold ten thousand sockets.
"""

from __future__ import annotations

import asyncio
from typing import cast

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from .faults import Fault


class Connections:
    """A protocol factory in front of aiohttp's."""

    def __init__(self, most: int, header_limit_s: float) -> None:
        self._most = most
        self._header_limit_s = header_limit_s
        self._silent: dict[RequestHandler, asyncio.TimerHandle] = {}
        self._server: web.Server | None = None

    def attach(self, server: web.Server) -> None:
        self._server = server

    @property
    def open(self) -> int:
        return len(self._server.connections) if self._server else 0

    def spoke(self, request: web.Request) -> None:
        """The headers of a request are in: from now on aiohttp's keep-alive limit watches the connection."""
        if (timer := self._silent.pop(request.protocol, None)) is not None:
            timer.cancel()

    def __call__(self) -> asyncio.BaseProtocol:
        assert self._server is not None
        if self.open >= self._most:
            return Refuser()
        handler = self._server()
        loop = asyncio.get_running_loop()
        self._silent[handler] = loop.call_later(self._header_limit_s, self._hang_up, handler)
        return handler

    def _hang_up(self, handler: RequestHandler) -> None:
        del self._silent[handler]
        if handler.transport is not None:
            handler.transport.abort()


class Refuser(asyncio.Protocol):
    """Says 503 to a connection too many, and hangs up without reading."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        writer = cast(asyncio.Transport, transport)  # uvloop's own class is none of asyncio's
        body = Fault(503, "too many open connections").body()
        head = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
        writer.write(f"{head}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        writer.close()
