"""What a preview of each platform's example shows: the plan, its warnings, and what would be made."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.aws_sim import install_plugins
from tools.awsim.running import AwsStandIn
from tools.cache import CHECKOUT
from tools.deployment import Deployment, Finished

Show = Callable[..., Finished]


def shown(deployment: Deployment, folder: Path) -> Show:
    """A `pulumi` command on a copy of an example's stack file, with keys replaced."""

    def show(command: str, example: str, **keys: Any) -> Finished:
        copy = folder / f"Pulumi.{example}.yaml"
        shutil.copy(CHECKOUT / f"stacks/Pulumi.{example}.yaml", copy)
        content = yaml.safe_load(copy.read_text())
        content["config"] |= {f"splitserve:{key}": value for key, value in keys.items()}
        copy.write_text(yaml.safe_dump(content))
        return deployment.run(*command.split(), "--config-file", str(copy))

    return show


@pytest.fixture
def show(deployment: Deployment, tmp_path: Path) -> Show:
    return shown(deployment, tmp_path)


@pytest.fixture
def show_on_aws(deployment: Deployment, tmp_path: Path) -> Iterator[Show]:
    """The same stack with AWS's stand-in behind it."""
    home = tmp_path / "pulumi"
    install_plugins(home)
    with AwsStandIn() as aws:
        environment = {**deployment.environment, **aws.environment(), "PULUMI_HOME": str(home)}
        yield shown(replace(deployment, environment=environment), tmp_path)


@pytest.mark.parametrize(
    ("example", "words"),
    [
        ("prod", ["p5.48xlarge", "2,684.4 MB for the gate's 8,192 tokens", "110.58 USD an hour", "split: collocated",
                  "aws:lb:LoadBalancer"]),
        ("dev", ["g6e.24xlarge", "51 ms aged expected over efa g6e.24xlarge, limit 100 ms"]),
    ],
)  # fmt: skip
def test_a_preview_of_aws_shows_the_plan_and_the_platform(show_on_aws: Show, example: str, words: list[str]) -> None:
    finished = show_on_aws("preview", example)
    assert finished.code == 0, finished.text
    platform = ["aws:eks:Cluster", "aws:ec2:LaunchTemplate", "aws:eks:NodeGroup", "SecurityGroupEgressRule", "KvGate"]
    for word in [*words, *platform]:
        assert word in finished.text, finished.text


def test_without_credentials_a_stack_on_aws_says_so_and_creates_nothing(show: Show) -> None:
    finished = show("up --yes --skip-preview", "prod")
    assert finished.code == 1
    assert "nothing was changed" in finished.text
    assert "Traceback" not in finished.text


def test_a_plan_that_can_not_work_is_refused_with_its_figures(show: Show) -> None:
    platform = {
        "kind": "aws",
        "aws": {"region": "us-east-1", "zone": "us-east-1a",
                "nodeGroups": {tier: {"instance": "p4d.24xlarge"} for tier in ("prefill", "decode")}},
    }  # fmt: skip
    engine = {"parallel": {"tensor": 4}, "loadLimitS": 900,
              "resources": {"extended": {"nvidia.com/gpu": 4, "vpc.amazonaws.com/efa": 2}}}  # fmt: skip
    finished = show("preview", "prod", platform=platform, engine=engine)
    assert finished.code == 1
    assert "8,192 tokens are 2,684 MB, 671 MB a rank over 6.25 GB/s" in finished.text
    assert "transfer-in-limit" in finished.text


def test_a_warning_is_shown_and_does_not_stop(show_on_aws: Show) -> None:
    engine = {"blockSize": 16, "maxModelLen": 32768, "parallel": {"tensor": 8}, "loadLimitS": 900, "sseKeepAliveS": 15,
              "resources": {"extended": {"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 32}}}  # fmt: skip
    finished = show_on_aws("preview", "prod", engine=engine)
    assert finished.code == 0, finished.text
    assert "147 ms with an aged cache" in finished.text and "set engine.blockSize: 128" in finished.text


def test_a_preview_of_an_engine_over_two_nodes_shows_its_group_and_who_makes_it(show_on_aws: Show) -> None:
    content = yaml.safe_load((CHECKOUT / "stacks/Pulumi.prod.yaml").read_text())["config"]
    platform = content["splitserve:platform"]
    platform["aws"]["nodeGroups"]["prefill"] |= {"nodes": 2, "maxNodes": 2}
    prefill = {"engine": {"parallel": {"tensor": 8, "pipeline": 2, "nodes": 2}}}
    finished = show_on_aws("preview", "prod", platform=platform, prefill=prefill)
    assert finished.code == 0, finished.text
    kinds = ["leaderworkerset.x-k8s.io/v1:LeaderWorkerSet ", "leaderworkerset.x-k8s.io/v1:LeaderWorkerSetPatch",
             "nodes:LeaderWorkerSetController", "apiextensions.k8s.io/v1:CustomResourceDefinition"]  # fmt: skip
    for word in ["TP 8, PP 2, DP 1, over 2 nodes", *kinds]:
        assert word in finished.text, finished.text
