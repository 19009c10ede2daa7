"""Demos that make real failures: a candidate is deployed that must not go live, under traffic.

Each one deploys a changed copy of the stack file, keeps a streaming client on the front door all the
while, shows what a user would see, and restores the stack. It ends with 0 when the failure was
caught as it should be; its last line is JSON.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from kubernetes import client as k8s
from rich.console import Console

from components.serving.labels import RELEASE_LABEL, TIER_LABEL
from tools.cache import cache
from tools.client import Counts, StreamingClient
from tools.deployment import Change, Deployment
from tools.localcluster import cluster, link

SLOW_MBIT_PER_S = 150
console = Console(stderr=True, highlight=False)


@dataclass(frozen=True)
class Demo:
    """`change` edits the stack file's settings, `around` runs during the update."""

    what: str
    change: Change
    outcome: str
    cause: str
    around: Callable[[str, str], AbstractContextManager[Any]] = lambda _live, _namespace: nullcontext()


def note(text: str) -> Change:
    """A change that makes another release and nothing else."""

    def change(settings: dict[str, Any]) -> None:
        settings["splitserve:note"] = text

    return change


def _another(settings: dict[str, Any]) -> None:
    note(f"demo {int(time.time())}")(settings)


def _argument(tier: str, *arguments: str) -> Change:
    def change(settings: dict[str, Any]) -> None:
        _another(settings)
        settings.setdefault(f"splitserve:{tier}", {})["extraArgs"] = list(arguments)

    return change


class SlowLink(AbstractContextManager["SlowLink"]):
    """Throttles the link of every decode pod that is not the live release's, as soon as it is up."""

    def __init__(self, live: str, namespace: str) -> None:
        self.selector = f"{TIER_LABEL}=decode,{RELEASE_LABEL}!={live}"
        self.namespace = namespace
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> SlowLink:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        core: Any = k8s.CoreV1Api(cluster.api(cache().layout()))
        done: set[str] = set()
        while not self._stop.wait(0.5):
            for pod in core.list_namespaced_pod(self.namespace, label_selector=self.selector).items:
                address = pod.status.pod_ip
                if address and pod.metadata.name not in done and pod.metadata.deletion_timestamp is None:
                    link.throttle(address, SLOW_MBIT_PER_S)
                    done.add(pod.metadata.name)
                    console.print(f"  link of {pod.metadata.name} throttled to {SLOW_MBIT_PER_S} Mbit/s")


DEMOS = {
    "slow-link": Demo("a candidate whose decode pod has a slow link", _another, "fail", "slow-link", SlowLink),
    "silent": Demo(
        "a decoder without its connector: 200 OK, no KV moved",
        _argument("decode", "--kv-transfer-config", "None"),
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
    "pass": Demo("a candidate that passes", _another, "pass", "fast"),
}


def run(
    name: Annotated[str, typer.Argument(help=", ".join(DEMOS))],
    strategy: Annotated[str, typer.Option(help="canary or swap")] = "canary",
) -> None:
    """Run one demo on the local stack and restore it."""
    if name not in DEMOS:
        console.print(f"no demo `{name}`; there are: {', '.join(DEMOS)}")
        raise typer.Exit(2)
    result, problems = play(DEMOS[name], Deployment(), strategy)
    for problem in problems:
        console.print(f"[red]not as it should be:[/red] {problem}")
    print(json.dumps({"demo": name, "strategy": strategy, **result}))
    raise typer.Exit(1 if problems else 0)


def play(demo: Demo, deployment: Deployment, strategy: str = "canary") -> tuple[dict[str, Any], list[str]]:
    """Deploy the changed stack file under traffic. Returns the result and what went wrong."""

    def rollout(settings: dict[str, Any]) -> None:
        settings.setdefault("splitserve:rollout", {})["strategy"] = strategy

    before = deployment.outputs()
    console.print(f"demo: {demo.what}; live release {before['live']} at {before['endpoint']}")
    with StreamingClient(before["endpoint"], before["model"]) as client:
        with demo.around(before["live"], deployment.namespace):
            finished = deployment.up(rollout, demo.change)
        after = deployment.outputs()
    restored = True
    if demo.outcome != "pass":
        console.print("restoring the stack file's own configuration")
        restored = deployment.up().code == 0
    result = _result(finished.code, before, after, client.counts)
    return result, _problems(demo, strategy, result, client.counts, restored)


def _result(code: int, before: dict[str, Any], after: dict[str, Any], counts: Counts) -> dict[str, Any]:
    return {
        "verdict": after["verdict"],
        "cause": after["gate"]["verdict"]["cause"],
        "pulumi_exit": code,
        "rolled_back": after["live"] == before["live"],
        "requests": counts.requests,
        "failed_requests": counts.failed,
        "truncated_streams": counts.truncated,
        "outage_s": round(counts.outage_s, 1),
        "kv_transfer_ms": after["gate"]["verdict"].get("kv_transfer_ms"),
        "rollback_s": round((after["gate"]["verdict"].get("rollback") or {}).get("seconds", 0), 1),
        "clues": [clue["key"] for clue in after["gate"]["verdict"].get("clues") or []],
        "errors": counts.errors[:5],
    }


def _problems(demo: Demo, strategy: str, result: dict[str, Any], counts: Counts, restored: bool) -> list[str]:
    wanted: dict[str, Any] = {
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
    return problems


if __name__ == "__main__":
    typer.run(run)
