"""Commands of the pages are run, or proved by a test that is named; figures that are shown are those that come out."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from infra.cli import app
from infra.report import refusal
from tests.unit.documented import PROOFS, ByTest, Needs, Run, StandIn, is_planning, proof_of
from tests.unit.documents import commands, fences, pages, shell_lines
from tests.unit.plans import ROOT, changed, errors, make_plan, stack_values

GUIDES = ("README.md", "docs/tutorial.md")
LINES = [(page, line) for page in GUIDES for line in shell_lines(page)]
PLANS = sorted({line for page in pages() for line in shell_lines(page) if is_planning(line)})
ANSWER = "hello from the stand-in"
ONCE = {"model": "tiny-qwen3", "contract": 1, "live": "r1", "verdict": "pass", "lastUpdate": {"cause": "fast"},
        "ledger": {"version": 1}, "gate": {"verdict": {"kv_transfer_ms": 30.6, "kv_transfer_aged_ms": 52.9}}}  # fmt: skip


@pytest.mark.parametrize(("page", "line"), LINES)
def test_every_command_of_the_guides_has_a_proof(page: str, line: str) -> None:
    proof = proof_of(line)
    assert proof is not None, f"{page}: `{line}`: say in tests/unit/documented.py which test runs it, or what it needs"
    if isinstance(proof, ByTest):
        assert proof.holds in _source(proof.name), f"{proof.name} holds no {proof.holds!r}"
    if isinstance(proof, Needs):
        assert proof.what


def test_no_proof_is_of_a_command_that_is_gone() -> None:
    lines = [line for _, line in LINES]
    assert [key for key in PROOFS if not any(line == key or line.startswith(f"{key} ") for line in lines)] == []


def test_a_proof_that_is_gone_would_be_found() -> None:
    with pytest.raises(AssertionError):
        _source("tests/cluster/test_releases.py::test_that_is_not_there")
    assert proof_of("make no-such-thing") is None and proof_of("splitserve bench --stack local") is None


def _source(name: str) -> str:
    """The text of a function with its decorators, or of a whole file."""
    file, _, function = name.partition("::")
    text = (ROOT / file).read_text()
    if not function:
        return text
    found = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef) and node.name == function]
    assert found, f"{file} has no {function}"
    first = min([found[0].lineno, *(decorator.lineno for decorator in found[0].decorator_list)])
    return "\n".join(text.splitlines()[first - 1 : found[0].end_lineno])


@pytest.mark.parametrize("line", PLANS)
def test_a_command_that_needs_nothing_is_run(line: str) -> None:
    proof, words = proof_of(line), next(commands(line))
    done = CliRunner().invoke(app, words[1:])
    assert isinstance(proof, Run) and done.exit_code == proof.code, done.output
    assert done.stdout.strip()


def test_shown_output_is_what_comes_out() -> None:
    """A `text` block shows lines of the command in the `sh` block before it, others left out."""
    shown = 0
    for page in pages():
        blocks = fences(page)
        for before, after in pairwise(blocks):
            if before.language != "sh" or after.language != "text":
                continue
            line = " ".join(before.content.strip().splitlines()[-1].split("#")[0].split())
            printed = CliRunner().invoke(app, next(commands(line))[1:]).stdout
            assert set(_squeezed(after.content)) <= set(_squeezed(printed)), f"{page}: {line}\n{printed}"
            shown += 1
    assert shown


def _squeezed(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_the_figure_beside_a_command_is_what_comes_out() -> None:
    [figure] = re.findall(r"p4d\.24xlarge --prompt-tokens 8192 +# (\d+) ms", (ROOT / "README.md").read_text())
    asked = ["expect", "--model", "llama-3.1-70b", "--instance", "p4d.24xlarge", "--prompt-tokens", "8192", "--json"]
    assert round(json.loads(CliRunner().invoke(app, asked).stdout)["aged_ms"]) == int(figure)


def test_readme_states_what_stacks_cost() -> None:
    stated = dict(re.findall(r"^\| `(dev|prod)` \|.*\| ([\d.]+) \|$", (ROOT / "README.md").read_text(), re.MULTILINE))
    assert set(stated) == {"dev", "prod"}
    for stack, figure in stated.items():
        printed = CliRunner().invoke(app, ["report", "--stack", stack]).stdout
        assert f"cost         {figure} USD an hour" in printed
        assert "table of 2026-07-20" in printed


def test_what_readme_calls_validated_names_its_test_or_measurement() -> None:
    table = (ROOT / "README.md").read_text().split("## What works")[1].split("## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("|")][2:]
    for row in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)`|\((docs/measurements/[\w-]+\.md)\)", row)
        assert named or "not validated" in row, row
        assert all((ROOT / (test or measured)).exists() for test, measured in named), row
    assert len(rows) > 4


class Endpoint(BaseHTTPRequestHandler):
    """Answers one chat completion as OpenAI's API does."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        known = self.path == "/v1/chat/completions" and asked["model"] == "tiny-qwen3" and asked["messages"]
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": ANSWER}}
        body = {"id": "1", "object": "chat.completion", "created": 0, "model": asked["model"], "choices": [choice]}
        text = json.dumps(body).encode()
        self.send_response(200 if known else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[dict[str, str]]:
    """An environment with a `pulumi` that knows the outputs of a stack `local`, whose endpoint answers."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    outputs = {**ONCE, "endpoint": f"http://127.0.0.1:{server.server_port}"}
    program = tmp_path / "pulumi"
    program.write_text(f"#!{sys.executable}\n{FAKE_PULUMI.replace('OUTPUTS', repr(outputs))}")
    program.chmod(0o755)
    (tmp_path / "splitserve").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m infra.cli "$@"\n')
    (tmp_path / "splitserve").chmod(0o755)
    yield {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    server.shutdown()
    thread.join()
    server.server_close()


FAKE_PULUMI = """import json, sys
outputs, words = OUTPUTS, sys.argv[1:]
assert words[:2] == ["stack", "output"] and words[words.index("--stack") + 1] == "local", words
names = [word for word in words[2:] if not word.startswith("-") and word != "local"]
found = outputs[names[0]] if names else outputs
print(json.dumps(found) if "--json" in words else found)
"""


def _sh(script: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)


@pytest.mark.skipif(not shutil.which("curl"), reason="no curl")
def test_a_stack_answers_the_tutorial_s_questions(shell: dict[str, str]) -> None:
    lines = [line for page, line in LINES if page == "docs/tutorial.md" and isinstance(proof_of(line), StandIn)]
    done = _sh("set -e\n" + "\n".join(lines), shell)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(ANSWER) == 2, "of `splitserve ask` and of curl"
    status = json.loads(done.stdout.splitlines()[0])
    assert (status["live"], status["kv_transfer_aged_ms"]) == ("r1", 52.9)
    assert '{"cause": "fast"}' in done.stdout and '{"version": 1}' in done.stdout


def test_the_tutorial_s_client_is_answered(shell: dict[str, str]) -> None:
    [program] = [fence.content for fence in fences("docs/tutorial.md") if fence.language == "python"]
    done = subprocess.run([sys.executable, "-c", program], env=shell, capture_output=True, text=True, timeout=120)
    assert (done.stdout.strip(), done.returncode) == (ANSWER, 0), done.stderr


def test_the_tutorial_s_change_is_a_plan_without_a_fault() -> None:
    change, broken = [yaml.safe_load(f.content) for f in fences("docs/tutorial.md") if f.language == "yaml"]
    engine: dict[str, Any] = change["splitserve:engine"]
    local = stack_values("local")
    cache = local["engine"]["blockSize"] * local["engine"]["gpuBlocks"]
    assert (
        engine["blockSize"] * engine["gpuBlocks"] == cache and engine["blockSize"] == 2 * local["engine"]["blockSize"]
    )
    changes = [(f"engine.{key}", value) for key, value in engine.items()]
    assert errors(make_plan(changed(local, *changes), "qwen3-0.6b")) == []
    breaking = ("decode.extraArgs", broken["splitserve:decode"]["extraArgs"])
    assert errors(make_plan(changed(local, *changes, breaking), "qwen3-0.6b")) == [], "the gate finds it, not the plan"


def test_the_tutorial_s_refusal_has_the_form_of_the_real_one() -> None:
    """`…` stands for what differs from run to run."""
    [shown] = [fence.content for fence in fences("docs/tutorial.md") if fence.content.startswith("local: release")]
    clue = {"where": "decode-1", "count": 1, "line": "…", "means": "this engine was asked for a KV transfer and runs "
            "without a connector: it computes every prompt itself", "fix": "…"}  # fmt: skip
    verdict = {
        "outcome": "fail", "cause": "never-disaggregated", "clues": [clue],
        "message": "p -> d: 5 of 5 requests were answered with 200 OK but moved 0 bytes of KV cache; the decoder",
        "fix": "give both tiers the connector: look for an argument or an admission webhook that overrides "
        "`--kv-transfer-config` on the decode tier",
    }  # fmt: skip
    real = refusal("local", "0123456789", "", verdict, "abcdef", "http://x").splitlines()
    assert len(shown.splitlines()) == len(real)
    for pattern, line in zip(shown.splitlines(), real, strict=True):
        assert re.fullmatch(".*".join(map(re.escape, pattern.split("…"))), line), (pattern, line)
