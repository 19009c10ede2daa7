"""The status line tells the last gate's own figures, and none where it measured none."""

from __future__ import annotations

from typing import Any

import pytest

from infra.commands.deployed import status_of

OUTPUTS = {"endpoint": "http://a", "model": "m", "live": "r1", "verdict": "fail", "kvTransferMs": 13.1}


@pytest.mark.parametrize(
    ("judged", "fresh"),
    [({"kv_transfer_ms": 20.5, "kv_transfer_aged_ms": 30.0}, 20.5), ({"outcome": "fail"}, None)],
)
def test_times_are_those_of_the_last_gate_even_if_the_stack_kept_older_ones(judged: dict[str, Any], fresh: Any) -> None:
    line = status_of({**OUTPUTS, "gate": {"verdict": judged}})
    assert line["kv_transfer_ms"] == fresh
    assert (line["endpoint"], line["live"], line["verdict"]) == ("http://a", "r1", "fail")


def test_a_stack_without_a_gate_yet_has_no_times() -> None:
    assert status_of({"endpoint": "http://a"})["kv_transfer_ms"] is None
