"""Render the gateway's pod: the router where there is a render tier. Pure.

Its program (components/gateway) comes with the release as one file and runs on vLLM's own image, whose
Python has every library that it needs.
"""

from __future__ import annotations

from typing import Any

from components.serving import pod, release_files
from components.serving.connectors.profiles import requests
from components.serving.connectors.transfer_config import chosen_for
from components.serving.engine import KILL_MARGIN_S, PRESTOP_S
from components.serving.release_files import FILES_MOUNT, MOUNT
from components.serving.router import PROBES, RELEASE_ENVIRONMENT, SERVICE_ACCOUNT
from components.serving.spec import ROUTER, TIERS, GatewaySpec, RenderSpec, ServingSpec

PROGRAM_FILE = "gateway.pyz"
KEYS_VOLUME = "api-keys"
KEYS_MOUNT = "/etc/splitserve/api-keys"
KEY = "api-key"


def gateway_pod(serving: ServingSpec, render: RenderSpec, gateway: GatewaySpec) -> dict[str, Any]:
    """The pod template's `spec`."""
    router = serving.router
    container = {
        "name": "gateway",
        "image": router.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", f"{MOUNT}/{PROGRAM_FILE}"],
        "args": gateway_arguments(serving, render, gateway),
        "env": [*RELEASE_ENVIRONMENT, *pod.HOME],
        "ports": [
            {"name": "http", "containerPort": router.port},
            {"name": "metrics", "containerPort": router.metrics_port},
        ],
        "lifecycle": {"preStop": {"sleep": {"seconds": PRESTOP_S}}},
        "resources": pod.resources(router.resources),
        "securityContext": pod.SECURITY_CONTEXT,
        "volumeMounts": [*pod.SCRATCH_MOUNTS, FILES_MOUNT, *_key_mounts(gateway)],
        **PROBES,
    }
    volumes = [*pod.scratch_volumes(router.resources.shm), *release_files.volumes(container), *_key_volumes(gateway)]
    grace_s = PRESTOP_S + router.drain_s + KILL_MARGIN_S
    spec = pod.pod_spec(serving.placement[ROUTER], container, volumes, grace_s)
    # It asks the API server for the release's pods, as the router does.
    return spec | {"serviceAccountName": SERVICE_ACCOUNT, "automountServiceAccountToken": True}


def gateway_arguments(serving: ServingSpec, render: RenderSpec, gateway: GatewaySpec) -> list[str]:
    """Its flags; `$(RELEASE)` and `$(NAMESPACE)` are filled in by the kubelet."""
    engine = next(iter(serving.tiers.values())).engine
    arguments = {
        "--host": "0.0.0.0",
        "--port": str(serving.router.port),
        "--metrics-port": str(serving.router.metrics_port),
        "--namespace": "$(NAMESPACE)",
        "--release": "$(RELEASE)",
        "--topology": serving.topology,
        "--render-port": str(render.port),
        "--engine-port": str(engine.port),
        "--drain-s": str(serving.router.drain_s),
        **gateway.arguments,
    }
    if gateway.api_key_secret:
        arguments["--api-key-file"] = f"{KEYS_MOUNT}/{KEY}"
    connector = chosen_for(serving, TIERS[serving.topology][-1])
    own = requests(connector, serving.topology).gateway or ()
    return [*(part for pair in arguments.items() for part in pair), *own]


def _key_mounts(gateway: GatewaySpec) -> list[dict[str, Any]]:
    return [{"name": KEYS_VOLUME, "mountPath": KEYS_MOUNT, "readOnly": True}] if gateway.api_key_secret else []


def _key_volumes(gateway: GatewaySpec) -> list[dict[str, Any]]:
    if not gateway.api_key_secret:
        return []
    return [{"name": KEYS_VOLUME, "secret": {"secretName": gateway.api_key_secret}}]
