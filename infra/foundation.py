"""What every release stands on, whatever the platform: namespace, network policies, node plugins."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from components.existing.found import Found
from components.nodes.device_claim import DeviceClaim
from components.nodes.leader_worker_set import LeaderWorkerSetArgs, LeaderWorkerSetController
from components.nodes.node_plugins import NodePlugins, NodePluginsArgs
from components.nodes.rdma_counters import RdmaCounters
from components.observability.observability import Observability
from components.release.cluster import Access
from components.release.ledger import Plan as UpdatePlan
from components.release.nodes import Nodes
from components.serving.autoscaler import Autoscaler
from components.serving.connectors.profiles import measurement
from components.serving.front_door import RouterAccess
from components.serving.labels import MANAGED_BY, OWNER_LABEL
from components.serving.network_policies import NetworkPolicies, NetworkPoliciesArgs
from infra import preflight
from infra.autoscaler_arguments import autoscaler_args
from infra.node_plugins import device_claims, rdma_counters
from infra.observability_arguments import observability_args
from infra.plan import Plan


@dataclass(frozen=True)
class Observed:
    """How to reach the cluster, what is ours in it, and how many nodes its groups are set to.

    `found` is what discovery saw of nodes and plugins, where it looked; `warnings` are for the user.
    """

    access: Access
    cluster: preflight.Observed
    nodes: dict[str, int] = field(default_factory=dict)
    found: Found | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ground:
    """`opts` go to the release switch; `outputs` are the platform's own."""

    opts: pulumi.ResourceOptions
    nodes: Nodes | None = None
    outside: pulumi.Output[str] | None = None
    node_port: int | None = None
    service_type: str = "ClusterIP"
    ca: str | None = None
    """The certificate authority (PEM) of an endpoint that clients don't know by themselves."""
    outputs: dict[str, Any] = field(default_factory=dict)


def foundation(provider: k8s.Provider, plan: Plan, access: Access, update: UpdatePlan, plugins: NodePluginsArgs,
               after: list[pulumi.Resource], groups: LeaderWorkerSetArgs | None = None,
               parent: pulumi.Resource | None = None) -> pulumi.ResourceOptions:  # fmt: skip
    """Namespace, network policies, router identity, node plugins and what makes groups of pods: what every release
    stands on. All of it is below `parent`, as the release switch is by the options that come back."""
    owner = plugins.owner
    namespace = k8s.core.v1.Namespace(
        "namespace",
        metadata=k8s.meta.v1.ObjectMetaArgs(name=access.namespace, labels={**MANAGED_BY, OWNER_LABEL: owner}),
        opts=pulumi.ResourceOptions(provider=provider, depends_on=after, parent=parent),
    )
    inside = pulumi.ResourceOptions(provider=provider, depends_on=[namespace], parent=parent)
    router_access = RouterAccess("router-access", access.namespace, inside)
    policies = NetworkPolicies("network-policies", _policy_args(plan, access), inside)
    on_nodes = _on_nodes(plan, access, update, plugins, inside)
    on_nodes += _group_controller(groups, pulumi.ResourceOptions(provider=provider, depends_on=after, parent=parent))
    if autoscaler := autoscaler_args(plan, access.namespace, update):
        Autoscaler("autoscaler", autoscaler, inside)
    if watched := observability_args(plan, access.namespace, update):
        Observability("observability", watched, inside)
    needed = [namespace, router_access, policies, *on_nodes]
    return pulumi.ResourceOptions(providers=[provider], depends_on=needed, parent=parent)


def _group_controller(args: LeaderWorkerSetArgs | None, opts: pulumi.ResourceOptions) -> list[pulumi.Resource]:
    """What a LeaderWorkerSet waits for: its webhooks must answer, or the API server refuses it."""
    return LeaderWorkerSetController("leader-worker-sets", args, opts).ready if args else []


def _on_nodes(plan: Plan, access: Access, update: UpdatePlan, plugins: NodePluginsArgs,
              opts: pulumi.ResourceOptions) -> list[pulumi.Resource]:  # fmt: skip
    """Device plugins and metrics; nothing where no pod asks for a device."""
    made: list[pulumi.Resource] = []
    if plugins.wanted:
        made.append(NodePlugins("node-plugins", plugins, opts))
    releases = [update.live.release if update.live else None, update.candidate]
    for claim in device_claims(releases, plugins.owner, access.namespace):
        made.append(DeviceClaim(claim.name, claim, opts))
    if counters := rdma_counters(plan, plugins.owner, access.namespace, _image_on_nodes(update)):
        made.append(RdmaCounters("rdma-counters", counters, opts))
    return made


def _image_on_nodes(update: UpdatePlan) -> str:
    """The engines' image that nodes have already: the live release's, before one the candidate's."""
    release = update.live.release if update.live else update.candidate
    assert release is not None  # an update has one of the two
    return release.pods[release.engine_tiers[0]]["containers"][0]["image"]


def _policy_args(plan: Plan, access: Access) -> NetworkPoliciesArgs:
    engine, router = plan.settings.engine, plan.settings.router
    ports = (engine.port, router.port, router.metrics_port, plan.settings.render.port)
    asked = measurement(plan.settings.connector.chosen, plan.settings.topology).bootstrap
    return NetworkPoliciesArgs(access.namespace, *ports, engine.side_channel_port if asked else None)
