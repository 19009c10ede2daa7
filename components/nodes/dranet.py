"""DRANET as AWS builds it: EFA devices by Dynamic Resource Allocation, with their PCIe root."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pulumi

from components.nodes import images
from components.nodes.daemon import Daemon, access, daemon_set, declare, host_path, metadata, mount, resources
from components.nodes.names import EFA_NODES

NAME = "splitserve-dranet"
DRIVER = "dra.net"
DEVICE_CLASS = "efa.networking.k8s.aws"
PORT = 9177
_EFA = "Elastic Fabric Adapter (EFA)"
_NODE_FOLDERS = {
    "plugins": "/var/lib/kubelet/plugins",
    "plugins-registry": "/var/lib/kubelet/plugins_registry",
    "nri": "/var/run/nri",
    "netns": "/var/run/netns",
    "infiniband": "/dev/infiniband",
    "state": "/var/run/dranet",
}


@dataclass(frozen=True)
class DranetArgs:
    owner: str
    selector: Mapping[str, str] = field(default_factory=lambda: EFA_NODES)
    image: str = images.DRANET.reference


def render_device_class(owner: str) -> dict[str, Any]:
    """The class by which pods ask for EFA, named as AWS names it (eks-charts aws-dranet 1.0.0)."""
    expression = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].pciDevice == '{_EFA}'"
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": metadata(NAME, owner, None) | {"name": DEVICE_CLASS},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }


def render_access(owner: str) -> list[dict[str, Any]]:
    """The driver's rights (eks-charts aws-dranet 1.0.0, clusterrole.yaml)."""
    group = "resource.k8s.io"
    return access(NAME, owner, [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
        {"apiGroups": [group], "resources": ["resourceslices"], "verbs": ["list", "watch", "create", "update", "delete"]},
        {"apiGroups": [group], "resources": ["resourceclaims", "deviceclasses"], "verbs": ["get"]},
        {"apiGroups": [group], "resources": ["resourceclaims/status"], "verbs": ["patch", "update"]},
        {"apiGroups": [group], "resources": ["resourceclaims/driver"], "resourceNames": [DRIVER],
         "verbs": ["associated-node:patch", "associated-node:update"]},
    ])  # fmt: skip


def render(args: DranetArgs) -> dict[str, Any]:
    """After eks-charts aws-dranet 1.0.0: root without a single capability. Only EFA is offered, so that
    no pod takes a node's ordinary interface away. Chosen by a label, not by the chart's list of types."""
    container = {
        "name": "dranet",
        "image": args.image,
        "args": [
            "/dranet", "--v=2", "--hostname-override=$(NODE_NAME)", f"--bind-address=:{PORT}",
            "--cloud-provider-hint=AWS",
            f'--filter="{DRIVER}/pciDevice" in attributes && attributes["{DRIVER}/pciDevice"].StringValue == "{_EFA}"',
        ],
        "env": [{"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        "securityContext": {
            "runAsUser": 0, "runAsGroup": 0, "readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"},
        },
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": PORT}},
        "resources": resources("100m", "50Mi", "256Mi"),
        "volumeMounts": [_mount(name, path) for name, path in _NODE_FOLDERS.items()] + [mount("tmp", "/tmp")],
    }  # fmt: skip
    volumes = [host_path(name, path, "DirectoryOrCreate") for name, path in _NODE_FOLDERS.items()]
    volumes.append({"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "10Mi"}})
    return daemon_set(
        Daemon(NAME, args.owner, args.selector, [container], volumes, host_network=True, service_account=NAME)
    )


def _mount(name: str, path: str) -> dict[str, Any]:
    """Namespaces and devices that appear later must be seen."""
    later = {"mountPropagation": "HostToContainer"} if name in ("netns", "infiniband") else {}
    return mount(name, path, **later)


class Dranet(pulumi.ComponentResource):
    """The driver on every node with EFA interfaces, its rights, and the class that pods name."""

    daemon_set: pulumi.Output[str]
    device_class: pulumi.Output[str]

    def __init__(self, name: str, args: DranetArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("splitserve:nodes:Dranet", name, None, opts)
        rights = [declare(manifest, self) for manifest in render_access(args.owner)]
        self.daemon_set = declare(render(args), self, after=rights).metadata["name"]
        self.device_class = declare(render_device_class(args.owner), self).metadata["name"]
        self.register_outputs({"daemonSet": self.daemon_set, "deviceClass": self.device_class})
