"""An update that is killed at any moment leaves a stack that the next update puts right by itself."""

from __future__ import annotations

import dataclasses
import json
import time

import pytest

from tests.cluster.asking import Record, answer
from tools.client import StreamingClient
from tools.demo import note
from tools.deployment import Deployment, Update

END_LIMIT_S = 20
"""A gate looks for its engine every second, and ends after three refusals."""

MOMENTS = {
    "tiers being created": "waiting for release",
    "probe running": "measuring the KV transfer",
    "traffic moving": "core/v1:Service splitserve updat",
}


def kill_at(deployment: Deployment, moment: str, release: str) -> Update:
    """Start an update and kill `pulumi` as soon as its output says the moment has come."""
    update = deployment.start_up(note(release))
    seen = []
    for line in update.lines():
        seen.append(line)
        if MOMENTS[moment] in line:
            break
    else:
        pytest.fail("the moment never came:\n" + "".join(seen))
    update.kill()
    return update


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_update_converges_while_the_live_release_answers(
    live: Deployment, moment: str, record_property: Record
) -> None:
    before = live.outputs()
    release = f"killed, {moment}, {time.time():.0f}"
    with StreamingClient(before["endpoint"], before["model"]) as client:
        update = kill_at(live, moment, release)
        try:
            live.run("cancel", "--yes")
            finished = live.up(note(release))
            gates = [line for line in update.left().values() if "dynamic" in line]
        finally:
            update.end_left()
    record_property(f"killed, {moment}", json.dumps(dataclasses.asdict(client.counts)))
    assert finished.code == 0, finished.text
    assert gates == [], "a gate outlived its engine"
    after = live.outputs()
    assert after["live"] != before["live"]
    assert after["verdict"] == "pass"
    assert answer(after)["usage"]["completion_tokens"] > 0
    assert (client.counts.failed, client.counts.truncated) == (0, 0), client.counts.errors
