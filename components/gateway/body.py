"""The client's body: read within limits of size, memory and time, then parsed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from .admission import ByteBudget
from .faults import Fault
from .json_text import NotJson, read_json
from .settings import Settings


@asynccontextmanager
async def read(request: web.Request, settings: Settings, budget: ByteBudget) -> AsyncIterator[dict[str, Any]]:
    """The JSON object of a request; its bytes count against `budget` until the request is done.

    Raises: Fault 400, 408, 413, 415 or 429. What is too large is not read to its end.
    """
    held = bytearray()
    try:
        try:
            async with asyncio.timeout(settings.body_limit_s):
                await _fill(request, held, settings.body_limit_bytes, budget)
        except TimeoutError:
            message = f"the request body did not arrive within {settings.body_limit_s:g} s"
            raise Fault(408, message, reason="slow_body") from None
        yield _parsed(bytes(held))
    finally:
        budget.give_back(len(held))


async def _fill(request: web.Request, held: bytearray, limit_bytes: int, budget: ByteBudget) -> None:
    kind = request.content_type
    if kind != "application/json":
        raise Fault(415, "Unsupported Media Type: Only 'application/json' is allowed", reason="bad_request")
    if (request.content_length or 0) > limit_bytes:
        raise _too_large(limit_bytes)
    try:
        async for piece in request.content.iter_any():
            if len(held) + len(piece) > limit_bytes:
                raise _too_large(limit_bytes)
            budget.take(len(piece))
            held += piece
    except (HttpProcessingError, web.RequestPayloadError) as fault:
        raise Fault(400, "the request body is not valid HTTP", reason="bad_request") from fault


def _too_large(limit_bytes: int) -> Fault:
    return Fault(413, f"the request body is larger than {limit_bytes} bytes", reason="body_too_large")


def _parsed(raw: bytes) -> dict[str, Any]:
    try:
        body = read_json(raw)
    except NotJson as fault:
        raise Fault(400, f"the request body is not JSON: {fault}", reason="bad_request") from None
    if not isinstance(body, dict):
        raise Fault(400, "the request body is not a JSON object", reason="bad_request")
    return body
