"""Render the router's pod: vllm-router, which finds the engines of its own release by label.

Flags: vllm-router 0.1.17 `router_args.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from components.serving import pod
from components.serving.command_line import words
from components.serving.connectors.profiles import requests
from components.serving.connectors.transfer_config import chosen_for
from components.serving.engine import KILL_MARGIN_S, PRESTOP_S
from components.serving.labels import RELEASE_LABEL, TIER_LABEL
from components.serving.spec import ROUTER, ServingSpec

SERVICE_ACCOUNT = "splitserve-router"


PROBES: dict[str, Any] = {
    "readinessProbe": {
        "httpGet": {"path": "/health", "port": "http"},
        "periodSeconds": 2,
        "timeoutSeconds": 5,
    },
    # Only a router that hangs for a minute is restarted: a busy node delays answers, and a restart breaks
    # every stream.
    "livenessProbe": {
        "httpGet": {"path": "/liveness", "port": "http"},
        "initialDelaySeconds": 10,
        "periodSeconds": 10,
        "timeoutSeconds": 10,
        "failureThreshold": 6,
    },
}


RELEASE_ENVIRONMENT: list[dict[str, Any]] = [
    {"name": "RELEASE", "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{RELEASE_LABEL}']"}}},
    {"name": "NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
]
"""Which release's pods a router may find."""


def router_pod(serving: ServingSpec) -> dict[str, Any]:
    """The pod template's `spec` for the router of a release."""
    return routing_pod(serving, "router", ["python3", "-m", "vllm_router.launch_router"], router_arguments(serving))


def routing_pod(serving: ServingSpec, name: str, command: list[str], arguments: list[str],
                mounts: Sequence[dict[str, Any]] = (), volumes: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:  # fmt: skip
    """The pod of whatever routes a release's requests: `mounts` and `volumes` beyond scratch space."""
    router = serving.router
    container = {
        "name": name,
        "image": router.image,
        "imagePullPolicy": "IfNotPresent",
        "command": command,
        "args": arguments,
        "env": [*RELEASE_ENVIRONMENT, *pod.HOME],
        "ports": [
            {"name": "http", "containerPort": router.port},
            {"name": "metrics", "containerPort": router.metrics_port},
        ],
        "lifecycle": {"preStop": {"sleep": {"seconds": PRESTOP_S}}},
        "resources": pod.resources(router.resources),
        "securityContext": pod.SECURITY_CONTEXT,
        "volumeMounts": [*pod.SCRATCH_MOUNTS, *mounts],
        **PROBES,
    }
    spec = pod.pod_spec(
        serving.placement[ROUTER],
        container,
        volumes=[*pod.scratch_volumes(router.resources.shm), *volumes],
        grace_s=PRESTOP_S + router.drain_s + KILL_MARGIN_S,
    )
    # It asks the API server for the release's pods, so it is the one pod with a token.
    return spec | {"serviceAccountName": SERVICE_ACCOUNT, "automountServiceAccountToken": True}


def router_arguments(serving: ServingSpec) -> list[str]:
    """vllm-router's arguments; `$(RELEASE)` and `$(NAMESPACE)` are filled in by the kubelet."""
    router = serving.router
    engine_port = next(iter(serving.tiers.values())).engine.port
    common = {
        "--host": "0.0.0.0",
        "--port": str(router.port),
        "--prometheus-host": "0.0.0.0",
        "--prometheus-port": str(router.metrics_port),
        "--policy": router.policy,
        "--service-discovery-namespace": "$(NAMESPACE)",
        "--service-discovery-port": str(engine_port),
    }
    arguments = ["--service-discovery", *words(common)]
    if serving.topology == "collocated":
        return [*arguments, "--selector", *_selector("collocated")]
    return [
        *arguments,
        "--vllm-pd-disaggregation",
        # Rules have refused a connector that it can't route.
        *("--kv-connector", requests(chosen_for(serving, "decode"), serving.topology).router or serving.connector),
        *("--prefill-selector", *_selector("prefill")),
        *("--decode-selector", *_selector("decode")),
    ]


def _selector(tier: str) -> list[str]:
    return [f"{RELEASE_LABEL}=$(RELEASE)", f"{TIER_LABEL}={tier}"]
