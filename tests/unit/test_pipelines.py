"""The pipelines' files: what may reach credentials, what is pinned; and the scripts that they call."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
import yaml

from infra.versions import PULUMI
from tests.unit.plans import ROOT

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yaml"))
FILES = [*WORKFLOWS, *(ROOT / ".github/actions").glob("*/action.yaml")]
FROM_HERE = "github.event.pull_request.head.repo.full_name == github.repository"


def workflow(path: Path) -> dict[str, Any]:
    return yaml.load(path.read_text(), Loader=yaml.BaseLoader)  # `on` stays a word


def jobs() -> list[tuple[str, dict[str, Any]]]:
    return [(f"{path.stem}: {name}", job) for path in WORKFLOWS for name, job in workflow(path)["jobs"].items()]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name + "/" + path.name)
def test_actions_are_pinned_by_digest_with_their_version_beside(path: Path) -> None:
    used = re.findall(r"uses: *(\S+)(.*)", path.read_text())
    for name, comment in used:
        if not name.startswith("./"):
            assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", name), name
            assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment), name


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_has_no_rights_by_itself_and_runs_no_fork_with_ours(path: Path) -> None:
    content = workflow(path)
    assert content["permissions"] == {}
    assert "pull_request_target" not in content["on"] and "workflow_run" not in content["on"]
    assert all(job.get("permissions") for job in content["jobs"].values())
    assert not re.search(r"run:[^\n]*\$\{\{", path.read_text()), "an expression in a script is code of whoever set it"


def test_credentials_are_for_requests_from_this_repository_and_for_environments() -> None:
    for name, job in jobs():
        if "uses" in job or job["permissions"].get("id-token") != "write":
            continue
        assert FROM_HERE in job.get("if", "") or "environment" in job, name


def test_no_job_has_both_credentials_and_the_right_to_comment() -> None:
    for name, job in jobs():
        rights = job["permissions"]
        assert not {"id-token", "pull-requests"} <= set(rights), name
        if "pull-requests" in rights:
            assert job["steps"][0]["with"]["ref"] == "${{ github.event.pull_request.base.sha }}", name


def test_an_update_is_queued_by_its_stack_and_never_cancelled() -> None:
    job = workflow(ROOT / ".github/workflows/deploy-stack.yaml")["jobs"]["deploy"]
    assert job["concurrency"] == {"group": "deploy-${{ inputs.stack }}", "cancel-in-progress": "false"}
    assert job["environment"] == "${{ inputs.stack }}"


def test_the_pipelines_pulumi_is_the_project_s() -> None:
    assert f"pulumi-version: {PULUMI}" in (ROOT / ".github/actions/setup/action.yaml").read_text()
    assert f"pulumi-python:{PULUMI}" in (ROOT / "examples/gitlab/.gitlab-ci.yml").read_text()


def test_the_gitlab_pipeline_s_scripts_are_shell_and_no_fork_reaches_them() -> None:
    content = yaml.safe_load((ROOT / "examples/gitlab/.gitlab-ci.yml").read_text())
    assert "$CI_MERGE_REQUEST_SOURCE_PROJECT_ID == $CI_PROJECT_ID" in content["workflow"]["rules"][0]["if"]
    for job in ("preview", "comment"):
        text = "\n".join(content[job]["script"])
        assert subprocess.run(["sh", "-n"], input=text, text=True, capture_output=True).returncode == 0, text


def script(name: str, *arguments: str, path: Path, **environment: str) -> Any:
    """Run a script of .ci with `path` before PATH."""
    inherited = {key: value for key, value in os.environ.items() if key != "GITHUB_STEP_SUMMARY"}
    found = {**inherited, "PATH": f"{path}:{os.environ['PATH']}", **environment}
    return subprocess.run([ROOT / ".ci" / name, *arguments], env=found, capture_output=True, text=True, timeout=60)


def program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("code", "printed", "words"),
    [
        (0, "Updating\nDiagnostics:\n  KV transfer, limit 200 ms: pass\n", "## dev: deployed"),
        (1, "Updating\nDiagnostics:\n  KV transfer, limit 200 ms: fail\n", "## dev: not deployed, exit code 1"),
        (6, "error: no stack named 'dev' found\n", "error: no stack named 'dev' found"),
    ],
)
def test_a_deployment_keeps_its_exit_code_and_sums_up(tmp_path: Path, code: int, printed: str, words: str) -> None:
    program(tmp_path / "pulumi", f"#!/bin/sh\nprintf '%s' \"$PRINTED\"\nexit {code}\n")
    summary = tmp_path / "summary.md"
    done = script("deploy", "dev", path=tmp_path, PRINTED=printed, GITHUB_STEP_SUMMARY=str(summary))
    assert (done.returncode, done.stdout) == (code, printed)
    assert words in summary.read_text() and "Updating" not in summary.read_text()
    assert ("KV transfer, limit" in summary.read_text()) == ("KV transfer" in printed)


@pytest.mark.parametrize(
    ("known", "call"), [("", "POST repos/o/r/issues/7/comments"), ("42", "PATCH repos/o/r/issues/comments/42")]
)
def test_github_s_comment_is_made_once_and_then_written_over(tmp_path: Path, known: str, call: str) -> None:
    gh = '#!/bin/sh\ncase "$*" in *--paginate*) echo "$MARKER" >>"$LOG"; printf %s "$KNOWN";; *) echo "$*" >>"$LOG";; esac\n'
    program(tmp_path / "gh", gh)
    comment, log = tmp_path / "comment.md", tmp_path / "log"
    comment.write_text("<!-- splitserve preview: dev -->\n\ntext\n")
    done = script(
        "comment-github", str(comment), path=tmp_path, REPOSITORY="o/r", NUMBER="7", KNOWN=known, LOG=str(log)
    )
    assert done.returncode == 0, done.stderr
    marker, made = log.read_text().splitlines()
    assert marker == "<!-- splitserve preview: dev -->" and f"{call} -F body=@{comment}" in made


class GitLab(BaseHTTPRequestHandler):
    """Notes of one merge request, two of others' and maybe one of our own on the second page."""

    notes: list[dict[str, Any]] = []
    calls: list[tuple[str, str, str]] = []

    def do_GET(self) -> None:
        assert self.headers["PRIVATE-TOKEN"] == "token"
        page = 0 if "&page=1" in self.path else 1
        self._answer({"id": 5} if self.path.endswith("/user") else self.notes[page * 2 : page * 2 + 2])

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.calls.append((self.command, self.path, parse_qs(body)["body"][0]))
        self._answer({})

    do_PUT = do_POST

    def _answer(self, content: Any) -> None:
        data = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def gitlab() -> Iterator[str]:
    GitLab.calls = []
    server = HTTPServer(("127.0.0.1", 0), GitLab)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("own", "call"),
    [(False, ("POST", "/projects/1/merge_requests/7/notes")), (True, ("PUT", "/projects/1/merge_requests/7/notes/42"))],
)
def test_gitlab_s_note_is_made_once_and_then_written_over(
    tmp_path: Path, gitlab: str, own: bool, call: tuple[str, str]
) -> None:
    text = "<!-- splitserve preview: dev -->\n\na & b\n"
    GitLab.notes = [{"id": 40, "author": {"id": 6}, "body": text}, {"id": 41, "author": {"id": 5}, "body": "other"}]
    GitLab.notes += [{"id": 42, "author": {"id": 5}, "body": text}] if own else []
    (tmp_path / "dev.md").write_text(text)
    variables = {"CI_API_V4_URL": gitlab, "CI_PROJECT_ID": "1", "CI_MERGE_REQUEST_IID": "7", "COMMENT_TOKEN": "token"}
    done = script("comment-gitlab", str(tmp_path / "dev.md"), path=tmp_path, **variables)
    assert done.returncode == 0, done.stderr
    assert GitLab.calls == [(*call, text)]


@pytest.mark.parametrize("name", ["preview", "deploy", "comment-github", "comment-gitlab"])
def test_a_script_without_arguments_says_how_it_is_called(tmp_path: Path, name: str) -> None:
    done = script(name, path=tmp_path)
    assert done.returncode == 2 and "usage:" in done.stderr
