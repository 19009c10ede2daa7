"""The AWS platform without AWS: `make up-aws-sim`, and what its tests drive.

The dev or prod stack through the real Pulumi engine, every AWS resource to the stand-in (tools/awsim),
every Kubernetes object to the local cluster, vLLM on CPU in the engines' pods. What no stand-in can show
is in docs/reference/aws-unproved.md.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from tools.awsim.running import AwsStandIn, install_plugin
from tools.cache import CHECKOUT, cache
from tools.deployment import Change, Deployment
from tools.engine import build as engine_build
from tools.local import full_environment
from tools.localcluster.layout import HOST_ADDRESS, TOKEN_WEBHOOK_PORT
from tools.own_engine import backend_url, own_pulumi

UCX = {"kv_connector": "NixlConnector", "kv_load_failure_policy": "fail"}
MODEL = {"name": "tiny-qwen3", "folder": ".local/models/tiny-qwen3"}
ROLES = {"prefill": "kv_producer", "decode": "kv_consumer"}
app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)


def on_cpu(settings: dict[str, Any]) -> None:
    """What the pods run, for a machine without GPUs; the platform stays as the stack file has it.

    UCX in place of LIBFABRIC: the image made here holds no libfabric, and there is no EFA to reach.
    """
    local = yaml.safe_load((CHECKOUT / "stacks/Pulumi.local.yaml").read_text())["config"]
    settings["splitserve:image"] = (CHECKOUT / ".local/image").read_text().strip()
    settings["splitserve:imageContents"] = {"efa": True}
    settings["splitserve:model"] = MODEL
    settings["splitserve:router"] = local["splitserve:router"]
    settings["splitserve:gate"] = local["splitserve:gate"]
    engine = local["splitserve:engine"]
    engine["resources"]["extended"] = {"nvidia.com/gpu": 1, "vpc.amazonaws.com/efa": 1}
    settings["splitserve:engine"] = engine
    settings.pop("splitserve:traffic", None)
    for tier, role in ROLES.items():
        config = json.dumps({**UCX, "kv_role": role})
        settings[f"splitserve:{tier}"] = {"extraArgs": ["--kv-transfer-config", config]}


def install_plugins(home: Path) -> None:
    """Put the stand-in's provider, and ours for Kubernetes, into a PULUMI_HOME of one's own."""
    install_plugin(home)
    if not own_pulumi():
        engine_build.install_provider(cache().engine, home)


@contextlib.contextmanager
def simulated(
    stack: str, state: Path, *, source: str = "dev", show: bool = True
) -> Iterator[tuple[AwsStandIn, Deployment]]:
    """A stand-in and a stack on it; `source` is the stack file. Nothing of either is left afterwards."""
    layout = cache().layout()
    home = state / "pulumi"
    install_plugins(home)
    webhook = f"{HOST_ADDRESS}:{TOKEN_WEBHOOK_PORT}"
    with AwsStandIn(kubeconfig=layout.kubeconfig, webhook=webhook) as aws:
        environment = {
            **os.environ,
            **full_environment(cache()),
            **aws.environment(),
            "PULUMI_HOME": str(home),
            "PULUMI_BACKEND_URL": backend_url(state / "state"),
        }
        (state / "state").mkdir(parents=True, exist_ok=True)
        base = CHECKOUT / "stacks" / f"Pulumi.{source}.yaml"
        deployment = Deployment(stack, f"splitserve-{stack}", environment, show, base=base)
        made = deployment.run("stack", "init")
        if made.code:
            raise RuntimeError(made.text)
        try:
            yield aws, deployment
        finally:
            # The stand-in forgets all of AWS; what is left in the local cluster would be in the next run's way.
            deployment.run("cancel", "--yes")
            deployment.run("destroy", "--yes", "--skip-preview", "--suppress-progress")
            (CHECKOUT / "stacks" / f"Pulumi.{stack}.yaml").unlink(missing_ok=True)


def another_instance(settings: dict[str, Any]) -> None:
    """Larger nodes for both tiers: another node generation, and so another release."""
    for tier in ROLES:
        settings["splitserve:platform"]["aws"]["nodeGroups"][tier]["instance"] = "g6e.48xlarge"


def unprotected(settings: dict[str, Any]) -> None:
    """Let the stack be destroyed: cluster and load balancer may go."""
    settings["splitserve:platform"]["aws"].setdefault("cluster", {})["deletionProtection"] = False
    settings.setdefault("splitserve:edge", {})["deletionProtection"] = False


def cluster_alone(settings: dict[str, Any]) -> None:
    """The cluster's half of a stack, for another stack to serve on."""
    platform = settings["splitserve:platform"] | {"layers": "cluster"}
    platform["aws"]["nodeGroups"] = {"system": platform["aws"]["nodeGroups"]["system"]}
    settings.clear()
    settings["splitserve:platform"] = platform


def serving_on(cluster_stack: str) -> Change:
    """The other half: what is served, and its GPU nodes."""

    def change(settings: dict[str, Any]) -> None:
        on_cpu(settings)
        platform = settings["splitserve:platform"] | {"layers": "serving"}
        kept = {key: value for key, value in platform["aws"].items() if key not in ("cluster", "network")}
        groups = {tier: kept["nodeGroups"][tier] for tier in ROLES}
        platform["aws"] = kept | {"nodeGroups": groups, "clusterStack": cluster_stack}
        settings["splitserve:platform"] = platform

    return change


@app.command()
def up(stack: Annotated[str, typer.Option(help="dev or prod")] = "dev") -> None:
    """The stack up, up again without a change, other nodes beside the old, and all of it away again.

    Before the end its protection is taken off, as somebody would who means it.
    """
    state = CHECKOUT / ".local/aws-sim"
    shutil.rmtree(state, ignore_errors=True)
    with simulated(f"sim-{stack}", state, source=stack) as (aws, deployment):
        steps = [
            _step("up", deployment, on_cpu),
            _step("up again", deployment, on_cpu),
            _step("other nodes", deployment, on_cpu, another_instance),
            _step("protection off", deployment, on_cpu, another_instance, unprotected),
        ]
        started = time.monotonic()
        destroyed = deployment.run("destroy", "--yes", "--skip-preview", "--suppress-progress")
        print(destroyed.text)
        steps.append({"step": "destroy", "exit": destroyed.code, "seconds": round(time.monotonic() - started, 1)})
        left = aws.leftovers()
    print(json.dumps({"stack": stack, "steps": steps, "left_on_aws": left}))
    sys.exit(0 if not left and all(step["exit"] == 0 for step in steps) else 1)


def _step(name: str, deployment: Deployment, *changes: Change) -> dict[str, Any]:
    started = time.monotonic()
    finished = deployment.up(*changes)
    return {"step": name, "exit": finished.code, "seconds": round(time.monotonic() - started, 1)}


if __name__ == "__main__":
    app()
