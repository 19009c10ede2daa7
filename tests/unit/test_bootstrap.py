"""A machine that can't run the one-node cluster is told so in one sentence that points to a way out."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.unit.plans import ROOT


@pytest.fixture
def run(tmp_path: Path) -> object:
    """`bootstrap.sh machine` with commands replaced by what they should print; no Go unless given."""

    def run(**answers: str) -> subprocess.CompletedProcess[str]:
        for name, answer in answers.items():
            command = tmp_path / name
            command.write_text(f"#!/bin/sh\n{answer}\n")
            command.chmod(0o755)
        environment = {**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin"}
        script = ROOT / "tools/bootstrap.sh"
        return subprocess.run(["/bin/sh", script, "machine"], capture_output=True, text=True, env=environment)

    return run


LINUX = 'case "$1" in -m) echo x86_64;; *) echo Linux;; esac'
ROOT_USER = 'case "$1" in -u) echo 0;; *) echo root;; esac'


@pytest.mark.parametrize(
    ("answers", "sentence"),
    [
        ({"uname": "echo Darwin"}, "the one-node cluster needs Linux; this is Darwin."),
        (
            {"uname": 'case "$1" in -m) echo aarch64;; *) echo Linux;; esac'},
            "needs an x86-64 machine; this is aarch64.",
        ),
        ({"uname": LINUX, "id": 'case "$1" in -u) echo 1000;; *) echo ada;; esac'}, "needs root"),
        ({"uname": LINUX, "id": ROOT_USER}, "no `go` is on PATH"),
    ],
)
def test_what_is_missing_is_named_with_the_way_out(run: object, answers: dict[str, str], sentence: str) -> None:
    done = run(**answers)  # pyright: ignore[reportCallIssue]
    assert done.returncode == 1
    assert done.stderr.count("error:") == 1 and sentence in done.stderr
    assert "platform.kind: existing" in done.stderr and "docs/how-to/use-your-own-cluster.md" in done.stderr
    assert done.stdout == ""
