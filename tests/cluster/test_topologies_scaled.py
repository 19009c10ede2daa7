"""A load step grows the right tier of the live release, and its end shrinks it: no request fails."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from components.release.cluster import Cluster
from tests.cluster.asking import Record, cluster_of, shaped
from tools.client import Counts, StreamingClient
from tools.deployment import Deployment

GROWN_LIMIT_S = 240
SHRUNK_LIMIT_S = 120
STREAMS = 10
PROMPT_WORDS = 700
"""About 1,400 tokens of the tiny model: all prefill, with an answer of one token."""


def scaled(settings: dict[str, Any]) -> None:
    shaped("prefill-decode", 0)(settings)
    settings["splitserve:note"] = "autoscaled"
    settings["splitserve:autoscale"] = {
        "prefill": {"min": 1, "max": 2},
        "decode": {"min": 1, "max": 2},
        "targets": {"prefill.queue": 1, "prefill.utilisation": 0.7},
        "upWindowS": 5, "downWindowS": 15, "settleS": 10, "periodS": 2,
    }  # fmt: skip
    # More than one prompt at a time waits, as it does on a GPU that one prompt fills.
    settings["splitserve:prefill"] = {"extraArgs": ["--max-num-seqs", "1"]}


@contextmanager
def load(outputs: dict[str, Any], counts: Counts) -> Iterator[None]:
    """Prompts one after the other in each of several streams."""
    stop = threading.Event()

    def stream(number: int) -> None:
        asked = 0
        while not stop.is_set():
            asked += 1
            body = {
                "model": outputs["model"],
                "prompt": f"{number} {asked} " + "license " * PROMPT_WORDS,
                "max_tokens": 1,
            }
            reply = httpx.post(f"{outputs['endpoint']}/v1/completions", json=body, timeout=120, trust_env=False)
            counts.requests += 1
            if reply.status_code != 200:
                counts.failed += 1
                counts.errors.append(reply.text[:200])

    threads = [threading.Thread(target=stream, args=(number,)) for number in range(STREAMS)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def sizes(cluster: Cluster, release: str) -> dict[str, int]:
    """Ready pods by tier."""
    found: dict[str, int] = {}
    for pod in cluster.pods(release):
        found[pod.tier] = found.get(pod.tier, 0) + pod.ready
    return found


def wait_for(cluster: Cluster, release: str, tier: str, count: int, limit_s: float) -> float:
    started = time.monotonic()
    while (now := sizes(cluster, release)).get(tier) != count:
        assert time.monotonic() - started < limit_s, f"{tier} did not come to {count}: {now}"
        time.sleep(1)
    return time.monotonic() - started


def test_a_load_step_grows_the_right_tier_and_its_end_shrinks_it(
    deployment: Deployment, record_property: Record
) -> None:
    made = deployment.up(scaled)
    assert made.code == 0, made.text
    outputs, counts = deployment.outputs(), Counts()
    cluster, release = (
        cluster_of(deployment),
        outputs["live"],
    )
    wait_for(cluster, release, "prefill", 1, SHRUNK_LIMIT_S)
    with load(outputs, counts):
        up_s = wait_for(cluster, release, "prefill", 2, GROWN_LIMIT_S)
        assert sizes(cluster, release)["decode"] == 1
        again = deployment.up(scaled)
        assert again.code == 0, again.text
        assert sizes(cluster, release)["prefill"] == 2, "an update without a change took the autoscaler's size back"
    with StreamingClient(outputs["endpoint"], outputs["model"]) as light:
        down_s = wait_for(cluster, release, "prefill", 1, SHRUNK_LIMIT_S)
    figures = {"up_s": round(up_s, 1), "down_s": round(down_s, 1), "requests": counts.requests + light.counts.requests}
    record_property("autoscaling", json.dumps(figures))
    assert (counts.failed, light.counts.failed, light.counts.truncated) == (0, 0, 0), [
        *counts.errors,
        *light.counts.errors,
    ]
