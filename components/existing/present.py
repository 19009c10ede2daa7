"""Which plugins a cluster has already, and by whom: what the stack must not install again. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from components.existing.found import Found, Installed
from components.nodes.names import EFA_RESOURCE, GPU_RESOURCE, PLUGINS, Plugin

DRA_DRIVERS: Mapping[str, Plugin] = {"gpu.nvidia.com": "gpu-dra", "dra.net": "efa-dra"}
RESOURCES: Mapping[Plugin, str] = {"gpu": GPU_RESOURCE, "efa": EFA_RESOURCE}


def present(found: Found, owner: str, rdma_resource: str | None = None) -> dict[Plugin, str]:
    """Plugin -> whose. What carries this stack's own label is the stack's to keep, not somebody else's:
    were it counted, the next update would take it away.

    A resource that nodes advertise without a DaemonSet is served by the nodes themselves, as on EKS Auto
    Mode and on Bottlerocket.
    """
    installed = found.installed or ()
    ours = {item.plugin for item in installed if item.owner == owner}
    result: dict[Plugin, str] = {}
    for plugin in PLUGINS:
        if plugin in ours:
            continue
        other = next((item for item in installed if item.plugin == plugin), None)
        if whose := _whose(other) or _advertised(found, plugin, rdma_resource) or _driver(found, plugin):
            result[plugin] = whose
    return result


def _whose(item: Installed | None) -> str | None:
    return item.whose if item else None


def _advertised(found: Found, plugin: Plugin, rdma_resource: str | None) -> str | None:
    resource = rdma_resource if plugin == "rdma-shared" else RESOURCES.get(plugin)
    if resource and any(node.allocatable.get(resource) for node in found.nodes):
        return f"the nodes themselves, which advertise {resource}"
    return None


def _driver(found: Found, plugin: Plugin) -> str | None:
    for driver in found.dra.drivers if found.dra else ():
        if DRA_DRIVERS.get(driver.name) == plugin:
            return f"a DRA driver, which publishes {driver.name}"
    return None
