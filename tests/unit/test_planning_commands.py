"""What a user sees of `splitserve expect`, `advise`, `report`, `schema`, `rules` and `instances`."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from moto import mock_aws
from typer.testing import CliRunner

from components.hardware import catalogue as catalogue_file
from components.hardware.prices import Price
from infra.cli import app
from infra.commands import planning
from infra.stack_file import values_of
from tests.unit.plans import ROOT, stack_values

KEYS = ("kv_bytes", "descriptors_fresh", "descriptors_aged", "fresh_ms", "aged_ms", "limit_ms", "ok", "reasons")
EIGHT_K = ["expect", "--model", "llama-3.1-70b", "--prompt-tokens", "8192", "--json"]


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, arguments)


def answer(*arguments: str) -> dict[str, Any]:
    return json.loads(run(*arguments).stdout)


def test_70b_on_p4d_is_refused_with_the_figures() -> None:
    result = run(*EIGHT_K, "--instance", "p4d.24xlarge")
    found = json.loads(result.stdout)
    assert (result.exit_code, found["ok"], found["tensor_parallel"]) == (1, False, 4)
    assert found["kv_bytes"] == 320 * 1024 * 8192
    assert found["fresh_ms"] > 100 and "6.25 GB/s" in found["reasons"][0]


def test_70b_on_p5_depends_on_the_block_size() -> None:
    large = answer(*EIGHT_K, "--instance", "p5.48xlarge")
    small = answer(*EIGHT_K, "--instance", "p5.48xlarge", "--block-size", "16")
    assert large["ok"] and large["reasons"] == []
    assert small["fresh_ms"] < small["limit_ms"] < small["aged_ms"]
    assert "set engine.blockSize: 128" in small["reasons"][0]


def test_the_answer_has_the_documented_keys_and_null_where_nothing_is_known(tmp_path: Path) -> None:
    odd = tmp_path / "config.json"
    odd.write_text(json.dumps({"model_type": "jamba", "num_hidden_layers": 2}))
    found = answer("expect", "--model", str(odd), "--link", "ib-ndr", "--prompt-tokens", "100", "--json")
    assert set(KEYS) <= set(found)
    assert found["kv_bytes"] is found["fresh_ms"] is found["aged_ms"] is found["ok"] is None
    assert "jamba" in found["reasons"][0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "lama-3.1-70b", "--instance", "p5.48xlarge"], "did you mean llama-3.1-70b"),
        (["--model", "qwen3-32b", "--instance", "p5.48xlrage"], "did you mean p5.48xlarge"),
        (["--model", "qwen3-32b"], "give exactly one of --instance"),
        (["--model", "qwen3-32b", "--link", "carrier-pigeon"], "platform.hardware.link: found 'carrier-pigeon'"),
        (["--model", "qwen3-32b", "--link", "tcp", "--limit-ms", "nan"], "gate.limitMs"),
        (["--model", "qwen3-32b", "--link", "tcp", "--limit-ms", "-1"], "gate.limitMs"),
        (["--model", "qwen3-32b", "--link", "tcp", "--dtype", "int3"], "engine.dtype"),
        (["--model", "/no/such/config.json", "--link", "tcp"], "can't be read"),
    ],
)
def test_a_bad_question_gets_one_message(arguments: list[str], message: str) -> None:
    result = run("expect", "--prompt-tokens", "8192", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr and "Traceback" not in result.output


@pytest.mark.parametrize("tokens", ["0", "-5", "1000000000000"])
def test_an_absurd_prompt_is_refused(tokens: str) -> None:
    assert run("expect", "--model", "qwen3-32b", "--link", "tcp", "--prompt-tokens", tokens).exit_code == 2


def test_ranks_that_do_not_divide_are_a_reason() -> None:
    found = answer(
        "expect", "--model", "qwen2.5-7b", "--link", "ib-ndr", "--prompt-tokens", "8192", "--tp", "8", "--json"
    )
    assert found["ok"] is None and "28 attention heads can't be split over 8 GPUs" in found["reasons"][0]


def test_the_plain_answer_names_every_key() -> None:
    printed = run("expect", "--model", "qwen3-32b", "--instance", "p5.48xlarge", "--prompt-tokens", "8192").stdout
    assert all(key in printed for key in KEYS)


def test_advice_uses_the_expected_transfer() -> None:
    profile = ["advise", "--prompt-tokens", "8192", "--output-tokens", "400", "--rate-per-s", "2", "--itl-p99-target-ms",
               "60", "--collocated-itl-p99-ms", "200", "--json"]  # fmt: skip
    fast = answer(*profile, "--model", "qwen2.5-7b", "--link", "nvlink")
    slow = answer(*profile, "--model", "qwen2.5-7b", "--link", "tcp")
    assert (fast["choice"], slow["choice"]) == ("split", "collocated")
    assert answer(*profile)["choice"] == "measure"


@pytest.mark.parametrize(
    ("option", "value", "key"),
    [("--rate-per-s", "nan", "ratePerS"), ("--rate-per-s", "-1", "ratePerS"), ("--rate-per-s", "1e12", "ratePerS"),
     ("--burstiness", "0.5", "burstiness"), ("--output-tokens", "0", "outputTokens")],
)  # fmt: skip
def test_an_absurd_profile_is_refused(option: str, value: str, key: str) -> None:
    given = {"--prompt-tokens": "8192", "--output-tokens": "400", "--rate-per-s": "2"} | {option: value}
    result = run("advise", *(part for pair in given.items() for part in pair))
    assert result.exit_code == 2
    assert f"{key}: found" in result.stderr and "Traceback" not in result.output


def test_a_stack_file_without_keys_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "PROJECT_FOLDER", tmp_path)
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks/Pulumi.odd.yaml").write_text("- a list")
    result = run("report", "--stack", "odd")
    assert result.exit_code == 2 and "found no `config` with keys" in result.stderr


def test_a_stack_file_that_pulumi_has_saved_means_the_same() -> None:
    text = (ROOT / "stacks/Pulumi.dev.yaml").read_text()
    saved = text.replace("runAsUser: 0", 'runAsUser: "0"') + "  aws:region: us-east-1\nencryptionsalt: v1:x\n"
    assert saved != text and values_of(saved, "saved") == values_of(text, "text") == stack_values("dev")


@pytest.mark.parametrize("stack", ["dev", "onprem"])
def test_a_report_of_each_example_has_table_transfer_and_cost(stack: str) -> None:
    text, markdown = run("report", "--stack", stack), run("report", "--stack", stack, "--format", "markdown")
    assert text.exit_code == markdown.exit_code == 0, text.output
    for printed in (text.stdout, markdown.stdout):
        assert "qwen3-32b" in printed and "ms aged expected" in printed and "cost" in printed
    assert markdown.stdout.startswith("### ") and "| decode |" in markdown.stdout
    found = json.loads(run("report", "--stack", stack, "--format", "json").stdout)
    assert found["findings"] == [] and found["aged_ms"] < found["limit_ms"]


def test_a_report_shows_cost_and_advice_of_prod() -> None:
    printed = run("report", "--stack", "prod").stdout
    assert "110.58 USD an hour: prefill 55.04, decode 55.04, system 0.40, control plane 0.10" in printed
    assert "split: collocated ITL p99 170 ms misses its 60 ms target" in printed


def test_a_report_names_the_model_files_that_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "PROJECT_FOLDER", tmp_path)
    (tmp_path / "stacks").mkdir()
    shutil.copy(ROOT / "stacks/Pulumi.local.yaml", tmp_path / "stacks")
    for form in ("text", "markdown", "json"):
        result = run("report", "--stack", "local", "--format", form)
        assert result.exit_code == 1 and "config.json" in result.stdout


def test_a_stack_that_is_not_there_names_those_that_are() -> None:
    result = run("report", "--stack", "production")
    assert result.exit_code == 2 and "there are: dev, local, onprem, prod" in result.stderr


def test_the_schema_in_the_repository_is_the_code_s() -> None:
    assert json.loads((ROOT / "stacks/schema.json").read_text()) == json.loads(run("schema").stdout), (
        "run: splitserve schema --output stacks/schema.json"
    )


def test_the_table_of_settings_in_the_docs_is_the_code_s() -> None:
    assert (ROOT / "docs/reference/settings.md").read_text() == run("settings").stdout, (
        "run: splitserve settings > docs/reference/settings.md"
    )


def test_the_table_of_outputs_in_the_docs_is_the_code_s() -> None:
    assert (ROOT / "docs/reference/outputs.md").read_text() == run("outputs").stdout, (
        "run: splitserve outputs > docs/reference/outputs.md"
    )


def test_rules_are_printed_as_a_table() -> None:
    assert "| `efa-backend` | error |" in run("rules").stdout


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with mock_aws():
        yield


def test_instances_says_that_catalogue_and_aws_agree(aws: Any) -> None:
    result = run("instances", "--region", "us-east-1", "--region", "eu-west-1")
    assert result.exit_code == 0, result.output
    assert "0 difference(s) in us-east-1, eu-west-1" in result.stdout


def test_instances_shows_a_difference_and_refresh_writes_it(
    aws: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = json.loads(catalogue_file.FILE.read_text())
    content["instances"]["p5.48xlarge"]["efa_interfaces"] = 31
    changed = tmp_path / "instances.json"
    changed.write_text(json.dumps(content))
    monkeypatch.setattr(catalogue_file, "FILE", changed)
    cached = (catalogue_file.catalogue, catalogue_file._content)
    for function in cached:
        function.cache_clear()
    try:
        shown = run("instances", "--region", "us-east-1")
        assert shown.exit_code == 1
        assert "p5.48xlarge          efa_interfaces: catalogue 31, AWS 32" in shown.stdout
    finally:
        for function in cached:
            function.cache_clear()


def test_without_credentials_one_message_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/no/such/file")
    result = run("instances", "--region", "us-east-1")
    assert result.exit_code == 2 and "can't be asked" in result.stderr


def test_a_price_that_is_missing_is_unknown() -> None:
    printed = run("prices", "--instance", "p5.48xlarge", "--instance", "p5e.48xlarge", "--region", "us-east-1").stdout
    assert "55.0400 USD an hour" in printed and "unknown" in printed


def test_a_report_may_ask_the_price_list(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def listed(instance: str, region: str) -> Price:
        asked.append((instance, region))
        return Price(1.0 if instance == "p5.48xlarge" else None, "AWS's price list now")

    monkeypatch.setattr(planning, "listed_price_of", listed)
    printed = run("report", "--stack", "prod", "--listed").stdout
    assert ("p5.48xlarge", "us-east-1") in asked
    assert "unknown: prefill 1.00, decode 1.00, system unknown" in printed


def test_the_console_script_starts() -> None:
    assert subprocess.run([ROOT / ".venv/bin/splitserve", "--help"], capture_output=True).returncode == 0
