"""Another team's project against a live stack: it deploys on a release that passed, and not after one that did not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.asking import cluster_of
from tests.engine.consuming import Consumer
from tools.cache import CHECKOUT
from tools.demo import note
from tools.deployment import Deployment

NAMESPACE = "default"
"""Of the other team."""


@pytest.fixture
def consumer(live: Deployment, tmp_path: Path) -> Iterator[Consumer]:
    found = Consumer.of(tmp_path / "consumer", live.environment)
    yield found
    destroyed = found.destroy()
    assert destroyed.code == 0, destroyed.text


def test_it_is_answered_by_what_passed_and_refuses_what_did_not(live: Deployment, consumer: Consumer) -> None:
    stack = f"organization/splitserve/{live.stack}"
    config = {"chat-client:namespace": NAMESPACE, "chat-client:image": (CHECKOUT / ".local/image").read_text().strip()}
    before = live.outputs()
    again = live.up(note(before["ledger"]["live"]["release"]["note"]))  # whoever was before may have ended in a refusal
    assert again.code == 0, again.text
    asked = consumer.up(stack, config)
    assert asked.code == 0, asked.text
    told = consumer.outputs()
    assert (told["release"], told["kvTransferAgedMs"]) == (before["live"], live.outputs()["kvTransferAgedMs"])
    core = cluster_of(live).core
    [pod] = core.list_namespaced_pod(NAMESPACE, label_selector=f"batch.kubernetes.io/job-name={told['asked']}").items
    assert core.read_namespaced_pod_log(pod.metadata.name, NAMESPACE).strip(), "the model said nothing"

    def stops(settings: dict[str, Any]) -> None:
        settings["splitserve:decode"] = {"extraArgs": ["--no-such-argument-either"]}

    assert live.up(stops).code == 1
    refused = consumer.up(stack, config)
    assert refused.code != 0 and "Traceback" not in refused.text
    for words in ("not passed", "not-ready", f"release {before['live']} is live still"):
        assert words in refused.text, refused.text
    assert consumer.outputs() == told
    assert live.outputs()["model"] == before["model"] and live.outputs()["kvTransferMs"] == before["kvTransferMs"]
