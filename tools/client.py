"""A client of the front door: one streaming chat request every few seconds, each on a connection of
its own, with every failure and every stream that ended early counted.
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field

import httpx

EVERY_S = 2.0
REQUEST_LIMIT_S = 120
ANSWER_TOKENS = 24


@dataclass
class Counts:
    """`outage_s` is the longest time between two requests that were answered in full."""

    requests: int = 0
    failed: int = 0
    truncated: int = 0
    outage_s: float = 0.0
    errors: list[str] = field(default_factory=list)


class StreamingClient:
    """Use as a context: requests start at once and end with it; `counts` is whole afterwards."""

    def __init__(self, endpoint: str, model: str) -> None:
        self.url, self.model = f"{endpoint}/v1/chat/completions", model
        self.counts = Counts()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._last_good = time.monotonic()
        self._threads: list[threading.Thread] = []
        self._pacer = threading.Thread(target=self._pace, daemon=True)

    def __enter__(self) -> StreamingClient:
        self._pacer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._pacer.join()
        for thread in self._threads:
            thread.join()

    def _pace(self) -> None:
        """Start a request every `EVERY_S`, whether or not the one before has ended."""
        while not self._stop.is_set():
            thread = threading.Thread(target=self._request, daemon=True)
            self._threads.append(thread)
            thread.start()
            self._stop.wait(EVERY_S)

    def _request(self) -> None:
        number = len(self._threads)
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": f"Request {number}: " + "the work of the licensor. " * 40}],
            "max_tokens": ANSWER_TOKENS,
            "ignore_eos": True,
            "stream": True,
        }
        try:
            with httpx.stream("POST", self.url, json=body, timeout=REQUEST_LIMIT_S, trust_env=False) as reply:
                if reply.status_code != 200:
                    return self._ended(f"{reply.status_code}: {reply.read()[:200]!r}", failed=True)
                chunks, done = 0, False
                for line in reply.iter_lines():
                    chunks += _has_content(line)
                    done = done or line == "data: [DONE]"
            self._ended(None if done and chunks else f"stream ended after {chunks} chunks, done: {done}")
        except httpx.HTTPError as error:
            self._ended(f"{type(error).__name__}: {error}", failed=True)

    def _ended(self, error: str | None, failed: bool = False) -> None:
        with self._lock:
            self.counts.requests += 1
            now = time.monotonic()
            if error is None:
                self.counts.outage_s = max(self.counts.outage_s, now - self._last_good - EVERY_S)
                self._last_good = now
                return
            self.counts.failed += failed
            self.counts.truncated += not failed
            self.counts.errors.append(error)


def _has_content(line: str) -> bool:
    """Whether a server-sent line carries a piece of the answer (an error event carries none)."""
    if not line.startswith("data: {"):
        return False
    return bool(json.loads(line.removeprefix("data: ")).get("choices"))
