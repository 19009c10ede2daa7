"""NVIDIA's DRA driver, its GPU part alone: GPUs by Dynamic Resource Allocation, with their PCIe root.

Upstream's chart also installs compute domains (multi-node NVLink, CRDs, a controller) and an admission
policy that ties each node to its own resource slices. Those are left out: see docs/reference/node-plugins.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pulumi

from components.nodes import images
from components.nodes.daemon import Daemon, access, daemon_set, declare, host_path, metadata, mount, resources
from components.nodes.names import GPU_NODES, GPU_RESOURCE

NAME = "splitserve-nvidia-dra-driver"
DRIVER = "gpu.nvidia.com"
DEVICE_CLASS = "gpu.nvidia.com"
HEALTH_PORT = 51516
PRIVILEGED_BECAUSE = (
    "it mounts folders back onto the node (mount propagation Bidirectional needs it) and makes the GPUs' "
    "device files; upstream runs it privileged (kubernetes-sigs/dra-driver-nvidia-gpu v0.4.1, values.yaml)"
)
_REGISTRY = "/var/lib/kubelet/plugins_registry"
_PLUGINS = "/var/lib/kubelet/plugins"


@dataclass(frozen=True)
class NvidiaDraDriverArgs:
    """`driver_root` is where the node keeps NVIDIA's driver: `/`, or `/run/nvidia/driver` where the GPU
    operator installs it."""

    owner: str
    selector: Mapping[str, str] = field(default_factory=lambda: GPU_NODES)
    image: str = images.NVIDIA_DRA_DRIVER.reference
    driver_root: str = "/"


def render_device_class(owner: str) -> dict[str, Any]:
    """The class by which pods ask for GPUs. Its `extendedResourceName` lets pods that ask for
    nvidia.com/gpu go on, where the cluster has that feature on (KEP 5004)."""
    expression = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'gpu'"
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": metadata(NAME, owner, None) | {"name": DEVICE_CLASS},
        "spec": {"selectors": [{"cel": {"expression": expression}}], "extendedResourceName": GPU_RESOURCE},
    }


def render_access(owner: str) -> list[dict[str, Any]]:
    """The GPU part's rights (chart 0.4.1, rbac-kubeletplugin.yaml, without those for compute domains)."""
    look = ["get", "list", "watch"]
    group = "resource.k8s.io"
    return access(NAME, owner, [
        {"apiGroups": [group], "resources": ["resourceclaims"], "verbs": look},
        {"apiGroups": [group], "resources": ["resourceslices"], "verbs": [*look, "create", "update", "delete"]},
        {"apiGroups": [""], "resources": ["nodes"], "verbs": [*look, "update"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": look},
    ])  # fmt: skip


def render(args: NvidiaDraDriverArgs) -> dict[str, Any]:
    """After the chart at v0.4.1 with `resources.computeDomains.enabled=false`."""
    parent = args.driver_root.rstrip("/").rsplit("/", 1)[0] or "/"
    volumes = [
        host_path("plugins-registry", _REGISTRY),
        host_path("plugins", _PLUGINS),
        host_path("cdi", "/var/run/cdi", "DirectoryOrCreate"),
        host_path("driver-root", args.driver_root, "DirectoryOrCreate"),
        host_path("driver-root-parent", parent, "DirectoryOrCreate"),
    ]
    return daemon_set(
        Daemon(
            NAME, args.owner, args.selector, [_driver(args)], volumes, PRIVILEGED_BECAUSE,
            service_account=NAME, init_containers=[_prepare(args)],
        )
    )  # fmt: skip


def _prepare(args: NvidiaDraDriverArgs) -> dict[str, Any]:
    """Upstream's own script waits for the driver and says in words what is missing."""
    seen = {"readOnly": True} if args.driver_root == "/" else {"mountPropagation": "HostToContainer"}
    return {
        "name": "prepare",
        "image": args.image,
        "command": ["bash", "/usr/bin/kubelet-plugin-prestart.sh"],
        "env": _values(args, KUBELET_REGISTRAR_DIRECTORY_PATH=_REGISTRY, KUBELET_PLUGINS_DIRECTORY_PATH=_PLUGINS),
        "securityContext": {"privileged": True},
        "resources": resources("10m", "64Mi", "256Mi"),
        "volumeMounts": [mount("driver-root-parent", "/driver-root-parent", **seen)],
    }


def _driver(args: NvidiaDraDriverArgs) -> dict[str, Any]:
    health = {"grpc": {"port": HEALTH_PORT, "service": "liveness"}, "timeoutSeconds": 10}
    fields = {"NODE_NAME": "spec.nodeName", "NAMESPACE": "metadata.namespace",
              "SERVICE_ACCOUNT_NAME": "spec.serviceAccountName"}  # fmt: skip
    values = _values(
        args, CDI_ROOT="/var/run/cdi", NVIDIA_MIG_CONFIG_DEVICES="all", IMAGE_NAME=args.image,
        KUBELET_REGISTRAR_DIRECTORY_PATH=_REGISTRY, KUBELET_PLUGINS_DIRECTORY_PATH=_PLUGINS,
        HEALTHCHECK_PORT=str(HEALTH_PORT),
    )  # fmt: skip
    return {
        "name": "gpus",
        "image": args.image,
        "command": ["gpu-kubelet-plugin", "-v", "2"],
        "env": values + [{"name": n, "valueFrom": {"fieldRef": {"fieldPath": p}}} for n, p in fields.items()],
        "securityContext": {"privileged": True},
        "startupProbe": {**health, "failureThreshold": 600, "periodSeconds": 1},
        "livenessProbe": {**health, "failureThreshold": 3, "periodSeconds": 30},
        "resources": resources("50m", "64Mi", "512Mi"),
        "volumeMounts": [
            mount("plugins-registry", _REGISTRY),
            mount("plugins", _PLUGINS, mountPropagation="Bidirectional"),
            mount("cdi", "/var/run/cdi"),
            mount("driver-root", "/driver-root", mountPropagation="HostToContainer"),
        ],
    }


def _values(args: NvidiaDraDriverArgs, **more: str) -> list[dict[str, Any]]:
    """`void`: without it the container runtime would hand every GPU to the driver's own container."""
    values = {"NVIDIA_DRIVER_ROOT": args.driver_root, "NVIDIA_VISIBLE_DEVICES": "void", **more}
    return [{"name": name, "value": value} for name, value in values.items()]


class NvidiaDraDriver(pulumi.ComponentResource):
    """The driver on every node with NVIDIA GPUs, its rights, and the class that pods name."""

    daemon_set: pulumi.Output[str]
    device_class: pulumi.Output[str]

    def __init__(self, name: str, args: NvidiaDraDriverArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("splitserve:nodes:NvidiaDraDriver", name, None, opts)
        rights = [declare(manifest, self) for manifest in render_access(args.owner)]
        self.daemon_set = declare(render(args), self, after=rights).metadata["name"]
        self.device_class = declare(render_device_class(args.owner), self).metadata["name"]
        self.register_outputs({"daemonSet": self.daemon_set, "deviceClass": self.device_class})
