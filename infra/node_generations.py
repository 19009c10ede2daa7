"""From a plan to the node generations of its engine tiers, and to where each tier's pods may run."""

from __future__ import annotations

from dataclasses import replace

from components.hardware.catalogue import known_instance
from components.platform.node_generation import NODES_LABEL, ROUTER_NODES, NodeGeneration, node_selector, tolerations
from components.serving.spec import ENCODER, RENDER, ROUTER, PodPlacement
from infra.plan import Plan
from infra.schema.platform import Aws, NodeGroup

GPU_DISK_GIB = 200
"""Room for images of 10 GB and more, twice."""
CPU_DISK_GIB = 50


def node_generations(plan: Plan) -> dict[str, NodeGeneration]:
    """By engine tier; empty where the platform makes no nodes."""
    aws = plan.settings.platform.aws
    if aws is None:
        return {}
    groups = {tier: plan.settings.node_group(tier) for tier in plan.settings.tiers}
    return {tier: node_generation(tier, group, aws) for tier, group in groups.items() if group}


def node_generation(tier: str, group: NodeGroup, aws: Aws) -> NodeGeneration:
    return NodeGeneration(
        tier=tier,
        instance=group.instance,
        zone=group.zone or aws.zone,
        capacity=group.capacity,
        reservation=group.reservation,
        placement_group=group.placement_group if _has_gpus(group.instance) else "none",
        addresses=group.addresses,
        disk_gib=group.disk_gib or (GPU_DISK_GIB if _has_gpus(group.instance) else CPU_DISK_GIB),
        ami=group.ami,
        ami_release=group.ami_release,
        kubernetes_version=aws.kubernetes_version,
        launch_template=group.launch_template,
        security_group=group.security_group,
        repair=group.repair,
    )


def placements(plan: Plan) -> dict[str, PodPlacement]:
    """By tier, the router's among them."""
    settings = plan.settings
    lock, user, labels = _lock_memory(plan), settings.run_as_user, settings.platform.node_selector
    found = {tier: PodPlacement(labels, user, lock) for tier in settings.tiers}
    for tier, generation in node_generations(plan).items():
        found[tier] = PodPlacement({**labels, **node_selector(generation)}, user, lock, tuple(tolerations(tier)))
    # Encoders need the engines' devices, and lie beside those that load the embeddings.
    beside = {ENCODER: found[next(iter(settings.tiers))]} if settings.encoder.replicas else {}
    return found | {ROUTER: _router_placement(plan), RENDER: _render_placement(plan), **beside}


def _render_placement(plan: Plan) -> PodPlacement:
    """On its own CPU pool where there is one, else beside the routers: never on a GPU node of AWS."""
    aws, labels = plan.settings.platform.aws, plan.settings.platform.node_selector
    if aws and aws.node_groups.render:
        return PodPlacement({**labels, NODES_LABEL.format(RENDER): "true"}, plan.settings.run_as_user)
    return replace(_router_placement(plan), lock_memory=False)


def _router_placement(plan: Plan) -> PodPlacement:
    aws, labels = plan.settings.platform.aws, plan.settings.platform.node_selector
    if aws is None:
        return PodPlacement(labels, plan.settings.run_as_user, _lock_memory(plan))
    return PodPlacement({**labels, **ROUTER_NODES}, plan.settings.run_as_user)


def _lock_memory(plan: Plan) -> bool:
    """Whether engines register memory for RDMA on nodes that limit locked memory."""
    stated = plan.settings.hardware
    return plan.on_efa or bool(stated and stated.rdma_resource and stated.memory_lock == "ipc-lock")


def _has_gpus(name: str) -> bool:
    found = known_instance(name)
    return found is not None and found.gpus > 0
