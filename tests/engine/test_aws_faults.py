"""The dev stack's platform on AWS's stand-in under faults: throttled, killed, locked out, expired, half made.

Through the real engine, with no cluster behind it. Each test ends with an account as empty as at its start.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from infra.cli import app
from tests.engine.on_stand_in import engine_on
from tools.awsim.running import ACCESS_KEY, AwsStandIn
from tools.cache import CHECKOUT
from tools.deployment import MARK, Finished, Update

PROGRAM = Path(__file__).parent / "programs/platform"
STACK = "faults"
AT_LEAST = 80
"""Resources of the whole platform."""
KILLS = 10
MOST_WRITES = 18
"""Calls that change something until a kill; a full update has 79."""
BY_EKS = ("autoscaling:group", "ec2:instance", "ec2:network-interface", "ec2:volume")
READING = ("Describe", "List", "Get", "Head")


class Platform:
    """A stack of the program, and what its user would run beside `pulumi`."""

    def __init__(self, folder: Path, aws: AwsStandIn, environment: dict[str, str]) -> None:
        self.folder, self.aws, self.environment = folder, aws, environment

    def start(self, *arguments: str, **environment: str) -> Update:
        mark = uuid.uuid4().hex
        process = subprocess.Popen(
            ["pulumi", *arguments, "--non-interactive", "--color=never"], cwd=self.folder, text=True,
            env={**self.environment, **environment, MARK: mark}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        return Update(process, mark)

    def run(self, *arguments: str, **environment: str) -> Finished:
        return finished(self.start(*arguments, **environment))

    def up(self, **environment: str) -> Finished:
        return self.run("up", "--yes", "--skip-preview", "--suppress-progress", **environment)

    def succeed(self, *arguments: str) -> str:
        done = self.run(*arguments)
        assert done.code == 0, done.text
        return done.text

    def converge(self) -> None:
        done = self.up()
        assert done.code == 0, done.text
        assert len(self.state()["resources"]) >= AT_LEAST

    def state(self) -> dict[str, Any]:
        text = self.succeed("stack", "export")
        (self.folder / "state.json").write_text(text)
        return json.loads(text)["deployment"]

    def orphans(self) -> dict[str, Any]:
        """What `splitserve orphans` says; in this process, which saves its start."""
        self.state()
        command = ["orphans", "--stack", STACK, "--state-file", str(self.folder / "state.json"), "--json"]
        done = CliRunner().invoke(app, command)
        found = json.loads(done.output)
        assert done.exit_code == bool(found["orphans"]), done.output
        return found

    def shell(self, command: str) -> None:
        done = subprocess.run(command, shell=True, cwd=self.folder, env=self.environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stdout}"

    def writes(self) -> int:
        calls = self.aws.calls()
        return sum(n for call, n in calls.items() if not call.split(":")[1].startswith(READING))

    def unknown_to_state(self) -> list[str]:
        """What exists and is not in the state, apart from what EKS made. By another way than `orphans`."""
        resources = self.state().get("resources", [])
        outputs = [entry.get("outputs", {}) for entry in resources]
        known = {entry.get("id") for entry in resources}
        known |= {found["vpcConfig"]["clusterSecurityGroupId"] for found in outputs if "clusterSecurityGroupId" in
                  (found.get("vpcConfig") or {})}  # fmt: skip
        left = [line for line in self.aws.leftovers() if not line.startswith(BY_EKS)]
        return [line for line in left if _id(line) not in known]

    def destroy(self) -> None:
        self.succeed("destroy", "--yes", "--skip-preview", "--suppress-progress")
        assert self.aws.leftovers() == []


def _id(line: str) -> str:
    """Pulumi's id of a line of `leftovers`."""
    service, kind, name = line.split(":", 2)
    return name.replace("/", ":") if (service, kind) in (("eks", "addon"), ("eks", "node-group")) else name


def finished(update: Update) -> Finished:
    text = "".join(update.lines())
    return Finished(update.process.wait(), text)


@pytest.fixture(scope="module")
def running() -> Iterator[AwsStandIn]:
    with AwsStandIn() as aws:
        yield aws


@pytest.fixture
def aws(running: AwsStandIn) -> AwsStandIn:
    running.reset()
    return running


@pytest.fixture
def platform(tmp_path: Path, aws: AwsStandIn, monkeypatch: pytest.MonkeyPatch) -> Platform:
    folder = tmp_path / "program"
    environment = engine_on(tmp_path, aws)
    for name, value in aws.environment().items():
        monkeypatch.setenv(name, value)
    shutil.copytree(PROGRAM, folder, ignore=shutil.ignore_patterns("__pycache__"))
    content = yaml.safe_load((CHECKOUT / "stacks/Pulumi.dev.yaml").read_text())
    (folder / f"Pulumi.{STACK}.yaml").write_text(yaml.safe_dump(content))
    made = Platform(folder, aws, environment)
    made.succeed("stack", "init", STACK)
    return made


def test_every_call_throttled_until_it_is_tried_again(platform: Platform, aws: AwsStandIn) -> None:
    """One of two: whoever is answered was throttled just before, and so is the next."""
    with aws.failing({"kind": "throttle", "every": 2}):
        platform.converge()
    again = platform.up()
    assert again.code == 0 and f"{len(platform.state()['resources'])} unchanged" in again.text, again.text
    platform.destroy()


def test_ten_kills(platform: Platform) -> None:
    """SIGKILL to the engine and all it started, at random points of ten updates, each going on where the last
    ended. The documented way back: `pulumi cancel`, `splitserve orphans` and what it prints, `pulumi up`."""
    seed = int(os.environ.get("SPLITSERVE_TEST_SEED") or random.randrange(10**6))
    print(f"SPLITSERVE_TEST_SEED={seed}")
    choose = random.Random(seed)
    kinds: list[str] = []
    for kill in range(KILLS):
        # Some of what was killed is made again, so that ten steps of this size about reach the end.
        if not _killed_after(platform, choose.randint(1, MOST_WRITES), choose.uniform(0, 0.1)):
            assert kill >= KILLS - 2
            break
        kinds += _way_back(platform)
    print(f"orphans: {', '.join(sorted(kinds)) or 'none'}")
    platform.converge()
    assert platform.orphans() == {"region": "us-east-1", "orphans": [], "forget": ""}
    assert platform.unknown_to_state() == []
    platform.destroy()


def _killed_after(platform: Platform, writes: int, delay: float) -> bool:
    """Kill an update after so many calls that change something; whether it still ran."""
    before = platform.writes()
    update = platform.start("up", "--yes", "--skip-preview", "--suppress-progress")
    while platform.writes() - before < writes and update.process.poll() is None:
        time.sleep(0.01)
    time.sleep(delay)
    ran = update.process.poll() is None
    while left := update.left():
        for process in left:
            _kill(process)
        time.sleep(0.01)
    update.process.communicate()
    return ran


def _kill(process: int) -> None:
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return


def _way_back(platform: Platform) -> list[str]:
    """What `splitserve orphans` found, after its commands were carried out."""
    platform.succeed("cancel", "--yes")
    found = platform.orphans()
    for orphan in found["orphans"]:
        for command in orphan["remove"]:
            platform.shell(command)
    if found["forget"]:
        platform.shell(found["forget"])
    assert platform.unknown_to_state() == []
    return [orphan["kind"].rsplit(":", 1)[1] for orphan in found["orphans"]]


def test_two_updates_at_once(platform: Platform) -> None:
    first = platform.start("up", "--yes", "--skip-preview", "--suppress-progress")
    while platform.writes() == 0:
        time.sleep(0.05)
    second = platform.up()
    assert second.code != 0 and "currently locked by 1 lock" in second.text and "pulumi cancel" in second.text
    done = finished(first)
    assert done.code == 0, done.text
    assert platform.unknown_to_state() == []
    platform.destroy()


def test_credentials_expire_midway(platform: Platform, aws: AwsStandIn) -> None:
    """The state keeps what was made, and other credentials go on from there."""
    with aws.failing({"kind": "expired-token", "match": ACCESS_KEY, "after": 90}):
        expired = platform.up()
        assert expired.code != 0 and "The security token included in the request is expired" in expired.text
        assert "Traceback" not in expired.text
        made = len(platform.state()["resources"])
        assert 20 < made < AT_LEAST
        again = platform.up(AWS_ACCESS_KEY_ID="fresh")
        assert again.code == 0 and "created" in again.text, again.text
    assert platform.orphans()["orphans"] == [] and platform.unknown_to_state() == []
    platform.destroy()


HALF_MADE = [
    {"service": "ec2", "action": "CreateVpc", "kind": "partial", "times": 1},
    {"service": "eks", "action": "CreateCluster", "kind": "partial", "times": 1},
    {"service": "elbv2", "action": "CreateTargetGroup", "kind": "timeout", "seconds": 0.5, "times": 1},
    {"service": "logs", "action": "CreateLogGroup", "kind": "server-error", "times": 2},
]


def test_half_made_and_late(platform: Platform, aws: AwsStandIn) -> None:
    """AWS makes a thing and answers 500, or never answers, or makes nothing; a cluster is not ready in time."""
    with aws.failing(*HALF_MADE):
        failed = platform.up(AWSIM_WAIT_S="0.05")
    assert failed.code != 0 and "is CREATING (wanted ACTIVE" in failed.text
    platform.converge()
    # EC2 takes no client token for a VPC: the retry made a second one. EKS's told it that the cluster is there.
    lost = platform.orphans()["orphans"]
    assert [orphan["kind"] for orphan in lost] == ["aws:ec2/vpc:Vpc"]
    for command in lost[0]["remove"]:
        platform.shell(command)
    assert platform.unknown_to_state() == []
    platform.destroy()
