"""A real Prometheus scrapes engines over HTTP by the list of pods, and its alerts carry the pods' release and tier."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from components.observability.limits import AlertLimits
from components.serving.labels import pod_labels
from tests.engine.running_prometheus import alert, first, prometheus
from tests.unit.fake_vllm import Engine, Server, serving

LIMITS = AlertLimits(window_s=30, least_tokens=100)


def pod(tier: str, server: Server) -> dict[str, Any]:
    """A pod as the API server writes it, at the address of a server here."""
    port = {"name": "http", "containerPort": int(server.url.rpartition(":")[2])}
    return {
        "metadata": {"name": f"{tier}-1", "namespace": "splitserve", "labels": pod_labels("r1", tier)},
        "spec": {"containers": [{"name": "vllm", "ports": [port]}]},
        "status": {"phase": "Running", "podIP": "127.0.0.1"},
    }


def test_a_silent_decoder_and_a_failed_transfer_are_told_by_release_and_pod(tmp_path: Path) -> None:
    prefill, decode = Engine(), Engine()

    def traffic() -> None:
        """Both tiers serve, the decoder receives nothing, and now and then a transfer fails."""
        prefill.tokens += 200
        decode.tokens += 200
        decode.failed += 1

    with serving(prefill, decode) as (first_server, second_server):
        pods = [pod("prefill", first_server), pod("decode", second_server)]
        with prometheus(tmp_path, pods, LIMITS) as ask:
            silent = first(ask, alert("KvNotMoved", pod="decode-1"), traffic)
            assert (silent["splitserve_release"], silent["splitserve_tier"]) == ("r1", "decode")
            failed = first(ask, alert("KvTransfersFailed", alertstate="firing"), traffic)
            assert (failed["pod"], failed["namespace"], failed["severity"]) == ("decode-1", "splitserve", "critical")
            assert not ask(alert("MetricsMissing")), "both engines are scraped"
