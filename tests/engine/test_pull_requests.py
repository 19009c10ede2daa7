"""From a branch of a bare repository to the comment on its pull request: the steps of the preview workflow.

A clone as CI makes it, `splitserve touched`, and `.ci/preview` with the real engine and policies, AWS's stand-in behind.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.aws_sim import install_plugins
from tools.awsim.running import AwsStandIn
from tools.cache import CHECKOUT, cache
from tools.local import full_environment
from tools.own_engine import backend_url

DEV = "stacks/Pulumi.dev.yaml"
NETWORK = ("AwsCluster::*", "Network::*", "aws:ec2/vpc:Vpc::*")
"""What is deployed first, for a change to replace: the VPC and the components that it is part of."""
Change = Callable[[dict[str, Any]], None]


@dataclass
class Request:
    """A pull request's clone, the environment of its pipeline, and the comment that was made last."""

    folder: Path
    environment: dict[str, str]
    comment: str = field(default="", init=False)

    def run(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=self.folder, env=self.environment, text=True, capture_output=True)

    def git(self, *arguments: str) -> None:
        done = self.run("git", "-c", "user.name=test", "-c", "user.email=test@example.com", *arguments)
        assert done.returncode == 0, done.stderr

    def change(self, change: Change) -> None:
        """Commit a changed stack file to a branch, push it, and check it out as a pipeline does."""
        path = self.folder / DEV
        content = yaml.safe_load(path.read_text())
        change(content["config"])
        path.write_text(yaml.safe_dump(content))
        self.push()

    def push(self) -> None:
        self.git("checkout", "--quiet", "-b", "change")
        self.git("commit", "--quiet", "--all", "--message", "change")
        self.git("push", "--quiet", "origin", "change")
        self.git("checkout", "--quiet", "--detach", "origin/change")

    def touched(self) -> list[str]:
        done = self.run(".venv/bin/python", "-m", "infra.cli", "touched", "--base", "origin/main", "dev", "prod")
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    def preview(self, stack: str = "dev") -> subprocess.CompletedProcess[str]:
        path = self.folder / "comment.md"
        path.unlink(missing_ok=True)
        done = self.run(".ci/preview", stack, "origin/main", path.name)
        self.comment = path.read_text() if path.exists() else ""
        assert "Traceback" not in done.stdout + done.stderr, done.stderr
        return done


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bare repository whose main branch is this checkout, committed or not."""
    source, repository = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("bare")
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    paths = subprocess.run(listed, cwd=CHECKOUT, check=True, capture_output=True, text=True).stdout.split("\0")
    for path in filter(None, paths):
        if (CHECKOUT / path).is_file():
            (source / path).parent.mkdir(parents=True, exist_ok=True)
            (source / path).write_bytes((CHECKOUT / path).read_bytes())
            (source / path).chmod((CHECKOUT / path).stat().st_mode)
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.com"]
    for arguments in (
        ["init", "--quiet", "--initial-branch", "main"],
        ["add", "--all"],
        [*identity, "commit", "--quiet", "-m", "base"],
    ):
        subprocess.run(["git", *arguments], cwd=source, check=True)
    subprocess.run(["git", "clone", "--quiet", "--bare", source, repository], check=True)
    return repository


@pytest.fixture
def request_of(bare: Path, tmp_path: Path) -> Iterator[Request]:
    """A clone of the repository, and an environment with AWS's stand-in and a backend of the test's own."""
    home, state, clone, origin = (tmp_path / name for name in ("pulumi", "state", "clone", "origin.git"))
    state.mkdir()
    install_plugins(home)
    subprocess.run(["git", "clone", "--quiet", "--bare", bare, origin], check=True)
    subprocess.run(["git", "clone", "--quiet", origin, clone], check=True)
    (clone / ".venv").symlink_to(CHECKOUT / ".venv")
    with (clone / ".git/info/exclude").open("a") as file:
        file.write("/.venv\n")
    with AwsStandIn() as aws:
        environment = {
            **os.environ, **full_environment(cache()), **aws.environment(), "PULUMI_HOME": str(home),
            "PULUMI_BACKEND_URL": backend_url(state),
            # The environment's packages are another checkout's; the program is the clone's.
            "PYTHONPATH": str(clone),
        }  # fmt: skip
        made = Request(clone, environment)
        done = made.run("pulumi", "stack", "init", "dev", "--non-interactive", "--no-select")
        assert done.returncode == 0, done.stderr
        made.git("checkout", "--quiet", "--", "stacks")
        yield made


def test_a_harmless_change_is_previewed_with_its_plan_and_cost_and_without_a_secret(request_of: Request) -> None:
    secret = ["pulumi", "config", "set", "--secret", "splitserve:note", "swordfish-note", "--stack", "dev"]
    done = request_of.run(*secret, "--non-interactive")
    assert done.returncode == 0 and "secure:" in (request_of.folder / DEV).read_text(), done.stderr
    request_of.change(lambda config: config["splitserve:gate"].update(samples=7))
    assert request_of.touched() == ["dev"]
    done = request_of.preview()
    assert done.returncode == 0, done.stderr + request_of.comment
    assert request_of.comment.startswith("<!-- splitserve preview: dev -->\n\n## Preview of dev: ")
    for words in ("created", "51 ms aged expected over efa g6e.24xlarge, limit 100 ms", "All hold.",
                  "cost against the base branch**: none (30.43 USD an hour)"):  # fmt: skip
        assert words in request_of.comment, request_of.comment
    for word in ("refused", "replaced", "swordfish"):
        assert word not in request_of.comment, request_of.comment


def test_a_replacement_is_shown_openly_with_what_forces_it(request_of: Request) -> None:
    targets = [part for name in NETWORK for part in ("--target", f"**{name}")]
    # It ends with an error for what lies outside the targets, when they are there.
    request_of.run("pulumi", "up", "--stack", "dev", "--yes", "--skip-preview", "--non-interactive", *targets)
    assert "ec2/vpc:Vpc" in request_of.run("pulumi", "stack", "export", "--stack", "dev").stdout
    request_of.git("checkout", "--quiet", "--", "stacks")
    request_of.change(lambda config: config["splitserve:platform"]["aws"].update(network={"cidr": "10.9.0.0/16"}))
    done = request_of.preview()
    assert done.returncode == 0, done.stderr + request_of.comment
    assert "## Preview of dev: 1 replaced, " in request_of.comment
    assert "**1 replaced**: what runs there now goes away." in request_of.comment.split("<details>")[0]
    assert "`aws:ec2/vpc:Vpc` | cidrBlock |" in request_of.comment.split("<details>")[0]


def test_a_plan_over_the_limit_is_refused_with_its_figures(request_of: Request) -> None:
    request_of.change(lambda config: config["splitserve:gate"].update(promptTokens=12288))
    done = request_of.preview()
    assert done.returncode == 1, done.stderr + request_of.comment
    for words in ("## Preview of dev: **refused**", "130 ms fresh", "over the limit", "transfer-in-limit",
                  "KV transfer against the base branch**: 51 ms to ", "None was looked at"):  # fmt: skip
        assert words in request_of.comment, request_of.comment


def test_a_violated_policy_is_named_with_what_it_found_and_the_cost_of_the_change(request_of: Request) -> None:
    def change(config: dict[str, Any]) -> None:
        config["splitserve:platform"]["aws"]["nodeGroups"]["decode"] |= {"nodes": 2, "maxNodes": 100}

    request_of.change(change)
    done = request_of.preview()
    assert done.returncode == 1, done.stderr + request_of.comment
    for words in ("## Preview of dev: **refused**", "| mandatory | `gpu-group-has-maximum` |", "found scalingConfig.maxSize 100",
                  "| advisory | `gpu-ceiling` |", "cost against the base branch**: +15.07 USD an hour"):  # fmt: skip
        assert words in request_of.comment, request_of.comment


def test_a_deleted_stack_file_and_a_stack_that_was_never_made_get_no_comment(request_of: Request) -> None:
    (request_of.folder / DEV).unlink()
    prod = request_of.folder / "stacks/Pulumi.prod.yaml"
    prod.write_text(prod.read_text() + "# changed\n")
    request_of.push()
    assert request_of.touched() == ["prod"]
    deleted, unknown = request_of.preview("dev"), request_of.preview("prod")
    assert (deleted.returncode, unknown.returncode, request_of.comment) == (2, 2, "")
    assert "pulumi destroy --stack dev" in deleted.stderr and "restore the file" in deleted.stderr
    assert "no stack named 'prod' found" in unknown.stderr and "pulumi stack init" in unknown.stderr


def test_a_preview_without_credentials_says_so_in_the_comment_and_holds_no_secret(request_of: Request) -> None:
    request_of.environment |= {
        "AWS_ACCESS_KEY_ID": "",
        "AWS_SECRET_ACCESS_KEY": "",
        "PULUMI_ACCESS_TOKEN": "pul-0123456789",
    }
    request_of.change(lambda config: config.update({"splitserve:note": "pul-0123456789"}))
    done = request_of.preview()
    assert done.returncode == 1 and "found no credentials" in request_of.comment, done.stderr
    assert "pul-0123456789" not in request_of.comment + done.stdout


def test_a_base_that_was_not_fetched_is_named_with_the_way_out(request_of: Request) -> None:
    done = request_of.run(".ci/preview", "dev", "origin/nowhere", "comment.md")
    assert done.returncode == 2 and "fetch origin/nowhere with its history" in done.stderr
