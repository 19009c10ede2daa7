"""A real Prometheus of a list of pods, with our rules, for tests that want to see alerts come."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.error
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
from tests.unit.ports import free_port
from tools.cache import cache

WAIT_S = 60
"""A busy machine starts Prometheus late; an alert that is pending has all but its waiting time."""
UNREADABLE = (400, 422)
"""https://prometheus.io/docs/prometheus/latest/querying/api/: bad parameters, an expression that can't be executed."""
Ask = Callable[[str], list[dict[str, str]]]
"""From a query to the labels of what it finds now."""


@contextmanager
def prometheus(folder: Path, pods: list[dict[str, Any]], limits: AlertLimits, sooner: int = 1) -> Iterator[Ask]:
    """A Prometheus that scrapes these pods (as the API server writes them) each second, with every rule on `limits`;
    its files lie in `folder`. Another list in its `targets.json` (pod_targets) is followed within seconds. Alerts wait
    `sooner` times shorter than they would."""
    program = cache().prometheus / "prometheus"
    assert program.exists(), f"no {program}: run `make start` first"
    (folder / "targets.json").write_text(json.dumps(pod_targets(pods)))
    (folder / "rules.yaml").write_text(yaml.safe_dump(hurried(rules_file(limits), sooner)))
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


def hurried(rules: dict[str, Any], sooner: int) -> dict[str, Any]:
    """The rules with each alert's `for` divided."""
    for group in rules["groups"]:
        for rule in group["rules"]:
            if "for" in rule:
                rule["for"] = f"{seconds(rule['for']) // sooner}s"
    return rules


def seconds(duration: str) -> int:
    """What `components.observability.limits.duration` wrote."""
    return int(duration[:-1]) * {"s": 1, "m": 60, "h": 3600}[duration[-1]]


def asked(port: int, query: str) -> list[dict[str, str]]:
    """The series of an instant query; none while Prometheus starts. A query that it can't read fails the test."""
    url = f"http://127.0.0.1:{port}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=5) as answer:
            return [entry["metric"] for entry in json.load(answer)["data"]["result"]]
    except urllib.error.HTTPError as error:
        if error.code in UNREADABLE:
            pytest.fail(f"{query}: {error.read().decode()}")
        return []
    except OSError:
        return []


def alert(name: str, **labels: str) -> str:
    wanted = {"alertname": f"Splitserve{name}", **labels}
    return f"ALERTS{{{','.join(f'{key}={json.dumps(value)}' for key, value in wanted.items())}}}"


def first(ask: Ask, query: str, keep_on: Callable[[], None] = lambda: None) -> dict[str, str]:
    """The first series of a query that has some, with traffic meanwhile."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        keep_on()
        if found := ask(query):
            return found[0]
        time.sleep(0.5)
    pytest.fail(f"nothing for {query} within {WAIT_S} s")
