"""A real Prometheus scrapes engines over HTTP by the list of pods, and its alerts carry the pods' release and tier."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.observability.limits import AlertLimits
from components.observability.pod_targets import file_configuration, pod_targets
from components.observability.rules import rules_file
from components.serving.labels import pod_labels
from tests.unit.fake_vllm import Engine, Server, serving
from tests.unit.ports import free_port
from tools.cache import cache

WAIT_S = 60
"""A busy machine starts Prometheus late; an alert that is pending has all but its waiting time."""
LIMITS = AlertLimits(window_s=30, least_tokens=100)


def pod(tier: str, server: Server) -> dict[str, Any]:
    """A pod as the API server writes it, at the address of a server here."""
    port = {"name": "http", "containerPort": int(server.url.rpartition(":")[2])}
    return {
        "metadata": {"name": f"{tier}-1", "namespace": "splitserve", "labels": pod_labels("r1", tier)},
        "spec": {"containers": [{"name": "vllm", "ports": [port]}]},
        "status": {"phase": "Running", "podIP": "127.0.0.1"},
    }


@contextmanager
def prometheus(folder: Path, pods: list[dict[str, Any]]) -> Iterator[Callable[[str], list[dict[str, Any]]]]:
    """A Prometheus of these pods with every rule; gives what asks it."""
    program = cache().prometheus / "prometheus"
    assert program.exists(), f"no {program}: run `make start` first"
    (folder / "targets.json").write_text(json.dumps(pod_targets(pods)))
    (folder / "rules.yaml").write_text(yaml.safe_dump(rules_file(LIMITS)))
    configuration = file_configuration("targets.json", 1) | {
        "global": {"evaluation_interval": "1s", "scrape_timeout": "1s"},
        "rule_files": ["rules.yaml"],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(configuration))
    port = free_port()
    options = {"config.file": "prometheus.yml", "storage.tsdb.path": "data", "web.listen-address": f"127.0.0.1:{port}"}
    arguments = [f"--{name}={value}" for name, value in options.items()]
    with (folder / "log").open("wb") as log:
        running = subprocess.Popen([program, *arguments], cwd=folder, stdout=log, stderr=log)
        try:
            yield lambda query: asked(port, query)
        finally:
            running.terminate()
            running.wait()


def asked(port: int, query: str) -> list[dict[str, Any]]:
    """The series of an instant query; none while Prometheus starts."""
    url = f"http://127.0.0.1:{port}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=5) as answer:
            return [entry["metric"] for entry in json.load(answer)["data"]["result"]]
    except OSError:
        return []


def alert(name: str, **labels: str) -> str:
    wanted = {"alertname": f"Splitserve{name}", **labels}
    return f"ALERTS{{{','.join(f'{key}={json.dumps(value)}' for key, value in wanted.items())}}}"


def first(ask: Callable[[str], list[dict[str, Any]]], query: str, keep_on: Callable[[], None]) -> dict[str, Any]:
    """The first series of a query that has some, with traffic meanwhile."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        keep_on()
        if found := ask(query):
            return found[0]
        time.sleep(0.5)
    pytest.fail(f"nothing for {query} within {WAIT_S} s")


def test_a_silent_decoder_and_a_failed_transfer_are_told_by_release_and_pod(tmp_path: Path) -> None:
    prefill, decode = Engine(), Engine()

    def traffic() -> None:
        """Both tiers serve, the decoder receives nothing, and now and then a transfer fails."""
        prefill.tokens += 200
        decode.tokens += 200
        decode.failed += 1

    with serving(prefill, decode) as (first_server, second_server):
        pods = [pod("prefill", first_server), pod("decode", second_server)]
        with prometheus(tmp_path, pods) as ask:
            silent = first(ask, alert("KvNotMoved", pod="decode-1"), traffic)
            assert (silent["splitserve_release"], silent["splitserve_tier"]) == ("r1", "decode")
            failed = first(ask, alert("KvTransfersFailed", alertstate="firing"), traffic)
            assert (failed["pod"], failed["namespace"], failed["severity"]) == ("decode-1", "splitserve", "critical")
            assert not ask(alert("MetricsMissing")), "both engines are scraped"
