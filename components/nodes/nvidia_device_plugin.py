"""NVIDIA's device plugin: nodes advertise `nvidia.com/gpu`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pulumi

from components.nodes import images
from components.nodes.daemon import KUBELET_PLUGINS, Daemon, daemon_set, declare, host_path, mount, resources
from components.nodes.names import GPU_NODES, OWN_PLUGIN, OWN_PLUGIN_LABEL

NAME = "splitserve-nvidia-device-plugin"


@dataclass(frozen=True)
class NvidiaDevicePluginArgs:
    """`runtime_class` is for nodes whose default container runtime is not NVIDIA's (`nvidia` then)."""

    owner: str
    selector: Mapping[str, str] = field(default_factory=lambda: GPU_NODES)
    image: str = images.NVIDIA_DEVICE_PLUGIN.reference
    runtime_class: str | None = None


def render(args: NvidiaDevicePluginArgs) -> dict[str, Any]:
    """After deployments/static/nvidia-device-plugin.yml at v0.20.0, the variables after its Helm chart:
    no capability, no privilege; upstream has no probe."""
    container = {
        "name": "nvidia-device-plugin",
        "image": args.image,
        "env": [
            {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
            {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"},
        ],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "resources": resources("10m", "64Mi", "512Mi"),
        "volumeMounts": [mount("device-plugins", KUBELET_PLUGINS)],
    }
    volumes = [host_path("device-plugins", KUBELET_PLUGINS, "Directory")]
    return daemon_set(
        Daemon(
            NAME, args.owner, args.selector, [container], volumes,
            runtime_class=args.runtime_class, keep_off={OWN_PLUGIN_LABEL: OWN_PLUGIN},
        )
    )  # fmt: skip


class NvidiaDevicePlugin(pulumi.ComponentResource):
    """The plugin on every node with NVIDIA GPUs."""

    daemon_set: pulumi.Output[str]

    def __init__(self, name: str, args: NvidiaDevicePluginArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("splitserve:nodes:NvidiaDevicePlugin", name, None, opts)
        self.daemon_set = declare(render(args), self).metadata["name"]
        self.register_outputs({"daemonSet": self.daemon_set})
