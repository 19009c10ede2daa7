"""What is written to a client, and how long it may take to read it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from aiohttp import web

SSE = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


@dataclass
class About:
    """What goes with a request from its first line on. `status` is the metrics', set where it is not the answer's."""

    headers: dict[str, str]
    route: str
    accepted_s: float
    status: int | None = None


ABOUT = web.RequestKey("about", About)


class Written:
    """A stream of events to one client. `response` is None until the first byte.

    A client that reads nothing would hold its decode slot and the KV cache behind it for as long as it
    likes: one that takes too long for a piece is hung up on.
    """

    def __init__(self, request: web.Request, limit_s: float) -> None:
        self.request = request
        self.response: web.StreamResponse | None = None
        self._limit_s = limit_s

    async def write(self, piece: bytes) -> None:
        """Raises: ConnectionResetError when the client is gone, or too slow."""
        try:
            async with asyncio.timeout(self._limit_s):
                if self.response is None:
                    headers = SSE | {"X-Request-Id": self.request[ABOUT].headers["X-Request-Id"]}
                    self.response = web.StreamResponse(headers=headers)
                    await self.response.prepare(self.request)
                await self.response.write(piece)
        except TimeoutError:
            if self.request.transport is not None:
                self.request.transport.abort()
            raise ConnectionResetError("the client reads too slowly") from None

    async def end(self) -> web.StreamResponse:
        assert self.response is not None
        await self.response.write_eof()
        return self.response
