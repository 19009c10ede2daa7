"""One question to the front door, as a user asks it, and where tests note what they measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx

Record = Callable[[str, object], None]
"""pytest's `record_property`: figures go into `--junitxml` beside the test."""


def answer(outputs: dict[str, Any]) -> dict[str, Any]:
    """The reply to a short chat request; outputs as from the stack."""
    body = {"model": outputs["model"], "messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 8}
    reply = httpx.post(f"{outputs['endpoint']}/v1/chat/completions", json=body, timeout=60, trust_env=False)
    assert reply.status_code == 200, reply.text
    return reply.json()
