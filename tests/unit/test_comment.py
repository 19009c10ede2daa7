"""The comment on a stack as its reader gets it, and the messages in place of one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from infra.cli import app
from infra.commands import pull_request
from infra.redaction import SECRET, SECRET_SIGNATURE, SIGNATURE_KEY
from tests.unit.plans import ROOT
from tests.unit.previews import END, FAILED, policy, said, step, stream

MARKER = "<!-- splitserve preview: dev -->\n"


@pytest.fixture
def ask(tmp_path: Path) -> Any:
    """`splitserve comment` on the dev stack with these events."""

    def ask(events: str, *more: str, stack: str = "dev") -> Any:
        (tmp_path / "events").write_text(events)
        return CliRunner().invoke(app, ["comment", "--stack", stack, "--preview", str(tmp_path / "events"), *more])

    return ask


def test_a_harmless_change_is_one_whole_comment(ask: Any) -> None:
    result = ask(
        stream(step("update", diffs=["tags"])), "--base", str(ROOT / "stacks/Pulumi.dev.yaml"), "--commit", "abc1234"
    )
    assert result.exit_code == 0 and result.stdout.startswith(MARKER)
    for words in ("## Preview of dev: 1 updated", "Of commit abc1234.", "51 ms aged expected", "limit 100 ms", "All hold.",
                  "cost against the base branch**: none (30.43 USD an hour)", "51 ms to 51 ms aged", "| tags |"):  # fmt: skip
        assert words in result.stdout, result.stdout


def test_replaced_and_deleted_resources_are_shown_openly(ask: Any) -> None:
    events = [step("replace", keys=["cidrBlock"]), step("delete", name="old"), step("create", name="new")]
    text = ask(stream(*events)).stdout
    assert "## Preview of dev: 1 replaced, 1 deleted, 1 created" in text
    openly, hidden = text.split("<details>")
    assert "**1 replaced**" in openly and "| net | `aws:ec2/vpc:Vpc` | cidrBlock |" in openly and "| old |" in openly
    assert "| new |" in hidden and "the stack is new" in hidden


def test_the_base_s_cost_and_transfer_are_compared(ask: Any, tmp_path: Path) -> None:
    base = (ROOT / "stacks/Pulumi.dev.yaml").read_text().replace("nodes: 1}", "nodes: 2}")
    (tmp_path / "base.yaml").write_text(base)
    assert "-30.13 USD an hour (60.56 to 30.43)" in ask(stream(), "--base", str(tmp_path / "base.yaml")).stdout


@pytest.mark.parametrize("content", ["- a list", "config: {splitserve:platform: {kind: moon}}", "config: ["])
def test_a_base_that_can_not_be_read_is_said_and_stops_nothing(ask: Any, tmp_path: Path, content: str) -> None:
    (tmp_path / "base.yaml").write_text(content)
    result = ask(stream(), "--base", str(tmp_path / "base.yaml"))
    assert result.exit_code == 0 and "unknown: the base branch's stack file" in result.stdout


def test_a_cluster_s_own_stack_has_a_cost_and_no_tiers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Any
) -> None:
    monkeypatch.setattr(pull_request, "PROJECT_FOLDER", tmp_path)
    content = yaml.safe_load((ROOT / "stacks/Pulumi.dev.yaml").read_text())
    platform = content["config"]["splitserve:platform"] | {"layers": "cluster"}
    platform["aws"]["nodeGroups"] = {"system": platform["aws"]["nodeGroups"]["system"]}
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks/Pulumi.dev.yaml").write_text(yaml.safe_dump({"config": {"splitserve:platform": platform}}))
    result = ask(stream())
    assert result.exit_code == 0 and "A cluster that other stacks serve on." in result.stdout, result.output
    assert "**cost**: 0.30 USD an hour" in result.stdout and "prefill" not in result.stdout


def test_a_refused_preview_says_each_reason_once(ask: Any) -> None:
    faults = "splitserve/dev: 1 fault(s), nothing was changed:\n  - AWS credentials: found none, wanted some"
    events = [
        said("error", faults),
        policy("tls", "mandatory", "x\nfound HTTP"),
        policy("keys-rotate", "advisory", "x\nno"),
    ]
    result = ask(stream(*events, end=(FAILED, END)))
    assert result.exit_code == 1 and "## Preview of dev: **refused**" in result.stdout
    assert result.stdout.count("AWS credentials: found none") == 1
    assert (
        "| mandatory | `tls` | found HTTP |" in result.stdout and "| advisory | `keys-rotate` | no |" in result.stdout
    )


def test_policies_that_a_failed_preview_never_came_to_are_not_said_to_hold(ask: Any) -> None:
    text = ask(stream(said("error", "no credentials"), end=(FAILED, END))).stdout
    assert "None was violated before the preview stopped." in text and "All hold" not in text


def test_no_secret_is_in_the_comment(ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULUMI_ACCESS_TOKEN", "pul-0123456789")
    wrapped = {SIGNATURE_KEY: SECRET_SIGNATURE, "plaintext": json.dumps("swordfish-2")}
    events = [
        step("update", old={"outputs": {"password": "hunter2|old"}}, new={"inputs": {"password": SECRET, "key": wrapped}}),
        said("error", "refused for hunter2|old and swordfish-2, token pul-0123456789"),
        said("warning", "is swordfish-2 right?"), policy("p", "mandatory", "x\nfound swordfish-2"),
    ]  # fmt: skip
    result = ask(stream(*events, end=(FAILED, END)))
    assert result.exit_code == 1 and "[secret]" in result.stdout
    for secret in ("hunter2", "swordfish", "0123456789", SIGNATURE_KEY):
        assert secret not in result.output


def test_text_of_others_is_text(ask: Any) -> None:
    found = ask(stream(said("warning", "<!-- splitserve preview: prod --> @everyone `x` | y"))).stdout
    assert found.count("<!--") == 1 and "@everyone" not in found


def test_a_comment_stays_below_what_github_takes(ask: Any) -> None:
    many = [step("delete", name="n" * 200 + str(n)) for n in range(500)] + [
        said("warning", f"{n} " + "w" * 9000) for n in range(5)
    ]
    found = ask(stream(*many)).stdout
    assert "… and 440 more deleted" in found and len(found) < 65536


@pytest.mark.parametrize(
    "events",
    ["", stream(step("create"))[:-200], '{"steps": []}', "\x00\x01", stream(step("create", stack="prod"), end=())],
)
def test_a_preview_that_is_not_whole_makes_no_comment(ask: Any, events: str) -> None:
    result = ask(events)
    assert (result.exit_code, result.stdout) == (2, "") and "make it with:" in result.stderr
    assert "Traceback" not in result.output


def test_a_preview_of_another_stack_makes_no_comment(ask: Any) -> None:
    result = ask(stream(), stack="prod")
    assert (result.exit_code, result.stdout) == (2, "") and "is of stack dev, wanted prod's" in result.stderr


def test_a_deleted_stack_file_makes_no_comment(ask: Any) -> None:
    result = ask("", stack="gone")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "pulumi destroy --stack gone" in result.stderr and "restore the file" in result.stderr
