"""What a user sees when a plan is wrong: one message, no traceback, exit code 1, nothing changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from components.release.ledger import VERSION, Ledger
from tools.deployment import Deployment

Preview = Callable[..., Any]


def setting(section: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(settings: dict[str, Any]) -> None:
        settings[f"splitserve:{section}"] = value

    return change


def refused(finished: Any, *words: str) -> None:
    assert finished.code == 1, finished.text
    assert "Traceback" not in finished.text
    for word in words:
        assert word in finished.text


def test_all_faults_of_a_stack_file_come_in_one_message(preview: Preview) -> None:
    refused(
        preview(setting("gate", {"limitMs": 0}), setting("topologie", "collocated")),
        "2 fault(s), nothing was changed",
        "gate.limitMs: found 0",
        "topologie: no such setting; did you mean `topology`?",
    )


def test_a_model_folder_without_a_tokenizer_is_refused(preview: Preview, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    config = {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 8, "vocab_size": 1000}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(b"")
    refused(preview(setting("model", {"name": "m", "folder": str(folder)})), "has no tokenizer")


def test_an_unreachable_cluster_is_named(preview: Preview, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
                "users": [{"name": "c", "user": {}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
            }
        )
    )
    platform = {"kind": "local", "kubeconfig": str(kubeconfig), "namespace": "splitserve-engine-test"}
    refused(preview(setting("platform", platform)), "does not answer", str(kubeconfig))


def test_a_missing_kubeconfig_says_how_to_get_one(preview: Preview) -> None:
    platform = {"kind": "local", "kubeconfig": "no/such/file"}
    refused(preview(setting("platform", platform)), "platform.kubeconfig: found no file", "make up")


def test_a_ledger_of_a_newer_version_is_refused(deployment: Deployment, preview: Preview, tmp_path: Path) -> None:
    exported = json.loads(deployment.run("stack", "export").text)
    urn = f"urn:pulumi:{deployment.stack}::splitserve::pulumi:pulumi:Stack::splitserve-{deployment.stack}"
    ledger = Ledger().to_json() | {"version": VERSION + 1}
    exported["deployment"]["resources"] = [
        {"urn": urn, "custom": False, "type": "pulumi:pulumi:Stack", "outputs": {"ledger": ledger}}
    ]
    state = tmp_path / "state.json"
    state.write_text(json.dumps(exported))
    imported = deployment.run("stack", "import", "--file", str(state))
    assert imported.code == 0, imported.text
    refused(preview(), f"ledger has version {VERSION + 1}", "Update splitserve")


def test_a_backend_that_can_not_be_written_is_refused(deployment: Deployment, tmp_path: Path) -> None:
    blocked = tmp_path / "a-file"
    blocked.write_text("")
    environment = {**deployment.environment, "PULUMI_BACKEND_URL": f"file://{blocked}/state"}
    finished = Deployment("other", environment=environment, show=False).run("stack", "init")
    assert finished.code != 0
    assert str(blocked) in finished.text
    assert "Traceback" not in finished.text


@pytest.mark.parametrize("command", [["stack", "output", "--json"], ["stack", "export"]])
def test_plain_commands_work(deployment: Deployment, command: list[str]) -> None:
    finished = deployment.run(*command)
    assert finished.code == 0, finished.text
