"""Demos that make real failures: a candidate is deployed that must not go live, under traffic.

Each one deploys a changed copy of the stack file, keeps a streaming client on the front door all the
while, shows what a user would see, and restores the stack. It ends with 0 when the failure was
caught as it should be; its last line is JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from kubernetes import client as k8s
from rich.console import Console

from components.serving.labels import RELEASE_LABEL, TIER_LABEL
from tools.cache import CHECKOUT, cache
from tools.client import Counts, StreamingClient
from tools.local import STACK, full_environment
from tools.localcluster import cluster, link

SLOW_MBIT_PER_S = 150
NAMESPACE = "splitserve"
STACK_FILE = CHECKOUT / "stacks" / f"Pulumi.{STACK}.yaml"
console = Console(stderr=True, highlight=False)

Change = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Demo:
    """`change` edits the stack file's settings, `around` runs during the update."""

    what: str
    change: Change
    outcome: str
    cause: str
    around: Callable[[str], AbstractContextManager[Any]] = lambda _live: nullcontext()


def _note(settings: dict[str, Any]) -> None:
    settings["splitserve:note"] = f"demo {int(time.time())}"


def _argument(tier: str, *arguments: str) -> Change:
    def change(settings: dict[str, Any]) -> None:
        _note(settings)
        settings.setdefault(f"splitserve:{tier}", {})["extraArgs"] = list(arguments)

    return change


class SlowLink(AbstractContextManager["SlowLink"]):
    """Throttles the link of every decode pod that is not the live release's, as soon as it is up."""

    def __init__(self, live: str) -> None:
        self.live = live
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> SlowLink:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        core = k8s.CoreV1Api(cluster.api(cache().layout()))
        done: set[str] = set()
        selector = f"{TIER_LABEL}=decode,{RELEASE_LABEL}!={self.live}"
        while not self._stop.wait(0.5):
            for pod in core.list_namespaced_pod(NAMESPACE, label_selector=selector).items:
                address = pod.status.pod_ip
                if address and pod.metadata.name not in done and pod.metadata.deletion_timestamp is None:
                    link.throttle(address, SLOW_MBIT_PER_S)
                    done.add(pod.metadata.name)
                    console.print(f"  link of {pod.metadata.name} throttled to {SLOW_MBIT_PER_S} Mbit/s")


DEMOS = {
    "slow-link": Demo(
        "a candidate whose decode pod has a slow link", _note, "fail", "slow-link", SlowLink
    ),
    "silent": Demo(
        "a decoder without its connector: 200 OK, no KV moved",
        _argument("decode", "--kv-transfer-config", '{"kv_connector": null}'),
        "fail",
        "never-disaggregated",
    ),
    "never-ready": Demo(
        "a candidate whose engine does not start",
        _argument("decode", "--max-num-seqs", "0"),
        "fail",
        "not-ready",
    ),
    "cannot-measure": Demo(
        "a candidate whose decoder exports no statistics",
        _argument("decode", "--disable-log-stats"),
        "inconclusive",
        "pair-unmeasured",
    ),
    "pass": Demo("a candidate that passes", _note, "pass", "fast"),
}


def run(
    name: Annotated[str, typer.Argument(help=", ".join(DEMOS))],
    strategy: Annotated[str, typer.Option(help="canary or swap")] = "canary",
) -> None:
    """Run one demo and restore the stack."""
    if name not in DEMOS:
        console.print(f"no demo `{name}`; there are: {', '.join(DEMOS)}")
        raise typer.Exit(2)
    result, problems = play(DEMOS[name], strategy)
    for problem in problems:
        console.print(f"[red]not as it should be:[/red] {problem}")
    print(json.dumps({"demo": name, "strategy": strategy, **result}))
    raise typer.Exit(1 if problems else 0)


def play(demo: Demo, strategy: str) -> tuple[dict[str, Any], list[str]]:
    """Deploy the changed stack file under traffic. Returns the result and what went wrong."""
    before = stack_outputs()
    console.print(f"demo: {demo.what}; live release {before['live']} at {before['endpoint']}")
    changed = changed_stack_file(demo.change, strategy)
    with StreamingClient(before["endpoint"], before["model"]) as client:
        with demo.around(before["live"]):
            code = pulumi_up("--config-file", str(changed))
        after = stack_outputs()
    counts = client.counts
    restored = True
    if demo.outcome != "pass":
        console.print("restoring the stack file's own configuration")
        restored = pulumi_up() == 0
    changed.unlink()
    result = {
        "verdict": after["verdict"],
        "cause": after["gate"]["verdict"]["cause"],
        "pulumi_exit": code,
        "rolled_back": after["live"] == before["live"],
        "requests": counts.requests,
        "failed_requests": counts.failed,
        "truncated_streams": counts.truncated,
        "outage_s": round(counts.outage_s, 1),
        "kv_transfer_ms": after.get("kvTransferMs"),
    }
    return result, _problems(demo, strategy, result, counts, restored)


def _problems(demo: Demo, strategy: str, result: dict[str, Any], counts: Counts, restored: bool) -> list[str]:
    wanted = {
        "verdict": demo.outcome,
        "cause": demo.cause,
        "pulumi_exit": 0 if demo.outcome == "pass" else 1,
        "rolled_back": demo.outcome != "pass",
    }
    if strategy == "canary":
        wanted |= {"failed_requests": 0, "truncated_streams": 0}
    problems = [f"{k}: found {result[k]}, wanted {v}" for k, v in wanted.items() if result[k] != v]
    problems += [] if restored else ["the stack could not be restored"]
    problems += [] if counts.requests else ["the client sent no request"]
    return [*problems, *(counts.errors[:5] if strategy == "canary" else [])]


def changed_stack_file(change: Change, strategy: str) -> Path:
    """A copy of the stack file with the demo's change and strategy."""
    content = yaml.safe_load(STACK_FILE.read_text())
    settings = content["config"]
    settings.setdefault("splitserve:rollout", {})["strategy"] = strategy
    change(settings)
    with tempfile.NamedTemporaryFile("w", prefix="Pulumi.demo-", suffix=".yaml", delete=False) as file:
        yaml.safe_dump(content, file)
    return Path(file.name)


def pulumi_up(*arguments: str) -> int:
    """`pulumi up` as a user types it, with its output shown. Returns its exit code."""
    command = ["pulumi", "up", "--stack", STACK, "--yes", "--skip-preview", "--non-interactive",
               "--suppress-progress", "--suppress-outputs", *arguments]  # fmt: skip
    return subprocess.run(command, cwd=CHECKOUT, env=os.environ | full_environment(cache())).returncode


def stack_outputs() -> dict[str, Any]:
    command = ["pulumi", "stack", "output", "--json", "--stack", STACK]
    environment = os.environ | full_environment(cache())
    printed = subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=True)
    return json.loads(printed.stdout)


if __name__ == "__main__":
    typer.run(run)
