"""From a plan to the device plugins that its nodes need, less what the cluster has already. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from components.existing.found import Found, is_rdma
from components.existing.present import present
from components.nodes.device_claim import DeviceClaimArgs, efas_per_gpu
from components.nodes.names import EFA_NODES, EFA_RESOURCE, GPU_RESOURCE, Plugin
from components.nodes.node_plugins import NodePluginsArgs, PluginFault, decide, wanted_plugins
from components.nodes.rdma_counters import RdmaCountersArgs
from components.release.release import Release
from infra.plan import Plan
from infra.settings import SettingsError


def plugins_wanted(plan: Plan) -> frozenset[Plugin]:
    """By what the engines' pods ask for; another device resource is served by whoever made it.

    A cluster's stack knows no pods: it installs for GPUs, and on AWS for EFA. A serving stack installs nothing.
    """
    platform = plan.settings.platform
    software = platform.node_software
    if platform.layers == "serving":
        return frozenset()
    asked = _devices_asked(plan)
    alone = platform.layers == "cluster"
    return wanted_plugins(
        gpu=GPU_RESOURCE in asked or alone, efa=EFA_RESOURCE in asked or (alone and platform.kind == "aws"),
        rdma_shared=software.rdma_shared, dcgm=software.gpu_metrics, devices_by=software.devices,
    )  # fmt: skip


def _devices_asked(plan: Plan) -> set[str]:
    """The device resources that the engines' pods ask for."""
    return {name for tier in plan.settings.tiers for name in plan.settings.resources_of(tier).extended}


def plugin_args(plan: Plan, owner: str, found: Found | None) -> NodePluginsArgs:
    """`found` is what discovery saw; None before there is a cluster, or where nothing is wanted on its nodes."""
    platform, stated = plan.settings.platform, plan.settings.hardware
    args = NodePluginsArgs(owner, plugins_wanted(plan))
    if found is not None:
        resource = stated.rdma_resource if stated else None
        args = replace(args, present=present(found, owner, resource), kubernetes_version=found.kubernetes_version)
    elif platform.aws:
        args = replace(args, kubernetes_version=platform.aws.kubernetes_version)
    return args


def rdma_counters(plan: Plan, owner: str, namespace: str, image: str) -> RdmaCountersArgs | None:
    """The exporter of RDMA counters; None where no pod asks for such a device."""
    platform = plan.settings.platform
    if not platform.node_software.rdma_metrics or not any(map(is_rdma, _devices_asked(plan))):
        return None
    selector = platform.node_selector if platform.kind == "existing" else EFA_NODES
    return RdmaCountersArgs(owner, namespace, image, plan.settings.run_as_user, selector)


def device_claims(releases: Iterable[Release | None], owner: str, namespace: str) -> list[DeviceClaimArgs]:
    """The ResourceClaimTemplates that the pods of these releases name."""
    pods = [pod for release in releases if release for pod in release.pods.values()]
    names = sorted({claim["resourceClaimTemplateName"] for pod in pods for claim in pod.get("resourceClaims", [])})
    known = {name: efas for name in names if (efas := efas_per_gpu(name)) is not None}
    return [DeviceClaimArgs(name, namespace, owner, efas) for name, efas in known.items()]


def check_plugins(args: NodePluginsArgs, where: str) -> NodePluginsArgs:
    """The same arguments. Raises SettingsError where two of them can't stand beside each other."""
    try:
        decide(args)
    except PluginFault as fault:
        raise SettingsError(where, [f"platform.nodeSoftware: {line}" for line in fault.faults]) from None
    return args
