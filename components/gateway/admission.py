"""Back-pressure: how many requests are served at once, how many wait, and how much memory bodies take."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from .faults import Fault


class Admission:
    """At most `most` in flight, at most `queued_most` waiting, each at most `limit_s` seconds, in order of arrival."""

    def __init__(self, most: int, queued_most: int, limit_s: float) -> None:
        self._most = most
        self._queued_most = queued_most
        self._limit_s = limit_s
        self._waiting: deque[asyncio.Future[None]] = deque()
        self.in_flight = 0

    @property
    def queued(self) -> int:
        return len(self._waiting)

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Raises: Fault 429 at once when the queue is full, or after `limit_s` in it."""
        await self._enter()
        try:
            yield
        finally:
            self._leave()

    async def _enter(self) -> None:
        if self.in_flight < self._most and not self._waiting:
            self.in_flight += 1
            return
        if len(self._waiting) >= self._queued_most:
            raise self._full("queue_full")
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            async with asyncio.timeout(self._limit_s):
                await turn
        except BaseException as fault:
            if turn.done() and not turn.cancelled():
                self._leave()  # the slot was handed over in the moment that this request gave up
            elif turn in self._waiting:
                self._waiting.remove(turn)
            if isinstance(fault, TimeoutError):
                raise self._full("queue_timeout") from None
            raise

    def _leave(self) -> None:
        """Hand the slot to the first that waits: `in_flight` doesn't dip, so nobody can push in."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.in_flight -= 1

    def _full(self, reason: str) -> Fault:
        message = f"too many requests: {self.in_flight} in flight, {self.queued} waiting; try again later"
        return Fault(429, message, reason=reason, retry_after_s=max(1, math.ceil(min(self._limit_s, 10))))


class ByteBudget:
    """Bytes of request bodies held at once: a thousand clients with 16 MiB each are 16 GiB otherwise."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self.held_bytes = 0

    def take(self, size: int) -> None:
        """Raises: Fault 429."""
        if self.held_bytes + size > self._most_bytes:
            message = "too many large requests at once; try again later"
            raise Fault(429, message, reason="body_memory", retry_after_s=1)
        self.held_bytes += size

    def give_back(self, size: int) -> None:
        self.held_bytes -= size

    @contextmanager
    def holding(self, size: int) -> Iterator[None]:
        """Raises: Fault 429."""
        self.take(size)
        try:
            yield
        finally:
            self.give_back(size)
