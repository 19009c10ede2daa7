"""A real Prometheus beside a live release: how long an alert takes to come by its real fault, and to go again."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from components.observability.limits import AlertLimits
from components.observability.panels import sections
from components.observability.pod_targets import pod_targets
from tests.cluster.asking import Record, cluster_of
from tests.engine.running_prometheus import Ask, alert, prometheus
from tools.deployment import Deployment

SOONER = 10
"""How much shorter alerts wait than they would (`for`), so that twenty of them take minutes."""
WINDOW_S = 30
FIRES_LIMIT_S = 420
RESOLVES_LIMIT_S = 420
TARGETS_EVERY_S = 2
GATE_LIMIT_MS = 200
Act = Callable[[], object]


@dataclass(frozen=True)
class Times:
    """Seconds from the beginning of the fault until the alert was pending and firing, from its end until it was gone;
    `beside`: other alerts that fired with it."""

    alert: str
    pending_s: float
    firing_s: float
    resolved_s: float
    beside: list[str]


@dataclass
class Watch:
    """`ask` queries the Prometheus that scrapes the pods of `deployment`."""

    deployment: Deployment
    ask: Ask
    targets: Path
    hidden: bool = False
    """Whether Prometheus is told of no pod at all."""
    _listed_s: float = 0.0

    def follow(self) -> None:
        """Tell Prometheus which pods there are now."""
        if time.monotonic() - self._listed_s > TARGETS_EVERY_S:
            pods = [] if self.hidden else pod_targets(pods_as_written(self.deployment))
            self.targets.write_text(json.dumps(pods))
            self._listed_s = time.monotonic()

    def fires(self, name: str, fault: AbstractContextManager[Any], during: Act, after: Act, **labels: str) -> Times:
        """Wait until the alert fires and, after the fault, until it is gone. `during` and `after` are traffic then."""
        return self.all_fire([name], fault, during, after, **labels)[0]

    def all_fire(self, names: list[str], fault: AbstractContextManager[Any], during: Act, after: Act,
                 **labels: str) -> list[Times]:  # fmt: skip
        """Alerts of one fault, each with its own times."""
        self.wait_until_gone(names, after)
        pending: dict[str, float] = {}
        firing: dict[str, float] = {}
        began = time.monotonic()
        with fault:
            while len(firing) < len(names):
                missing = [name for name in names if name not in firing]
                assert time.monotonic() - began < FIRES_LIMIT_S, f"{missing} did not fire; firing: {self.firing()}"
                during()
                self.follow()
                for name in missing:
                    self._look(name, labels, time.monotonic() - began, pending, firing)
            beside = sorted(self.firing() - set(names))
        gone = self.wait_until_gone(names, after)
        return [Times(n, round(pending[n], 1), round(firing[n], 1), round(gone[n], 1), beside) for n in names]

    def _look(self, name: str, labels: dict[str, str], now_s: float, pending: dict[str, float],
              firing: dict[str, float]) -> None:  # fmt: skip
        if self.ask(alert(name, **labels)):
            pending.setdefault(name, now_s)
        if self.ask(alert(name, alertstate="firing", **labels)):
            pending.setdefault(name, now_s)  # of one without a waiting time the first look may miss it
            firing[name] = now_s

    def wait_until_gone(self, names: list[str], after: Act) -> dict[str, float]:
        """Seconds until each was neither pending nor firing."""
        began, gone = time.monotonic(), {}
        while len(gone) < len(names):
            assert time.monotonic() - began < RESOLVES_LIMIT_S, f"{set(names) - set(gone)} did not resolve"
            after()
            self.follow()
            for name in names:
                if name not in gone and not self.ask(alert(name)):
                    gone[name] = time.monotonic() - began
            time.sleep(0.5)
        return gone

    def firing(self) -> set[str]:
        return {found["alertname"].removeprefix("Splitserve") for found in self.ask('ALERTS{alertstate="firing"}')}

    def empty_graphs(self, limits: AlertLimits) -> set[str]:
        """The titles of the dashboard's graphs that show nothing now, for the live release."""
        values = {"$namespace": self.deployment.namespace, "$release": self.deployment.outputs()["live"]}
        return {
            graph.title
            for section in sections(limits)
            for graph in section.graphs
            if not any(self.ask(filled(query.expr, values)) for query in graph.queries)
        }


def filled(expr: str, values: dict[str, str]) -> str:
    """A dashboard's expression with its variables' values, as Grafana would send it."""
    made = re.sub(r"\$\w+", lambda found: values[found[0]], expr)
    assert "$" not in made, made
    return made


def pods_as_written(deployment: Deployment) -> list[dict[str, Any]]:
    """As the API server gives them."""
    core = cluster_of(deployment).core
    return core.api_client.sanitize_for_serialization(core.list_namespaced_pod(deployment.namespace).items)


def limits_of(deployment: Deployment, **more: Any) -> AlertLimits:
    return AlertLimits(deployment.namespace, transfer_ms=GATE_LIMIT_MS, window_s=WINDOW_S, **more)


@contextmanager
def watching(deployment: Deployment, folder: Path, limits: AlertLimits) -> Iterator[Watch]:
    with prometheus(folder, pods_as_written(deployment), limits, SOONER) as ask:
        yield Watch(deployment, ask, folder / "targets.json")


def noted(record: Record, times: list[Times]) -> None:
    """Keep the figures beside the test, and show them with `-s`."""
    for one in times:
        record(one.alert, json.dumps(asdict(one)))
        print(json.dumps(asdict(one)), flush=True)
