"""AWS's EFA device plugin: nodes advertise `vpc.amazonaws.com/efa`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pulumi

from components.nodes import images
from components.nodes.daemon import KUBELET_PLUGINS, Daemon, daemon_set, declare, host_path, mount, resources
from components.nodes.names import EFA_NODES

NAME = "splitserve-efa-device-plugin"
PRIVILEGED_BECAUSE = (
    "it opens the node's /dev/infiniband devices; AWS runs it privileged as root "
    "(aws/eks-charts aws-efa-k8s-device-plugin v0.5.30, values.yaml)"
)


@dataclass(frozen=True)
class EfaDevicePluginArgs:
    """`image` names another registry where nodes can't pull from us-west-2: other AWS partitions, or
    a network without internet (https://docs.aws.amazon.com/eks/latest/userguide/add-ons-images.html)."""

    owner: str
    selector: Mapping[str, str] = field(default_factory=lambda: EFA_NODES)
    image: str = images.EFA_DEVICE_PLUGIN.reference


def render(args: EfaDevicePluginArgs) -> dict[str, Any]:
    """After chart v0.5.30, but chosen by a label of ours: the chart's list of instance types leaves a
    type that is newer than the chart without plugin. Neuron's folder is left out: no accelerator of ours."""
    container = {
        "name": "efa-device-plugin",
        "image": args.image,
        "securityContext": {"privileged": True, "runAsUser": 0},
        "resources": resources("10m", "20Mi", "256Mi"),
        "volumeMounts": [mount("device-plugins", KUBELET_PLUGINS), mount("infiniband", "/dev/infiniband")],
    }
    volumes = [host_path("device-plugins", KUBELET_PLUGINS, "Directory"), host_path("infiniband", "/dev/infiniband")]
    return daemon_set(
        Daemon(NAME, args.owner, args.selector, [container], volumes, PRIVILEGED_BECAUSE, host_network=True)
    )  # fmt: skip


class EfaDevicePlugin(pulumi.ComponentResource):
    """The plugin on every node with EFA interfaces."""

    daemon_set: pulumi.Output[str]

    def __init__(self, name: str, args: EfaDevicePluginArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("splitserve:nodes:EfaDevicePlugin", name, None, opts)
        self.daemon_set = declare(render(args), self).metadata["name"]
        self.register_outputs({"daemonSet": self.daemon_set})
