"""Fetch the metrics pages of pods, all at once and each within one limit."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import aiohttp

from .cluster import Pod
from .signals import Page, read_page

AT_ONCE = 32
PAGE_LIMIT_BYTES = 16 * 2**20


class Scraper:
    def __init__(self, limit_s: float) -> None:
        self._limit = aiohttp.ClientTimeout(total=limit_s)
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Scraper:
        self._session = aiohttp.ClientSession(timeout=self._limit, trust_env=False)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session:
            await self._session.close()

    async def pages(self, pods: Iterable[tuple[Pod, int]]) -> dict[str, Page]:
        """Pod uid -> page, for each (pod, port) that answered with at least one figure known to us."""
        asked = list(pods)
        pages = await asyncio.gather(*(self._page(pod, port) for pod, port in asked))
        return {pod.uid: page for (pod, _), page in zip(asked, pages, strict=True) if page}

    async def _page(self, pod: Pod, port: int) -> Page | None:
        if self._session is None or not pod.ip:
            return None
        host = f"[{pod.ip}]" if ":" in pod.ip else pod.ip
        try:
            async with self._slots, self._session.get(f"http://{host}:{port}/metrics") as answer:
                if answer.status != 200:
                    return None
                body = await answer.content.read(PAGE_LIMIT_BYTES)
                while not answer.content.at_eof() and len(body) < PAGE_LIMIT_BYTES:
                    body += await answer.content.read(PAGE_LIMIT_BYTES)
        except (aiohttp.ClientError, OSError, TimeoutError):
            return None
        page = read_page(body.decode(errors="replace"))
        return None if page.says_nothing else page
