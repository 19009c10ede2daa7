"""Faults as a live release meets them: engines that hang or end, a slow link, clients that go around the router."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from components.release.cluster import Pod
from components.serving.connectors.nixl import ASK_PREFILL
from tests.cluster.asking import ENGINE_PORT, cluster_of, pods_of
from tools.deployment import Deployment
from tools.localcluster import link

REQUEST_LIMIT_S = 30
QUEUED_LIMIT_S = 180
READY_LIMIT_S = 180
PROMPT = "the work of the licensor, " * 170
"""About 900 tokens."""


def ask(url: str, model: str, tokens: int = 1, limit_s: float = REQUEST_LIMIT_S, **more: Any) -> int:
    """The status of one completion of a prompt that no prefix cache holds; 0 where nothing answered."""
    body = {"model": model, "prompt": f"{time.time_ns()} {PROMPT}", "max_tokens": tokens, "ignore_eos": True, **more}
    try:
        return httpx.post(f"{url}/v1/completions", json=body, timeout=limit_s, trust_env=False).status_code
    except httpx.HTTPError:
        return 0


def leave_unfetched(url: str, model: str) -> None:
    """What a router asks of a prefiller; then no decoder comes for the KV cache."""
    assert ask(url, model, kv_transfer_params=ASK_PREFILL) == 200


@contextmanager
def slow_link(pod: Pod, mbit_per_s: float) -> Iterator[None]:
    assert pod.ip
    link.throttle(pod.ip, mbit_per_s)
    try:
        yield
    finally:
        link.restore(pod.ip)


@contextmanager
def refused(source: Pod, target: Pod) -> Iterator[None]:
    """One pod can't reach another any more, which is ready all the same."""
    assert source.ip and target.ip
    link.refuse(source.ip, target.ip)
    try:
        yield
    finally:
        link.allow(source.ip, target.ip)


@contextmanager
def hanging(pod: Pod) -> Iterator[None]:
    """All of a pod's processes are stopped: connections are taken, and nothing answers."""
    stopped = processes(pod)
    assert stopped, f"no process of pod {pod.name} on this machine"
    for process in stopped:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in stopped:
            with suppress(ProcessLookupError):  # its liveness probe may have ended it
                os.kill(process, signal.SIGCONT)


def end_engine(pod: Pod) -> None:
    """As a GPU's fault or the kernel's out-of-memory killer ends it: the container follows, and is started again."""
    for process in processes(pod):
        with suppress(ProcessLookupError, FileNotFoundError):
            if Path(f"/proc/{process}/comm").read_text().startswith("VLLM::Engine"):
                os.kill(process, signal.SIGKILL)


@contextmanager
def crashing(deployment: Deployment, tier: str, every_s: float = 0.5) -> Iterator[None]:
    """An engine of the tier that is ended so often, by default whenever it has started; it is ready again afterwards."""
    over = threading.Event()

    def crash() -> None:
        while not over.wait(every_s):
            for pod in pods:
                end_engine(pod)

    pods = pods_of(deployment, tier)[:1]
    thread = threading.Thread(target=crash, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        wait_ready(deployment, tier, len(pods))


@contextmanager
def load(url: str, model: str, streams: int, tokens: int) -> Iterator[None]:
    """So many requests at any time."""
    over = threading.Event()

    def one() -> None:
        while not over.is_set():
            ask(url, model, tokens, limit_s=QUEUED_LIMIT_S)

    with ThreadPoolExecutor(streams) as pool:
        for _ in range(streams):
            pool.submit(one)
        try:
            yield
        finally:
            over.set()


def restart(deployment: Deployment, tier: str, pod: Pod) -> None:
    """Have another pod in the place of this one."""
    cluster_of(deployment).core.delete_namespaced_pod(pod.name, deployment.namespace)
    until(lambda: pod.name not in {p.name for p in pods_of(deployment, tier)}, f"end of {pod.name}", READY_LIMIT_S)
    wait_ready(deployment, tier)


def wait_ready(deployment: Deployment, tier: str, count: int = 1) -> None:
    until(lambda: len(pods_of(deployment, tier)) >= count, f"{count} ready {tier} pods", READY_LIMIT_S)


def until(true: Callable[[], bool], what: str, limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < deadline, f"no {what} within {limit_s} s"
        time.sleep(1)


def url_of(pod: Pod) -> str:
    return f"http://{pod.ip}:{ENGINE_PORT}"


def processes(pod: Pod) -> list[int]:
    """The processes of a pod of the local node: those of the container whose first has the host name that the kubelet
    gives it; none while it is between two lives. An engine's own process has written its title over its environment."""
    running = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    spaces = {space for process in running if _named(process, pod.name) and (space := _space(process))}
    return [process for process in running if _space(process) in spaces]


def _named(process: int, host: str) -> bool:
    try:
        environment = Path(f"/proc/{process}/environ").read_bytes()
    except OSError:
        return False
    return f"\0HOSTNAME={host}\0".encode() in b"\0" + environment


def _space(process: int) -> str | None:
    """Its space of process ids: a container has its own."""
    try:
        return os.readlink(f"/proc/{process}/ns/pid")
    except OSError:
        return None
