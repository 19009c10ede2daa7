"""A live stack with observability: no release of its own, an idle probe that judges the live one, a Prometheus that sees it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx

from components.observability.idle_job import NAME
from components.observability.limits import AlertLimits
from components.release.cluster import Cluster
from tests.cluster.asking import cluster_of, engine_url
from tests.cluster.idle_probing import JOB_LIMIT_S, observed, run_now
from tests.engine.running_prometheus import alert, first, prometheus
from tools.deployment import Deployment
from tools.localcluster import link

LIMIT_MS = 200
SLOW_MBIT_PER_S = 20
"""8.4 MB of KV cache take more than 3 s."""


def ask_anew(outputs: dict[str, Any]) -> None:
    """A prompt that no prefix cache holds, by the front door."""
    body = {"model": outputs["model"], "prompt": f"{time.time_ns()} " + "license " * 300, "max_tokens": 1}
    reply = httpx.post(f"{outputs['endpoint']}/v1/completions", json=body, timeout=JOB_LIMIT_S, trust_env=False)
    assert reply.status_code == 200, reply.text


def pods(cluster: Cluster) -> list[dict[str, Any]]:
    found = cluster.core.list_namespaced_pod(cluster.namespace).items
    return cluster.core.api_client.sanitize_for_serialization(found)


def test_the_idle_probe_passes_a_live_release_and_fails_one_whose_link_got_slow(
    live: Deployment, tmp_path: Path
) -> None:
    before = live.outputs()
    finished = live.up(observed(before["ledger"]["live"]["release"]["note"]))
    assert finished.code == 0, finished.text
    assert live.outputs()["live"] == before["live"] and "measuring" not in finished.text
    cluster = cluster_of(live)
    assert NAME in {item.metadata.name for item in cluster.batch.list_namespaced_cron_job(cluster.namespace).items}
    passed, verdict = run_now(cluster)
    assert passed and verdict["outcome"] == "pass", verdict
    decoder = engine_url(live, "decode").partition("://")[2].partition(":")[0]
    limits = AlertLimits(live.namespace, transfer_ms=LIMIT_MS, window_s=30, least_transfers=1)
    with prometheus(tmp_path, pods(cluster), limits) as ask:
        first(ask, 'up{splitserve_tier="decode"} == 1')
        for name in ("KvTransferSlow", "KvTransfersFailed", "KvNotMoved"):
            assert ask(alert(name)) == []
        link.throttle(decoder, SLOW_MBIT_PER_S)
        try:
            passed, verdict = run_now(cluster)
            slow = first(ask, alert("KvTransferSlow"), lambda: ask_anew(before))
        finally:
            link.restore(decoder)
    assert (passed, verdict["outcome"], verdict["cause"]) == (False, "fail", "slow-link"), verdict
    assert slow["splitserve_release"] == before["live"]
