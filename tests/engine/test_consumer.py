"""Another team's program reads a stack's outputs through the real engine, and deploys on a passed release alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from splitserve.outputs import parse_json
from tests.engine.consuming import Consumer
from tests.exported import FAIL, NOT_READY, PASS, outputs_after, passed, release
from tools.cache import CHECKOUT, cache
from tools.local import full_environment
from tools.own_engine import backend_url

PRODUCER = CHECKOUT / "tests/engine/programs/producer"
COLLOCATED = PASS.__class__("pass", "collocated", "no KV is transferred", "")


@dataclass(frozen=True)
class Producer:
    """Stacks of a program that exports what it is given, on the consumer's backend."""

    folder: Path
    environment: dict[str, str]

    def made(self, stack: str, *updates: tuple[dict[str, Any], bool], secret: str = "") -> str:
        """A stack after some updates, each {outputs, whether it failed}. Returns its full name."""
        self.pulumi("stack", "init", stack)
        for values, fails in updates:
            produced = self.folder / f"{stack}.json"
            produced.write_text(json.dumps(values))
            told = {"PRODUCED": str(produced), "PRODUCED_SECRET": secret, "PRODUCER_FAILS": "1" if fails else ""}
            self.pulumi("up", "--yes", "--skip-preview", "--stack", stack, code=255 if fails else 0, **told)
        return f"organization/splitserve/{stack}"

    def pulumi(self, *arguments: str, code: int = 0, **told: str) -> str:
        done = subprocess.run(
            ["pulumi", *arguments, "--non-interactive"], cwd=self.folder, env=self.environment | told,
            capture_output=True, text=True,
        )  # fmt: skip
        assert (done.returncode != 0) == (code != 0), done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    state = tmp_path_factory.mktemp("state")
    found = {**os.environ, **full_environment(cache()), "PULUMI_BACKEND_URL": backend_url(state)}
    assert shutil.which("pulumi", path=found["PATH"]), "no pulumi: run `make start` first"
    return found


@pytest.fixture(scope="module")
def producer(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Producer:
    folder = tmp_path_factory.mktemp("producer") / "program"
    shutil.copytree(PRODUCER, folder)
    return Producer(folder, environment)


@pytest.fixture(scope="module")
def consumer(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Consumer:
    return Consumer.of(tmp_path_factory.mktemp("consumer") / "program", environment)


def written(folder: Path) -> dict[str, str]:
    """Manifests as files: no cluster is needed. A preview writes its own, under names of its own."""
    return {"kubernetes:renderYamlToDirectory": str(folder)}


def refused(finished: Any, *words: str) -> None:
    assert finished.code != 0, finished.text
    assert "Traceback" not in finished.text and "batch/v1:Job" not in finished.text
    for word in words:
        assert word in " ".join(finished.text.split()), finished.text


def manifest(folder: Path, kind: str) -> dict[str, Any]:
    read = [yaml.safe_load(path.read_text()) for path in folder.rglob("*.yaml")]
    (found,) = (content for content in read if content["kind"] == kind)
    return found


def test_on_a_passed_release_it_deploys_a_client_of_the_live_one(
    producer: Producer, consumer: Consumer, tmp_path: Path
) -> None:
    stack = producer.made("passed", (passed() | {"ca": "PEM"}, False))
    assert "batch/v1:Job" in consumer.preview(stack, written(tmp_path / "preview")).text
    finished = consumer.up(stack, written(tmp_path / "up"))
    assert finished.code == 0, finished.text
    assert (consumer.outputs()["release"], consumer.outputs()["kvTransferAgedMs"]) == ("r1", 30.25)
    pod = manifest(tmp_path / "up", "Job")["spec"]["template"]["spec"]
    variables = {v["name"]: v["value"] for v in pod["containers"][0]["env"]}
    assert variables == {
        "LLM_ENDPOINT": "http://10.0.0.9", "LLM_MODEL": "tiny", "LLM_RELEASE": "r1", "SSL_CERT_FILE": "/etc/llm/ca.pem",
    }  # fmt: skip
    files = manifest(tmp_path / "up", "ConfigMap")
    assert files["metadata"]["name"] == pod["volumes"][0]["configMap"]["name"] and files["data"]["ca.pem"] == "PEM"
    assert pod["restartPolicy"] == "Never" and pod["securityContext"]["runAsNonRoot"] is True
    assert consumer.destroy().code == 0


def test_after_a_refused_release_it_deploys_nothing(producer: Producer, consumer: Consumer) -> None:
    after = outputs_after((release("r1"), PASS), (release("r2", model="other"), FAIL))
    stack = producer.made("refused", (passed(), False), (after, True))
    refused(consumer.preview(stack), "not passed", stack, "r2: fail, slow-link", "r1 is live still", "mend the link")


def test_what_the_engine_keeps_for_a_null_is_not_taken_for_the_live_release_s(producer: Producer) -> None:
    """The trap itself: the update failed, its time is null, and the stack still has the one before."""
    first, second = passed(), outputs_after((release("r1"), COLLOCATED), (release("r2"), NOT_READY))
    stack = producer.made("kept", (first, False), (second, True))
    printed = producer.pulumi("stack", "output", "--json", "--stack", "kept")
    assert json.loads(printed)["kvTransferMs"] == 20.5
    found = parse_json(printed, stack)
    assert (found.live.kv_transfer_ms, found.last_update.cause) == (None, "not-ready")


@pytest.mark.parametrize(
    ("name", "updates", "words"),
    [
        ("not-up", [], ["not up", "pulumi up --stack organization/splitserve/not-up"]),
        ("none-live", [(outputs_after((release("r1"), FAIL)), True)], ["no live release", "r1: fail", "mend the link"]),
        ("older", [({"endpoint": "http://a", "ledger": {"version": 1}}, False)], ["older contract", "run `pulumi up`"]),
        ("newer", [(passed() | {"contract": 2}, False)], ["newer contract", "contract 2"]),
        ("malformed", [(passed() | {"endpoint": ""}, False)], ["malformed", "endpoint: ''"]),
        ("other", [({"bucket": "b"}, False)], ["not a serving stack", "bucket"]),
    ],
)
def test_what_can_not_be_used_has_one_clear_answer(
    producer: Producer, consumer: Consumer, name: str, updates: list[Any], words: list[str]
) -> None:
    stack = producer.made(name, *updates)
    refused(consumer.preview(stack), stack, *words)


@pytest.mark.parametrize("stack", ["organization/splitserve/missing", "elsewhere/splitserve/prod", "a/b/c/d"])
def test_a_stack_that_is_not_there_is_refused_by_the_reader_and_not_the_engine(consumer: Consumer, stack: str) -> None:
    refused(consumer.preview(stack), "unreadable", stack, "PULUMI_BACKEND_URL", "pulumi stack ls --all")


def test_keys_are_asked_for_where_the_front_door_wants_them(
    producer: Producer, consumer: Consumer, tmp_path: Path
) -> None:
    stack = producer.made("keys", (passed(secret="chat-keys"), False))
    manifests = written(tmp_path)
    refused(consumer.preview(stack, manifests), "chat-client:apiKeySecret", "Secret chat-keys of namespace team")
    finished = consumer.preview(stack, {**manifests, "chat-client:apiKeySecret": "ours"})
    assert finished.code == 0 and "batch/v1:Job" in finished.text, finished.text


def test_an_output_that_somebody_made_secret_is_said_to_be_one(producer: Producer, consumer: Consumer) -> None:
    stack = producer.made("secret", (passed(), False), secret="endpoint")
    finished = consumer.preview(stack)
    refused(finished, "malformed", "endpoint: a secret")
    assert "10.0.0.9" not in finished.text
