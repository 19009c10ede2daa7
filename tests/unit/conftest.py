"""What every unit test stands on."""

from __future__ import annotations

import asyncio

import pytest


@pytest.fixture(autouse=True)
def event_loop_of_the_thread() -> None:
    """Pulumi's mocks take the thread's event loop, which an earlier test's `asyncio.run` has taken away."""
    try:
        asyncio.get_event_loop_policy().get_event_loop()
    except RuntimeError:
        asyncio.set_event_loop(asyncio.new_event_loop())
