"""What every unit test stands on."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is no fault of what is tested.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


@pytest.fixture(autouse=True)
def event_loop_of_the_thread() -> None:
    """Pulumi's mocks take the thread's event loop, which an earlier test's `asyncio.run` has taken away."""
    try:
        asyncio.get_event_loop_policy().get_event_loop()
    except RuntimeError:
        asyncio.set_event_loop(asyncio.new_event_loop())
