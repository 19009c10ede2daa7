"""The other topologies, each deployed and asked."""

from __future__ import annotations

from typing import Any

from tests.cluster.asking import answer
from tools.deployment import Deployment


def test_collocated_goes_live_without_a_transfer_and_answers(live: Deployment) -> None:
    def collocated(settings: dict[str, Any]) -> None:
        settings["splitserve:topology"] = "collocated"

    finished = live.up(collocated)
    assert finished.code == 0, finished.text
    outputs = live.outputs()
    assert (outputs["verdict"], outputs["gate"]["verdict"]["cause"]) == ("pass", "collocated")
    assert outputs.get("kvTransferMs") is None
    assert answer(outputs)["usage"]["completion_tokens"] > 0
