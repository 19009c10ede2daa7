"""Questions to the front door, as a user asks them; a stack's shape and cluster; and where tests note what they measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx

from components.release.cluster import Access, Cluster, Pod
from tools.deployment import Deployment

ENGINE_PORT = 8000


def cluster_of(deployment: Deployment) -> Cluster:
    """The cluster and namespace of a stack."""
    return Cluster(Access(deployment.environment["KUBECONFIG"], None, deployment.namespace))


def pods_of(deployment: Deployment, tier: str) -> list[Pod]:
    """The live release's ready pods of a tier."""
    return [p for p in cluster_of(deployment).pods(deployment.outputs()["live"]) if p.tier == tier and p.ready]


def engine_url(deployment: Deployment, tier: str) -> str:
    """A live engine past the front door: it serves by itself whatever is sent to it without KV parameters."""
    return f"http://{pods_of(deployment, tier)[0].ip}:{ENGINE_PORT}"


Record = Callable[[str, object], None]
"""pytest's `record_property`: figures go into `--junitxml` beside the test."""


PROMPTS = ("Say hello.", "Name the seven colours of the rainbow, one a line.", "the work of the licensor " * 60)
Change = Callable[[dict[str, Any]], None]


def shaped(topology: str, render: int) -> Change:
    """A topology with so many render pods."""

    def change(settings: dict[str, Any]) -> None:
        settings["splitserve:topology"] = topology
        settings["splitserve:note"] = f"{topology}, render {render}"
        if render:
            settings["splitserve:render"] = {"replicas": render} | RENDER_ON_TWO_CORES

    return change


RENDER_ON_TWO_CORES: dict[str, Any] = {
    "resources": {"cpu": "100m", "memory": "2Gi"},
    "environment": {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1"},
}


def greedy(outputs: dict[str, Any]) -> list[str]:
    """What the stack says to PROMPTS at temperature 0."""
    return [text for prompt in PROMPTS if (text := _said(outputs, prompt))]


def _said(outputs: dict[str, Any], prompt: str) -> str:
    body = {"model": outputs["model"], "messages": [{"role": "user", "content": prompt}], "max_tokens": 12,
            "temperature": 0}  # fmt: skip
    reply = httpx.post(f"{outputs['endpoint']}/v1/chat/completions", json=body, timeout=60, trust_env=False)
    assert reply.status_code == 200, reply.text
    return reply.json()["choices"][0]["message"]["content"]


def answer(outputs: dict[str, Any]) -> dict[str, Any]:
    """The reply to a short chat request; outputs as from the stack."""
    body = {"model": outputs["model"], "messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 8}
    reply = httpx.post(f"{outputs['endpoint']}/v1/chat/completions", json=body, timeout=60, trust_env=False)
    assert reply.status_code == 200, reply.text
    return reply.json()
