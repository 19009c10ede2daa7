"""The package through the real engine: its schema, a program in Python, and what becomes of its releases.

The cluster is on paper: its API server and controllers are real, its pods are not.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client
from kubernetes import config as kubernetes_config

from components.release.ledger_record import NAME
from infra.settings import Settings
from tests.engine.packaged import BYTES_PER_TOKEN, PACKAGE, Packaged
from tests.engine.paper_cluster import paper_cluster
from tests.engine.paper_node import PaperNode
from tools.cache import CHECKOUT, cache
from tools.local import full_environment
from tools.own_engine import backend_url

EXAMPLE = CHECKOUT / "examples/package"
TWO = CHECKOUT / "tests/engine/programs/two_servings"
FAST_MS, SLOW_MS = 20.0, 300.0


@dataclass(frozen=True)
class Paper:
    """A kubeconfig and the node behind it."""

    kubeconfig: str
    node: PaperNode

    def ledger(self, namespace: str) -> dict[str, Any]:
        core: Any = client.CoreV1Api(kubernetes_config.new_client_from_config(self.kubeconfig))
        return json.loads(core.read_namespaced_config_map(NAME, namespace).data["record.json"])


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    state = tmp_path_factory.mktemp("state")
    found = {**os.environ, **full_environment(cache()), "PULUMI_BACKEND_URL": backend_url(state)}
    for program in ("pulumi", "sdk-generator"):
        assert shutil.which(program, path=found["PATH"]), f"no {program}: run `make test-engine`, which builds it"
    return found


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Paper]:
    with paper_cluster(tmp_path_factory.mktemp("paper")) as (kubeconfig, node):
        node.bytes_per_token = BYTES_PER_TOKEN
        yield Paper(str(kubeconfig), node)


@pytest.fixture(scope="module")
def chat(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Packaged:
    made = Packaged.of(EXAMPLE, tmp_path_factory.mktemp("chat") / "program", environment)
    made.install_python()
    return made


@pytest.fixture
def live(chat: Packaged, paper: Paper) -> Packaged:
    """The program with a release of the model `chat` that passed and has the traffic."""
    paper.node.transfer_ms = FAST_MS
    made = chat.up(kubeconfig=paper.kubeconfig, model="chat")
    assert made.code == 0, made.text
    return chat


def refused(finished: Any, *words: str) -> None:
    assert finished.code != 0, finished.text
    for word in (*words, "Admission"):
        assert word in " ".join(finished.text.split()), finished.text
    assert "Traceback" not in finished.text, finished.text


def test_the_schema_has_every_setting_of_a_stack_file_and_every_output_of_the_contract(chat: Packaged) -> None:
    printed = chat.run("pulumi", "package", "get-schema", str(PACKAGE))
    schema = json.loads(printed.text[printed.text.index("{") :])
    assert list(schema["resources"]) == ["splitserve:index:Serving"]
    serving = schema["resources"]["splitserve:index:Serving"]
    assert set(serving["inputProperties"]) == {field.alias for field in Settings.model_fields.values()}
    assert serving["isComponent"] and serving["requiredInputs"] == ["model", "platform"]
    assert {"endpoint", "model", "live", "verdict", "kvTransferMs", "ledger"} <= set(serving["properties"])
    types = schema["types"]
    assert types["splitserve:index:Gate"]["properties"]["age"]["oneOf"] == [{"type": "string"}, {"type": "integer"}]
    kinds = types["splitserve:index:PlatformKind"]["enum"]
    assert [kind["value"] for kind in kinds] == ["local", "existing", "aws"]


def test_a_release_that_passes_is_live_and_the_same_again_changes_nothing(live: Packaged, paper: Paper) -> None:
    outputs = live.outputs()
    assert (outputs["verdict"], outputs["model"], outputs["kvTransferMs"]) == ("pass", "chat", FAST_MS)
    assert outputs["endpoint"].startswith("http://")
    assert paper.ledger("chat")["live"]["release"]["id"] == outputs["release"]
    measured = len(paper.node.probed)
    again = live.up("--expect-no-changes", kubeconfig=paper.kubeconfig, model="chat")
    assert again.code == 0, again.text
    assert len(paper.node.probed) == measured
    kinds = {resource["type"] for resource in live.resources()}
    assert "splitserve:release:KvGate" in kinds and not any(kind.startswith("pulumi-python:") for kind in kinds)


def test_a_refused_release_fails_the_update_and_leaves_the_live_one(live: Packaged, paper: Paper) -> None:
    before, measured = live.outputs(), len(paper.node.probed)
    paper.node.transfer_ms = SLOW_MS
    slow = {"kubeconfig": paper.kubeconfig, "model": "slow"}
    refused(live.up(**slow), "was taken back: slow-link", f"release {before['release']} answers at", "quarantined")
    assert len(paper.node.probed) == measured + 1
    assert live.outputs() == before
    refused(live.up(**slow), "was taken back: slow-link")
    assert len(paper.node.probed) == measured + 1, "measured again"
    # What the ledger keeps when the program has gone back to what is live.
    assert live.up(kubeconfig=paper.kubeconfig, model="chat").code == 0
    paper.node.transfer_ms = FAST_MS
    assert list(paper.ledger("chat")["quarantined"]) == [paper.node.probed[-1]]
    refused(live.up(**slow), "was refused before: slow-link", "set gate.retry to 1")
    assert len(paper.node.probed) == measured + 1, "a quarantined release was measured"


def test_a_preview_of_a_refused_release_succeeds(live: Packaged, paper: Paper) -> None:
    shown = live.preview(kubeconfig=paper.kubeconfig, model="another")
    assert shown.code == 0, shown.text
    assert "splitserve:release:KvGate" in shown.text


@pytest.mark.parametrize(
    ("replaced", "words"),
    [
        ({'"kind": "existing"': '"kind": "exists"', '"age": "off"': '"age": "of", "max_ratio": -3'},
         ["platform.kind: found 'exists'", "gate.age: found 'of'", "gate.maxRatio: found -3", "nothing was changed"]),
        ({'"kind": "existing"': '"kind": "aws"'}, ["platform.kind: found aws; wanted existing"]),
        ({'"namespace": "chat"': '"namespace": "default"'}, ["belongs to somebody else"]),
        ({'image="registry': 'topology="star", image="registry'}, ["topology: found 'star'"]),
        ({'"chat",\n    platform': '"a:b",\n    platform'}, ["the resource's name: found 'a:b'"]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_at_once(
    chat: Packaged, paper: Paper, replaced: dict[str, str], words: list[str]
) -> None:
    source = (EXAMPLE / "__main__.py").read_text()
    for old, new in replaced.items():
        assert old in source
        source = source.replace(old, new)
    (chat.folder / "__main__.py").write_text(source)
    try:
        finished = chat.preview(kubeconfig=paper.kubeconfig, model="chat")
    finally:
        shutil.copyfile(EXAMPLE / "__main__.py", chat.folder / "__main__.py")
    refused(finished, *words)


def test_an_unreachable_cluster_is_named(chat: Packaged, tmp_path: Path) -> None:
    server = {"cluster": {"server": "https://127.0.0.1:1"}, "name": "c"}
    context = {"context": {"cluster": "c", "user": "c"}, "name": "c"}
    content = {"apiVersion": "v1", "kind": "Config", "current-context": "c", "clusters": [server],
               "users": [{"name": "c", "user": {}}], "contexts": [context]}  # fmt: skip
    (tmp_path / "kubeconfig").write_text(json.dumps(content))
    refused(chat.preview(kubeconfig=str(tmp_path / "kubeconfig")), "does not answer", str(tmp_path / "kubeconfig"))
    refused(chat.preview(kubeconfig="no/such/file"), "platform.kubeconfig: found no file")


def test_two_of_them_share_a_stack_and_one_may_wait_for_the_other(
    environment: dict[str, str], paper: Paper, tmp_path: Path
) -> None:
    two = Packaged.of(TWO, tmp_path / "program", environment)
    two.install_python()
    paper.node.transfer_ms = FAST_MS
    shown = two.preview(kubeconfig=paper.kubeconfig)
    assert shown.code == 0, shown.text
    assert "note: not known before what it comes from is made" in shown.text
    made = two.up(kubeconfig=paper.kubeconfig)
    assert made.code == 0, made.text
    outputs = two.outputs()
    assert outputs["first"] and outputs["second"] and outputs["first"] != outputs["second"]
    destroyed = two.destroy()
    assert destroyed.code == 0, destroyed.text


def test_an_sdk_for_go_is_written_as_well(chat: Packaged, tmp_path: Path) -> None:
    """It is not compiled here: that takes Go's module cache of Pulumi's SDK."""
    written = chat.pulumi("package", "gen-sdk", str(PACKAGE), "--language", "go", "--local", "--out", str(tmp_path))
    assert written.code == 0, written.text
    assert "type ServingArgs struct" in (tmp_path / "go/splitserve/serving.go").read_text()
    assert "type GateArgs struct" in (tmp_path / "go/splitserve/pulumiTypes.go").read_text()
