"""Real releases on real vLLM: one passes, bad ones are taken back, a killed update converges.

In order, on one stack (see conftest.py).
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tools.client import StreamingClient
from tools.demo import DEMOS, note, play
from tools.deployment import Deployment, kill


def ask(outputs: dict[str, Any]) -> dict[str, Any]:
    body = {"model": outputs["model"], "messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 8}
    reply = httpx.post(f"{outputs['endpoint']}/v1/chat/completions", json=body, timeout=60, trust_env=False)
    assert reply.status_code == 200, reply.text
    return reply.json()


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
    assert ask(outputs)["usage"]["completion_tokens"] > 0


def test_the_same_configuration_changes_nothing_and_measures_nothing(deployment: Deployment) -> None:
    before = deployment.outputs()
    started = time.monotonic()
    finished = deployment.up()
    assert finished.code == 0
    assert "measuring" not in finished.text
    assert deployment.outputs() == before
    assert time.monotonic() - started < 60


@pytest.mark.parametrize("name", ["slow-link", "silent", "never-ready", "cannot-measure"])
def test_a_bad_candidate_is_taken_back_without_a_failed_request(deployment: Deployment, name: str) -> None:
    result, problems = play(DEMOS[name], deployment)
    assert problems == [], result


def test_a_refused_release_gives_the_same_answer_again_without_measuring(deployment: Deployment) -> None:
    def stops(settings: dict[str, Any]) -> None:
        settings["splitserve:decode"] = {"extraArgs": ["--no-such-argument"]}

    first = deployment.up(stops)
    again = deployment.up(stops)
    assert (first.code, again.code) == (1, 1)
    assert "not-ready" in first.text and "not-ready" in again.text
    assert "taking release" in first.text and "taking release" not in again.text


def test_a_good_candidate_takes_the_traffic_over_without_a_failed_request(deployment: Deployment) -> None:
    result, problems = play(DEMOS["pass"], deployment)
    assert problems == [], result


def test_more_replicas_are_no_release_and_every_pod_is_checked(deployment: Deployment) -> None:
    def more(settings: dict[str, Any]) -> None:
        settings["splitserve:decode"] = {"replicas": 2}
        note(deployment_note(deployment))(settings)

    before = deployment.outputs()
    finished = deployment.up(more)
    assert finished.code == 0, finished.text
    after = deployment.outputs()
    assert after["live"] == before["live"]
    assert after["gate"] == before["gate"]
    assert "checking all pods" in finished.text


def deployment_note(deployment: Deployment) -> str:
    """The note of the live release, so that the same release stays configured."""
    return deployment.outputs()["ledger"]["live"]["release"]["note"]


def test_an_update_that_is_killed_while_it_measures_converges_by_itself(deployment: Deployment) -> None:
    before = deployment.outputs()
    with StreamingClient(before["endpoint"], before["model"]) as client:
        process = deployment.start_up(note("killed"))
        assert process.stdout is not None
        for line in process.stdout:
            if "measuring" in line:
                break
        time.sleep(2)
        kill(process)
        deployment.run("cancel", "--yes")
        finished = deployment.up(note("killed"))
    assert finished.code == 0, finished.text
    after = deployment.outputs()
    assert after["live"] != before["live"]
    assert ask(after)["usage"]["completion_tokens"] > 0
    assert (client.counts.failed, client.counts.truncated) == (0, 0), client.counts.errors


def test_neither_state_nor_output_holds_a_key(deployment: Deployment) -> None:
    kubeconfig = Path(deployment.environment["KUBECONFIG"]).read_text()
    secrets = [line.split(": ", 1)[1].strip() for line in kubeconfig.splitlines() if "-data: " in line]
    assert secrets
    state = deployment.run("stack", "export").text
    assert json.loads(state)["deployment"]["resources"]
    for secret in secrets:
        assert secret not in state
    assert "BEGIN EC PRIVATE KEY" not in state
