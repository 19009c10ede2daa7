"""The RDMA shared device plugin: pods share the node's InfiniBand or RoCE adapters as `rdma/<name>`."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import pulumi

from components.nodes import images
from components.nodes.daemon import (
    KUBELET_PLUGINS,
    Daemon,
    daemon_set,
    declare,
    host_path,
    metadata,
    mount,
    resources,
)
from components.nodes.names import GPU_NODES, RDMA_PREFIX

NAME = "splitserve-rdma-shared-device-plugin"
PRIVILEGED_BECAUSE = (
    "it reads and hands out the node's /dev/infiniband devices and the node's network interfaces; upstream "
    "runs it privileged (Mellanox/k8s-rdma-shared-dev-plugin v1.5.3, deployment/k8s/base/daemonset.yaml)"
)
MELLANOX = "15b3"
_RESOURCE_NAME = re.compile(r"^[a-zA-Z0-9_]+$")
_REGISTRY = "/var/lib/kubelet/plugins_registry"


@dataclass(frozen=True)
class RdmaSelectors:
    """Which adapters: any value of a selector, and all selectors that are given (README at v1.5.3).

    `link_types` tells InfiniBand (`infiniband`) from RoCE (`ether`); without it and without `if_names`
    an Ethernet adapter for management of the same vendor is handed out too.
    """

    vendors: tuple[str, ...] = (MELLANOX,)
    device_ids: tuple[str, ...] = ()
    drivers: tuple[str, ...] = ()
    if_names: tuple[str, ...] = ()
    link_types: tuple[str, ...] = ()

    def to_json(self) -> dict[str, list[str]]:
        keys = {"device_ids": "deviceIDs", "if_names": "ifNames", "link_types": "linkTypes"}
        return {keys.get(name, name): list(values) for name, values in asdict(self).items() if values}


@dataclass(frozen=True)
class RdmaSharedDevicePluginArgs:
    """`resource_name` without its prefix; `hca_max` pods of a node may share its adapters."""

    owner: str
    resource_name: str = "hca_shared_devices_a"
    hca_max: int = 1000
    selectors: RdmaSelectors = field(default_factory=RdmaSelectors)
    selector: Mapping[str, str] = field(default_factory=lambda: GPU_NODES)
    image: str = images.RDMA_SHARED_DEVICE_PLUGIN.reference

    def __post_init__(self) -> None:
        if faults := self._faults():
            raise ValueError("RDMA shared device plugin: " + "; ".join(faults))

    def _faults(self) -> list[str]:
        """What the plugin itself would refuse, in a log that nobody reads (pkg/resources/resources_manager.go)."""
        faults = []
        if not _RESOURCE_NAME.match(self.resource_name):
            faults.append(f"found resource name {self.resource_name!r}, wanted letters, digits and _")
        if self.hca_max < 1:
            faults.append(f"found rdmaHcaMax {self.hca_max}, wanted at least 1")
        if not self.selectors.to_json():
            faults.append("found no selector, wanted at least one of vendors, deviceIDs, drivers, ifNames, linkTypes")
        return faults

    @property
    def resource(self) -> str:
        """What pods ask for."""
        return f"{RDMA_PREFIX}/{self.resource_name}"


def render_config(args: RdmaSharedDevicePluginArgs) -> dict[str, Any]:
    """The plugin's ConfigMap (README at v1.5.3, "Configurations")."""
    entry = {
        "resourceName": args.resource_name,
        "resourcePrefix": RDMA_PREFIX,
        "rdmaHcaMax": args.hca_max,
        "selectors": args.selectors.to_json(),
    }
    content = {"periodicUpdateInterval": 300, "configList": [entry]}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(NAME, args.owner),
        "data": {"config.json": json.dumps(content, indent=1)},
    }


def render(args: RdmaSharedDevicePluginArgs) -> dict[str, Any]:
    """After deployment/k8s/base at v1.5.3. The plugin reads its file once, so new content restarts it."""
    content = render_config(args)["data"]["config.json"]
    container = {
        "name": "rdma-shared-device-plugin",
        "image": args.image,
        "securityContext": {"privileged": True},
        "resources": resources("10m", "32Mi", "256Mi"),
        "volumeMounts": [
            mount("device-plugins", KUBELET_PLUGINS),
            mount("plugins-registry", _REGISTRY),
            mount("config", "/k8s-rdma-shared-dev-plugin", readOnly=True),
            mount("devices", "/dev"),
        ],
    }
    volumes = [
        host_path("device-plugins", KUBELET_PLUGINS, "Directory"),
        host_path("plugins-registry", _REGISTRY, "Directory"),
        {"name": "config", "configMap": {"name": NAME, "items": [{"key": "config.json", "path": "config.json"}]}},
        host_path("devices", "/dev"),
    ]
    restart = {"splitserve.dev/config": hashlib.sha256(content.encode()).hexdigest()[:12]}
    return daemon_set(
        Daemon(
            NAME, args.owner, args.selector, [container], volumes, PRIVILEGED_BECAUSE,
            host_network=True, template_annotations=restart,
        )
    )  # fmt: skip


class RdmaSharedDevicePlugin(pulumi.ComponentResource):
    """The plugin and its configuration on every node with RDMA adapters."""

    daemon_set: pulumi.Output[str]
    resource: pulumi.Output[str]

    def __init__(self, name: str, args: RdmaSharedDevicePluginArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("splitserve:nodes:RdmaSharedDevicePlugin", name, None, opts)
        config = declare(render_config(args), self)
        self.daemon_set = declare(render(args), self, after=[config]).metadata["name"]
        self.resource = pulumi.Output.from_input(args.resource)
        self.register_outputs({"daemonSet": self.daemon_set, "resource": self.resource})
