"""What a cluster's nodes need and don't have yet: nothing is installed twice, nobody else's is touched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pulumi

from components.nodes import images
from components.nodes.dcgm_exporter import DcgmExporter, DcgmExporterArgs
from components.nodes.device_claim import dra_fault
from components.nodes.dranet import Dranet, DranetArgs
from components.nodes.efa_device_plugin import EfaDevicePlugin, EfaDevicePluginArgs
from components.nodes.names import EFA_NODES, GPU_NODES, PLUGINS, DevicesBy, Plugin
from components.nodes.nvidia_device_plugin import NvidiaDevicePlugin, NvidiaDevicePluginArgs
from components.nodes.nvidia_dra_driver import NvidiaDraDriver, NvidiaDraDriverArgs
from components.nodes.rdma_shared_device_plugin import RdmaSelectors, RdmaSharedDevicePlugin, RdmaSharedDevicePluginArgs

_EITHER: tuple[tuple[Plugin, Plugin, str], ...] = (
    ("gpu", "gpu-dra", "chart dra-driver-nvidia-gpu 0.4.1 refuses to stand beside the device plugin"),
    ("efa", "efa-dra", "EKS user guide, device-management-efa: not both on the same nodes"),
)


class PluginFault(ValueError):
    """What is wanted can't be had; `faults` has a line for each reason, with the way out."""

    def __init__(self, faults: list[str]) -> None:
        self.faults = faults
        super().__init__("node plugins: " + "; ".join(faults))


@dataclass(frozen=True)
class NodePluginsArgs:
    """`present` names who has a plugin already, as `components.existing.present` finds it. Selectors are
    the stack's own labels unless the cluster is somebody else's."""

    owner: str
    wanted: frozenset[Plugin]
    present: Mapping[Plugin, str] = field(default_factory=dict)
    kubernetes_version: str = "1.34"
    gpu_nodes: Mapping[str, str] = field(default_factory=lambda: GPU_NODES)
    efa_nodes: Mapping[str, str] = field(default_factory=lambda: EFA_NODES)
    rdma_nodes: Mapping[str, str] = field(default_factory=lambda: GPU_NODES)
    rdma_resource_name: str = "hca_shared_devices_a"
    rdma_hca_max: int = 1000
    rdma_selectors: RdmaSelectors = field(default_factory=RdmaSelectors)
    runtime_class: str | None = None
    driver_root: str = "/"
    profiling: bool = False
    efa_image: str = images.EFA_DEVICE_PLUGIN.reference
    dranet_image: str = images.DRANET.reference


@dataclass(frozen=True)
class Decision:
    """What is installed, and what is left to whom."""

    install: tuple[Plugin, ...]
    left: Mapping[Plugin, str]


def wanted_plugins(*, gpu: bool, efa: bool, rdma_shared: bool = False, dcgm: bool = True,
                   devices_by: DevicesBy = "plugin") -> frozenset[Plugin]:  # fmt: skip
    """The plugins for some hardware. There is no DRA driver here for InfiniBand or RoCE."""
    plugin, dra = devices_by == "plugin", devices_by == "dra"
    chosen: dict[Plugin, bool] = {
        "gpu": gpu and plugin, "gpu-dra": gpu and dra, "efa": efa and plugin, "efa-dra": efa and dra,
        "rdma-shared": rdma_shared, "dcgm": dcgm and gpu,
    }  # fmt: skip
    return frozenset(name for name, yes in chosen.items() if yes)


def decide(args: NodePluginsArgs) -> Decision:
    """Wanted less present. Raises PluginFault with all faults at once."""
    install: tuple[Plugin, ...] = tuple(p for p in PLUGINS if p in args.wanted and p not in args.present)
    if faults := [*_conflicts(args, install), *_too_old(args, install)]:
        raise PluginFault(faults)
    return Decision(install, {plugin: args.present[plugin] for plugin in PLUGINS if plugin in args.present})


def _conflicts(args: NodePluginsArgs, install: tuple[Plugin, ...]) -> list[str]:
    faults = []
    for plugin, driver, source in _EITHER:
        pairs: tuple[tuple[Plugin, Plugin], ...] = ((plugin, driver), (driver, plugin))
        for new, other in pairs:
            if new in install and other in args.present:
                faults.append(
                    f"found {other} ({args.present[other]}), wanted no {new} beside it ({source}); ask for {other}, or "
                    f"remove {args.present[other]}"
                )
        if plugin in install and driver in install:
            faults.append(f"found {plugin} and {driver} both wanted, wanted one of them ({source})")
    return faults


def _too_old(args: NodePluginsArgs, install: tuple[Plugin, ...]) -> list[str]:
    fault = dra_fault(args.kubernetes_version)
    return [fault] if fault and any(plugin.endswith("-dra") for plugin in install) else []


class NodePlugins(pulumi.ComponentResource):
    """The plugins that are missing. `left` says whose the others are; those are never touched."""

    installed: pulumi.Output[dict[str, str]]
    left: pulumi.Output[dict[str, str]]

    def __init__(self, name: str, args: NodePluginsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        decision = decide(args)
        super().__init__("splitserve:nodes:NodePlugins", name, None, opts)
        made = {plugin: self._plugin(name, plugin, args) for plugin in decision.install}
        self.installed = pulumi.Output.all(**{plugin: component.daemon_set for plugin, component in made.items()})
        self.left = pulumi.Output.from_input({str(plugin): whose for plugin, whose in decision.left.items()})
        self.register_outputs({"installed": self.installed, "left": self.left})

    def _plugin(self, name: str, plugin: Plugin, args: NodePluginsArgs) -> Any:
        inside, owner = pulumi.ResourceOptions(parent=self), args.owner
        title = f"{name}-{plugin}"
        match plugin:
            case "gpu":
                plugin_args = NvidiaDevicePluginArgs(owner, args.gpu_nodes, runtime_class=args.runtime_class)
                return NvidiaDevicePlugin(title, plugin_args, inside)
            case "efa":
                return EfaDevicePlugin(title, EfaDevicePluginArgs(owner, args.efa_nodes, args.efa_image), inside)
            case "rdma-shared":
                return RdmaSharedDevicePlugin(title, RdmaSharedDevicePluginArgs(
                    owner, args.rdma_resource_name, args.rdma_hca_max, args.rdma_selectors, args.rdma_nodes), inside)  # fmt: skip
            case "dcgm":
                return DcgmExporter(title, DcgmExporterArgs(
                    owner, args.gpu_nodes, runtime_class=args.runtime_class, profiling=args.profiling), inside)  # fmt: skip
            case "gpu-dra":
                driver_args = NvidiaDraDriverArgs(owner, args.gpu_nodes, driver_root=args.driver_root)
                return NvidiaDraDriver(title, driver_args, inside)
            case "efa-dra":
                return Dranet(title, DranetArgs(owner, args.efa_nodes, args.dranet_image), inside)
