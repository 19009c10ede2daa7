"""Render the gateway's pod: the router where there is a render tier. Pure.

Its program (components/gateway) comes with the release as one file and runs on vLLM's own image, whose
Python has every library that it needs.
"""

from __future__ import annotations

from typing import Any

from components.serving.command_line import words
from components.serving.connectors.profiles import requests
from components.serving.connectors.transfer_config import chosen_for
from components.serving.release_files import FILES_MOUNT, FILES_VOLUME, MOUNT
from components.serving.router import routing_pod
from components.serving.spec import TIERS, GatewaySpec, RenderSpec, ServingSpec

PROGRAM_FILE = "gateway.pyz"
KEYS_VOLUME = "api-keys"
KEYS_MOUNT = "/etc/splitserve/api-keys"
KEY = "api-key"


def gateway_pod(serving: ServingSpec, render: RenderSpec) -> dict[str, Any]:
    """The pod template's `spec`."""
    keys = _keys(render.gateway)
    return routing_pod(
        serving,
        "gateway",
        ["python3", f"{MOUNT}/{PROGRAM_FILE}"],
        gateway_arguments(serving, render),
        mounts=[FILES_MOUNT, *({"name": KEYS_VOLUME, "mountPath": KEYS_MOUNT, "readOnly": True} for _ in keys)],
        volumes=[FILES_VOLUME, *keys],
    )


def gateway_arguments(serving: ServingSpec, render: RenderSpec) -> list[str]:
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
        **render.gateway.arguments,
    }
    if serving.encoder:
        arguments["--encoder-tier"] = "yes"
    if render.gateway.api_key_secret:
        arguments["--api-key-file"] = f"{KEYS_MOUNT}/{KEY}"
    connector = chosen_for(serving, TIERS[serving.topology][-1])
    own = requests(connector, serving.topology).gateway or ()
    side_channel = str(next(iter(serving.tiers.values())).engine.side_channel_port)
    return [
        *words(arguments),
        *(side_channel if flag == "$port" else flag for flag in own),
    ]


def _keys(gateway: GatewaySpec) -> list[dict[str, Any]]:
    """The volume of the clients' keys, where it asks for one."""
    if not gateway.api_key_secret:
        return []
    return [{"name": KEYS_VOLUME, "secret": {"secretName": gateway.api_key_secret}}]
