"""`splitserve check` on real GPUs: the article's box both ways, and the field's commonest faults, each with its cause."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.gpu.engines import Engine
from tools.gpu.scenarios import SCENARIOS, Scenario, faults, run

BYTES_8K = 469_762_048


@pytest.mark.gpu
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name.replace(" ", "-"))
def test_each_gets_its_own_verdict(scenario: Scenario, engines: dict[str, Engine], folder: Path) -> None:
    found = run(scenario, engines)
    with (folder / "checks.jsonl").open("a") as file:
        file.write(json.dumps({"scenario": scenario.name, **found}) + "\n")
    assert not faults(scenario, found), found["stderr"]
    if scenario.code == 0:
        fresh = found["pairs"][0]["fresh"]
        assert fresh["mean_bytes"] == BYTES_8K, "the article's 470 MB"
