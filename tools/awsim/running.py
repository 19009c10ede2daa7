"""Run the AWS stand-in from tests and tools: a server of one's own, and the plugin where the engine looks."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self
from urllib.request import Request, urlopen

import boto3
from botocore.config import Config

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parents[1]
PLUGIN = HERE / "plugin" / "pulumi-resource-aws"
ACCESS_KEY, SECRET_KEY = "test", "test"


def install_plugin(pulumi_home: Path) -> Path:
    """Put the stand-in provider where the engine looks for `aws` of the SDK's version, without a warning.

    A plugin that is there already and is not ours is the user's own, and is left alone: an error.
    """
    target = pulumi_home / "plugins" / f"resource-aws-v{version('pulumi-aws')}" / PLUGIN.name
    if target.exists() and target.resolve() != PLUGIN:
        raise FileExistsError(f"{target} is a real provider; the stand-in needs a PULUMI_HOME of its own")
    if not target.is_symlink():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(PLUGIN)
    return target


def remove_plugin(pulumi_home: Path) -> None:
    """Take the stand-in provider away again."""
    target = pulumi_home / "plugins" / f"resource-aws-v{version('pulumi-aws')}" / PLUGIN.name
    if target.is_symlink() and target.resolve() == PLUGIN:
        target.unlink()
        target.parent.rmdir()


class AwsStandIn:
    """A running stand-in: `with AwsStandIn() as aws: …`. Ends the process that it started."""

    def __init__(self, *, region: str = "us-east-1", kubeconfig: Path | None = None, webhook: str = "",
                 port: int = 0, settle_s: float | None = None) -> None:  # fmt: skip
        """`settle_s`: how long things of EKS are CREATING, UPDATING or DELETING, for who must meet them so."""
        self.region = region
        self._settings = {} if settle_s is None else {"AWSIM_SETTLE_S": str(settle_s)}
        self.url = ""
        self._options = [f"--port={port}"]
        if kubeconfig:
            self._options.append(f"--kubeconfig={kubeconfig}")
        if webhook:
            self._options.append(f"--webhook={webhook}")
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "tools.awsim.server", *self._options]
        self._process = subprocess.Popen(
            command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True, env=os.environ | self._settings
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the AWS stand-in did not start: exit code {self._process.wait()}")
        self.url = json.loads(line)["url"]
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def environment(self) -> dict[str, str]:
        """What makes boto3, the AWS command line and the stand-in provider talk to this server.

        The plugin itself is found in PULUMI_HOME (`install_plugin`).
        """
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "PULUMI_PYTHON_CMD": sys.executable,
        }

    def faults(self, rules: Sequence[dict[str, Any]]) -> None:
        """Set the rules by which calls fail (fault_rules.py); an empty list ends all of them."""
        self._control("faults", list(rules))

    @contextlib.contextmanager
    def failing(self, *rules: dict[str, Any]) -> Iterator[None]:
        """Faults for a while."""
        self.faults(rules)
        try:
            yield
        finally:
            self.faults([])

    def calls(self) -> dict[str, int]:
        """How often each call came: {"ec2:CreateVpc": 1}."""
        return {f"{call['service']}:{call['action']}": call["count"] for call in self._control("calls")}

    def leftovers(self) -> list[str]:
        """Everything that exists beyond a new account: `service:kind:id`, sorted."""
        return self._control("leftovers")

    def reset(self) -> None:
        self._control("reset", {})

    def client(self, service: Any) -> Any:
        """A boto3 client of this server."""
        return boto3.client(
            service, endpoint_url=self.url, region_name=self.region, aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY, config=Config(retries={"mode": "standard", "total_max_attempts": 1}),
        )  # fmt: skip

    def _control(self, name: str, content: Any = None) -> Any:
        data = None if content is None else json.dumps(content).encode()
        with urlopen(Request(f"{self.url}/_awsim/{name}", data=data), timeout=60) as answer:
            return json.loads(answer.read())
