"""Real releases on real vLLM: one passes, bad ones are taken back, a better one takes over."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.asking import Record, answer
from tools.demo import DEMOS, note, play
from tools.deployment import Deployment


def test_a_first_release_is_measured_and_goes_live(deployment: Deployment) -> None:
    finished = deployment.up()
    assert finished.code == 0, finished.text
    outputs = deployment.outputs()
    assert outputs["verdict"] == "pass"
    pair = outputs["gate"]["verdict"]["pairs"][0]
    assert pair["fresh"]["mean_bytes"] == pair["expected_bytes"] == pair["aged"]["mean_bytes"]
    assert pair["aged"]["mean_descriptors"] > pair["fresh"]["mean_descriptors"]
    assert 0 < outputs["kvTransferMs"] < 200
    assert "KV transfer, limit 200 ms: pass" in finished.text
    assert answer(outputs)["usage"]["completion_tokens"] > 0


def test_the_same_configuration_changes_nothing_and_measures_nothing(live: Deployment) -> None:
    before = live.outputs()
    started = time.monotonic()
    finished = live.up()
    assert finished.code == 0
    assert "measuring" not in finished.text
    assert live.outputs() == before
    assert time.monotonic() - started < 60


def test_another_kubeconfig_of_the_same_cluster_replaces_nothing(live: Deployment, tmp_path: Path) -> None:
    """Another path, another text, another context's name: the same cluster all the same."""
    content = yaml.safe_load(Path(live.environment["KUBECONFIG"]).read_text())
    content["contexts"][0]["name"] = content["current-context"] = "another-name"
    other = tmp_path / "kubeconfig"
    other.write_text(yaml.safe_dump(content))

    def elsewhere(settings: dict[str, Any]) -> None:
        settings["splitserve:platform"]["kubeconfig"] = str(other)
        note(live_note(live))(settings)

    finished = live.run("preview", "--config-file", str(live.stack_file(elsewhere)))
    assert finished.code == 0, finished.text
    assert "replace" not in finished.text and "to create" not in finished.text and "to delete" not in finished.text


def test_a_preview_with_the_policy_pack_finds_nothing_to_change_or_to_object_to(live: Deployment) -> None:
    finished = live.run("preview", "--policy-pack", "policies", "--config-file", str(live.stack_file()))
    assert finished.code == 0, finished.text
    assert "splitserve" in finished.text and "unchanged" in finished.text
    assert "creat" not in finished.text.lower().replace("created", "")


@pytest.mark.parametrize("name", ["slow-link", "silent", "never-ready", "cannot-measure"])
def test_a_bad_candidate_is_taken_back_without_a_failed_request(
    live: Deployment, name: str, record_property: Record
) -> None:
    result, problems = play(DEMOS[name], live)
    record_property(name, json.dumps(result))
    assert problems == [], result
    if name == "silent":
        assert result["clues"][0] == "no-connector", result


def test_a_refused_release_gives_the_same_answer_again_without_measuring(live: Deployment) -> None:
    def stops(settings: dict[str, Any]) -> None:
        settings["splitserve:decode"] = {"extraArgs": ["--no-such-argument"]}

    first = live.up(stops)
    again = live.up(stops)
    assert (first.code, again.code) == (1, 1)
    assert "not-ready" in first.text and "not-ready" in again.text
    assert "taking release" in first.text and "taking release" not in again.text
    assert "vLLM has no such argument" in first.text, "the pods' own words explain it"


def test_an_unmeasured_release_is_measured_again(live: Deployment) -> None:
    def mute(settings: dict[str, Any]) -> None:
        settings["splitserve:decode"] = {"extraArgs": ["--disable-log-stats"]}

    first, again = live.up(mute), live.up(mute)
    assert (first.code, again.code) == (1, 1)
    for finished in (first, again):
        assert "measuring the KV transfer" in finished.text and "pair-unmeasured" in finished.text


def test_a_good_candidate_takes_the_traffic_over_without_a_failed_request(
    live: Deployment, record_property: Record
) -> None:
    result, problems = play(DEMOS["pass"], live)
    record_property("pass", json.dumps(result))
    assert problems == [], result


def test_more_replicas_are_no_release_and_every_pod_is_checked(live: Deployment) -> None:
    def more(settings: dict[str, Any]) -> None:
        settings["splitserve:decode"] = {"replicas": 2}
        note(live_note(live))(settings)

    before = live.outputs()
    finished = live.up(more)
    assert finished.code == 0, finished.text
    after = live.outputs()
    assert after["live"] == before["live"]
    assert after["gate"] == before["gate"]
    assert "checking all pods" in finished.text


def live_note(deployment: Deployment) -> str:
    """The note of the live release, so that the same release stays configured."""
    return deployment.outputs()["ledger"]["live"]["release"]["note"]


def test_neither_state_nor_output_holds_a_key(live: Deployment) -> None:
    kubeconfig = Path(live.environment["KUBECONFIG"]).read_text()
    secrets = [line.split(": ", 1)[1].strip() for line in kubeconfig.splitlines() if "-data: " in line]
    assert secrets
    state = live.run("stack", "export").text
    assert json.loads(state)["deployment"]["resources"]
    for secret in secrets:
        assert secret not in state
    assert "BEGIN EC PRIVATE KEY" not in state
