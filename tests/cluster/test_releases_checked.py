"""`splitserve check` on a release that it knows nothing of, as on anybody's deployment: real vLLM, by URL, by pods, by log."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from components.serving.labels import TIER_LABEL
from tests.cluster.asking import Record, cluster_of, engine_url, pods_of
from tests.unit.check_runs import Ran
from tools.cache import CHECKOUT, cache
from tools.deployment import Deployment
from tools.localcluster.hybrid_model import granite_config

LIMIT_MS = 200
"""The local stack's own: four engines share two cores, and TCP is all that there is."""
BYTES = 8_388_608
"""Of 1,024 tokens: 8 layers x 4 heads x 64 x 2 (key, value) x 2 bytes a token."""
MODEL = (f"--model-config={CHECKOUT}/.local/models/tiny-qwen3/config.json", "--dtype=bfloat16")
"""The file names float32; the stack file's `engine.dtype` is another."""
STARTED_LIMIT_S = 180


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "infra.cli", "check", f"--limit-ms={LIMIT_MS}", *arguments]


def check(*arguments: str) -> Ran:
    done = subprocess.run(command(*arguments), cwd=CHECKOUT, capture_output=True, text=True)
    return Ran(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def urls(live: Deployment) -> list[str]:
    return [f"--prefill={engine_url(live, 'prefill')}", f"--decode={engine_url(live, 'decode')}"]


def by_pods(live: Deployment) -> list[str]:
    selected = [f"--{tier}-selector={TIER_LABEL}={tier}" for tier in ("prefill", "decode")]
    return [f"--kubeconfig={cache().layout().kubeconfig}", f"--namespace={live.namespace}", *selected]


def test_it_passes_with_the_model_s_bytes_fresh_and_aged(
    live: Deployment, urls: list[str], record_property: Record
) -> None:
    ran = check(*urls, f"--router={live.outputs()['endpoint']}", *MODEL, "--json")
    assert ran.code == 0, ran.out + ran.err
    said = ran.json
    assert (said["outcome"], said["basis"], said["connector"]) == ("pass", "geometry", "nixl")
    [pair] = said["pairs"]
    assert pair["fresh"]["mean_bytes"] == pair["aged"]["mean_bytes"] == pair["expected_bytes"] == BYTES
    assert not pair["aged"]["estimated"] and 0 < said["kv_transfer_ms"] < LIMIT_MS
    record_property("kv_transfer_ms", said["kv_transfer_ms"])


def test_without_the_model_bytes_are_held_against_each_other(live: Deployment) -> None:
    ran = check(*by_pods(live), "--json")
    assert ran.code == 0, ran.out + ran.err
    assert ran.json["basis"] == "consistency" and f"{BYTES // 1024:,} a token" in ran.json["message"]


def test_a_limit_that_is_not_met_fails(urls: list[str]) -> None:
    ran = check(*urls, "--limit-ms=0.01", "--age=off", *MODEL)
    assert ran.code == 1 and "fail: slow-link" in ran.out, ran.out + ran.err


def test_another_model_s_geometry_is_found_out(urls: list[str], tmp_path: Path) -> None:
    other = tmp_path / "config.json"
    other.write_text(json.dumps(granite_config()))
    ran = check(*urls, "--age=off", f"--model-config={other}", "--json")
    assert (ran.code, ran.json["cause"]) == (1, "wrong-bytes"), ran.out + ran.err


def test_the_decoder_s_log_is_judged_alone(live: Deployment) -> None:
    deadline = time.monotonic() + 60
    while (ran := check(*by_pods(live), "--pod-logs", "--json")).json["cause"] == "no-transfer-logged":
        assert time.monotonic() < deadline, "vLLM logs every 10 s in which something was transferred"
        time.sleep(2)
    assert (ran.code, ran.json["cause"], ran.json["basis"]) == (0, "log-only", "log"), ran.out + ran.err


def test_a_watch_writes_for_prometheus_and_ages_once(urls: list[str], tmp_path: Path) -> None:
    text = tmp_path / "check.prom"
    watching = subprocess.Popen(
        command(*urls, *MODEL, "--watch=1", f"--prometheus-file={text}"),
        cwd=CHECKOUT, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert watching.stdout
    lines = [watching.stdout.readline() for _ in range(2)]
    watching.terminate()
    watching.communicate(timeout=30)
    assert all(" pass fast: " in line for line in lines), lines
    assert 'splitserve_check_verdict{outcome="pass"} 1' in text.read_text()
    seconds = re.search(r'kv_transfer_seconds\{[^}]*kv="aged"[^}]*\} ([\d.e-]+)', text.read_text())
    assert seconds and 0 < float(seconds[1]) < LIMIT_MS / 1000


def test_one_engine_under_two_addresses_is_no_deployment(urls: list[str]) -> None:
    url = urlsplit(urls[0].partition("=")[2])
    same = f"http://{int(ip_address(str(url.hostname)))}:{url.port}"
    ran = check(urls[0], f"--decode={same}", "--json")
    assert (ran.code, ran.json["cause"]) == (2, "same-engine"), ran.out + ran.err


def test_a_front_door_over_two_tiers_is_no_engine(live: Deployment, urls: list[str]) -> None:
    ran = check(f"--prefill={live.outputs()['endpoint']}", urls[1], "--json")
    assert ran.code == 2 and ran.json["faults"], ran.out + ran.err


@pytest.fixture
def plain_decoder(live: Deployment) -> Iterator[str]:
    """A decoder like the live one, but for its connector: the field's commonest fault, and every answer is 200."""
    cluster = cluster_of(live)
    core = cluster.core
    source = core.read_namespaced_pod(pods_of(live, "decode")[0].name, live.namespace)
    spec = core.api_client.sanitize_for_serialization(source.spec)
    [container] = spec["containers"]
    at = container["args"].index("--kv-transfer-config")
    del container["args"][at : at + 2]
    spec.pop("nodeName")
    name = "decode-without-connector"
    core.create_namespaced_pod(live.namespace, {"metadata": {"name": name, "labels": {"app": name}}, "spec": spec})
    try:
        yield _started(cluster, name)
    finally:
        core.delete_namespaced_pod(name, live.namespace, grace_period_seconds=0)


def _started(cluster: Any, name: str) -> str:
    deadline = time.monotonic() + STARTED_LIMIT_S
    while not (found := [pod for pod in cluster.select(f"app={name}") if pod.ready]):
        assert time.monotonic() < deadline, f"{name} did not start within {STARTED_LIMIT_S} s"
        time.sleep(1)
    return f"http://{found[0].ip}:8000"


def test_a_decoder_without_its_connector_is_never_disaggregated(urls: list[str], plain_decoder: str) -> None:
    ran = check(urls[0], f"--decode={plain_decoder}", "--age=off", *MODEL, "--json")
    assert (ran.code, ran.json["cause"]) == (1, "never-disaggregated"), ran.out + ran.err


ENGINE_ENDS = """
import os, signal
for process in filter(str.isdigit, os.listdir("/proc")):
    if open(f"/proc/{process}/comm").read().startswith("VLLM::Engine"):
        os.kill(int(process), signal.SIGKILL)
"""
"""As a GPU's fault or the kernel's out-of-memory killer ends it: the container follows, and is started again."""


def test_a_prefiller_whose_engine_ends_while_it_is_measured_never_passes(live: Deployment, urls: list[str]) -> None:
    """The last of this file: its successor takes a moment."""
    [gone] = pods_of(live, "prefill")
    checking = subprocess.Popen(
        command(*urls, "--samples=50", *MODEL, "--json"), cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    assert checking.stderr
    for line in checking.stderr:
        if "sample 2" in line:
            break
    subprocess.run(
        ["kubectl", "exec", "--namespace", live.namespace, gone.name, "--", "python3", "-c", ENGINE_ENDS],
        env=dict(live.environment), check=True,
    )  # fmt: skip
    out, err = checking.communicate(timeout=180)
    said = json.loads(out)
    deadline = time.monotonic() + STARTED_LIMIT_S
    while not [pod for pod in pods_of(live, "prefill") if pod.restarts > gone.restarts]:
        assert time.monotonic() < deadline, "the prefiller did not start again"
        time.sleep(1)
    assert (checking.returncode, said["cause"]) in ((1, "pod-ended"), (2, "pair-unmeasured")), out + err
    assert urls[0].partition("://")[2] in said["message"], "it names the engine"
