"""An overall limit for whatever runs in it: requests have limits of their own, a hundred of them have none."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class TookTooLong(Exception):
    """The limit is over."""


@contextmanager
def limited(limit_s: float) -> Iterator[None]:
    """Raise TookTooLong in the main thread after `limit_s`; the timer is no wall clock's and can't jump."""

    def over(*_: Any) -> None:
        raise TookTooLong

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def ends_by_signal() -> Iterator[None]:
    """SIGTERM ends what runs as Ctrl-C does: a request that is under way is broken off, and vLLM drops it."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
