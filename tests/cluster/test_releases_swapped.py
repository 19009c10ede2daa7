"""`swap`: the live release makes room for the candidate, and comes back when that is refused."""

from __future__ import annotations

import json

import pytest

from tests.cluster.asking import Record, answer, cluster_of
from tools.demo import DEMOS, play
from tools.deployment import Deployment


@pytest.mark.parametrize("name", ["slow-link", "pass"])
def test_a_swap_ends_as_it_should_and_measures_its_outage(live: Deployment, name: str, record_property: Record) -> None:
    result, problems = play(DEMOS[name], live, "swap")
    record_property(f"{name} by swap", json.dumps(result))
    assert problems == [], result
    assert result["outage_s"] > 0
    assert result["truncated_streams"] == 0, f"a stream was cut when the live release stopped: {result['errors']}"
    assert answer(live.outputs())["usage"]["completion_tokens"] > 0


def test_a_live_release_that_was_scaled_down_is_started_again(live: Deployment) -> None:
    """As a killed `swap` leaves it, or a hand: an update with nothing to change must still see it."""
    outputs = live.outputs()
    note = outputs["ledger"]["live"]["release"]["note"]

    def same(settings: dict[str, object]) -> None:
        settings["splitserve:note"] = note

    cluster = cluster_of(live)
    cluster.scale(outputs["live"], {"decode": 0, "prefill": 0, "router": 0})
    finished = live.up(same)
    assert finished.code == 0, finished.text
    assert "was scaled down" in finished.text
    assert live.outputs()["live"] == outputs["live"]
    assert answer(live.outputs())["usage"]["completion_tokens"] > 0
