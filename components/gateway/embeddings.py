"""The items that are encoded, under names that only this gateway gives.

A connector that keeps embeddings in files needs that each is written once and never asked for when it may have been
cleared away: a reader of a file that is being rewritten, or that has gone, ends its engine (vllm 0.32
`example_connector.py` start_load_caches). So an item gets a name that nobody had before, is encoded under it once,
and gets another name after `reuse_s`. With `reuse_s` 0 the name follows from the content, and the encoder is asked
each time: it knows what it still has.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

MOST = 65536
"""Items remembered: about 20 MB. The oldest is forgotten first, and gets another name when it comes again."""


@dataclass(eq=False)
class Item:
    """`until` is monotonic; `held` counts the requests that use the name now."""

    name: str
    until: float
    task: asyncio.Task[Any] | None = None
    held: int = 0


class Embeddings:
    def __init__(self, reuse_s: float) -> None:
        self._reuse_s = reuse_s
        self._items: dict[tuple[str, str], Item] = {}

    def take(self, salt: str, given: str) -> Item:
        """The item of a content, by the hash that the render tier gave it and the request's cache salt. Whoever
        takes it must `leave` it."""
        now = time.monotonic()
        if not self._reuse_s:
            return Item(hashlib.sha256(f"{salt}\0{given}".encode()).hexdigest(), now, held=1)
        item = self._items.get((salt, given))
        if item is None or item.until <= now:
            self._items.pop((salt, given), None)
            self._make_room(now)
            item = self._items[salt, given] = Item(secrets.token_hex(32), now + self._reuse_s)
        item.held += 1
        return item

    def _make_room(self, now: float) -> None:
        """They lie in the order of their ends."""
        while self._items:
            key = next(iter(self._items))
            if self._items[key].until > now and len(self._items) < MOST:
                return
            del self._items[key]

    async def encoded(self, item: Item, encode: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """What the encoder says of the item; `encode` asks it where nobody has. Raises: what `encode` does."""
        if item.task is None:
            item.task = asyncio.create_task(encode())
            item.task.add_done_callback(lambda task: self._ended(item, task))
        # One client that leaves must not take the embedding from the others.
        return await asyncio.shield(item.task)

    def leave(self, item: Item) -> None:
        """The last one to leave ends an encoding that nobody waits for."""
        item.held -= 1
        if not item.held and item.task is not None and not item.task.done():
            self._forget(item)
            item.task.cancel()

    def _ended(self, item: Item, task: asyncio.Task[Any]) -> None:
        if task.cancelled() or task.exception() is not None:
            self._forget(item)  # under this name a file may be half written

    def _forget(self, item: Item) -> None:
        for key in [key for key, found in self._items.items() if found is item]:
            del self._items[key]
