"""Whether clients use the pair now: then their own transfers are the samples, and the probe stays away."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from components.release.probe import PROMPT_TOKENS, Client, page, total

RUNNING = "vllm:num_requests_running"


def busy(client: Client, urls: Sequence[str], seconds: float, sleep: Callable[[float], None] = time.sleep) -> bool:
    """Whether any engine has a request, or gets one within `seconds`. Raises the probe's CannotMeasure."""
    before = [_counted(client, url) for url in urls]
    if any(running for _, running in before):
        return True
    sleep(seconds)
    after = [_counted(client, url) for url in urls]
    return any(running for _, running in after) or [tokens for tokens, _ in before] != [tokens for tokens, _ in after]


def _counted(client: Client, url: str) -> tuple[float, float]:
    """(prompt tokens since the engine began, requests in it now)."""
    series = page(client, url)
    return total(series, PROMPT_TOKENS) or 0.0, total(series, RUNNING) or 0.0
