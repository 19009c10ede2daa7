"""Which stacks a change touches."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from infra.cli import app
from infra.commands import pull_request
from infra.touched import touched

STACKS = {"dev": {"config": {"a": "models/dev.json"}}, "prod": {"config": {"a": ["./chat", 1, None]}}}


@pytest.mark.parametrize(
    ("path", "changed"),
    [
        ("stacks/Pulumi.dev.yaml", ("dev",)),
        ("stacks/Pulumi.my.dev.yaml", ()),
        ("models/dev.json", ("dev",)),
        ("chat/template.jinja", ("prod",)),
        ("infra/plan.py", ("dev", "prod")),
        ("components/hardware/prices.json", ("dev", "prod")),
        ("policies/cost.py", ("dev", "prod")),
        ("uv.lock", ("dev", "prod")),
        ("Pulumi.yaml", ("dev", "prod")),
        ("docs/reference/rules.md", ()),
        ("tests/unit/plans.py", ()),
        ("stacks/schema.json", ()),
        ("README.md", ()),
    ],
)
def test_a_path_touches(path: str, changed: tuple[str, ...]) -> None:
    assert touched([path], STACKS, STACKS).changed == changed


def test_a_deleted_file_s_stack_is_deleted_and_not_changed() -> None:
    found = touched(["stacks/Pulumi.old.yaml", "stacks/Pulumi.new.yaml"], {**STACKS, "new": {}}, [*STACKS, "old"])
    assert (found.changed, found.deleted) == (("new",), ("old",))


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A clone with dev and prod on main, and a branch; commits what a test changes."""
    monkeypatch.setattr(pull_request, "PROJECT_FOLDER", tmp_path)

    def git(*arguments: str) -> None:
        subprocess.run(
            ["git", "-C", tmp_path, "-c", "user.name=t", "-c", "user.email=t@example.com", *arguments],
            check=True,
            capture_output=True,
        )

    def commit(**files: str | None) -> None:
        for name, text in files.items():
            path = tmp_path / f"stacks/Pulumi.{name}.yaml"
            path.parent.mkdir(exist_ok=True)
            path.unlink(missing_ok=True)
            if text is not None:
                path.write_text(text)
        git("add", "--all")
        git("commit", "--quiet", "--message", "change")

    git("init", "--quiet", "--initial-branch", "main")
    commit(dev="config: {}", prod="config: {}")
    git("checkout", "--quiet", "-b", "change")
    return commit


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["touched", *arguments])


def test_the_command_prints_a_stack_a_line_or_one_object(repository: Any) -> None:
    repository(dev="config: {a: 1}", prod="config: [")
    assert run("--base", "main").stdout == "dev\nprod\n"
    assert run("--base", "main", "prod", "staging").stdout == "prod\n"
    assert run("--base", "main", "--json", "dev").stdout == '{"changed": ["dev"], "deleted": []}\n'


def test_the_command_says_what_becomes_of_a_deleted_stack(repository: Any) -> None:
    repository(dev=None)
    result = run("--base", "main", "--json")
    assert (result.exit_code, result.stdout) == (0, '{"changed": [], "deleted": ["dev"]}\n')
    assert "warning: dev: stacks/Pulumi.dev.yaml is deleted" in result.stderr and "pulumi destroy" in result.stderr


def test_a_base_that_is_not_there_gets_one_message(repository: Any) -> None:
    result = run("--base", "origin/nowhere")
    assert result.exit_code == 2 and "fetch-depth: 0" in result.stderr and "Traceback" not in result.output
