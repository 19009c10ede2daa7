"""vLLM's own classes take what every connector profile tells them, and say the same of themselves."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from components.serving.connectors.chosen import Chosen
from components.serving.connectors.profile import ConnectorProfile, Place
from components.serving.connectors.profiles import PROFILES
from components.serving.connectors.table import EXAMPLE, EXAMPLES
from components.serving.connectors.transfer_config import connector_json
from components.serving.spec import EngineTier
from tests.engine.test_vllm_geometry import python_of_vllm
from tools.cache import cache

HERE = Path(__file__).resolve().parent
METRICS = ("nixl/stats.py", "mooncake/store/metrics.py", "v1/metrics/loggers.py")
PACKAGES = ("lmcache", "msgpack")
"""What may be missing in vLLM's environment on this machine."""


def configs(profile: ConnectorProfile) -> list[dict[str, Any]]:
    """A configuration for each tier in which the profile has a role."""
    chosen = EXAMPLES.get(profile.name, Chosen(profile.name))
    tiers: list[EngineTier] = [tier for tier in profile.roles if not (profile.name == "multi" and tier == "collocated")]
    found = [connector_json(chosen, Place(tier, EXAMPLE, "LIBFABRIC")) for tier in tiers]
    # The one key that `transfer_config` adds.
    return [{**config, "kv_load_failure_policy": "recompute"} for config in found if config]


def asked() -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = [
        {"name": profile.name, "class": profile.vllm_class, "configs": configs(profile), "sources": profile.sources}
        for profile in PROFILES.values()
    ]
    return [*cases, {"name": "metrics", "class": "", "configs": [], "sources": METRICS}]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    done = subprocess.run(
        [python_of_vllm(), HERE / "vllm_connectors.py"], input=json.dumps(asked()), capture_output=True, text=True,
        cwd=tmp_path_factory.mktemp("vllm"),
        env={**os.environ, "PYTHONPATH": str(cache().layout().vllm), "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(said) == len(asked()) + 1, done.stderr[-2000:]
    return {line["name"]: line for line in said}


@pytest.mark.parametrize("name", PROFILES)
def test_vllm_reads_what_each_side_is_told(name: str, answers: dict[str, dict[str, Any]]) -> None:
    said, told = answers[name], configs(PROFILES[name])
    assert "error" not in said, said
    inside = ["NixlConnector", "OffloadingConnector"] if name == "multi" else []
    assert said["classes"] == [[config["kv_connector"], *inside] for config in told]
    assert answers["multi's metrics"]["unknown_refused"], "a field that vLLM does not know would pass"


@pytest.mark.parametrize("name", [name for name in PROFILES if name not in ("custom", "multi")])
def test_a_class_is_what_its_profile_says(name: str, answers: dict[str, dict[str, Any]]) -> None:
    profile, said = PROFILES[name], answers[name]
    assert said["imported"] or said["missing"].split(".")[0] in PACKAGES, said
    assert said["hybrid"] == profile.hybrid
    assert said["statistics"] == profile.own_statistics
    assert said["exports"] == profile.exports


@pytest.mark.parametrize("name", [name for name in PROFILES if name != "custom"])
def test_every_option_is_read_by_the_connectors_source(name: str, answers: dict[str, dict[str, Any]]) -> None:
    profile, said = PROFILES[name], answers[name]
    for config in configs(profile):
        for key in config.get("kv_connector_extra_config", {}):
            assert profile.knows(key), f"{name} is told {key}, which its profile does not list"
    for key in profile.reads:
        if key != "*":
            assert key.rstrip("*") in said["strings"], f"{name}: no source has {key}"
    assert [key for key in said["reads"] if not profile.knows(key)] == []


def test_every_series_that_the_gate_reads_is_one_of_vllms(answers: dict[str, dict[str, Any]]) -> None:
    known = set(answers["metrics"]["strings"])
    for profile in PROFILES.values():
        for one in profile.measurement.series.values():
            name = one.name.partition("{")[0]
            forms = {name.removesuffix(ending) for ending in ("_sum", "_count", "_total")} | {name}
            assert forms & known, one.name


def test_multi_exports_a_childs_series_as_they_are_and_has_no_place_for_mooncakes(
    answers: dict[str, dict[str, Any]],
) -> None:
    said = answers["multi's metrics"]
    series = {one.name for one in PROFILES["nixl"].measurement.series.values() if "nixl" in one.name}
    assert series <= set(said["series"])
    assert set(said["labels"]) == {"model_name", "engine", "le"}
    assert said["mooncake"] == "AssertionError"
