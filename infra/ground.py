"""What a release stands on: a cluster that is there, or one that this update makes.

The two kinds differ in when the cluster can be asked. Whatever they have in common with the rest of the
program is `Ground`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pulumi
import pulumi_kubernetes as k8s

from components.existing.found import Found
from components.nodes.device_claim import DeviceClaim
from components.nodes.node_plugins import NodePlugins, NodePluginsArgs
from components.nodes.rdma_counters import RdmaCounters
from components.release.cluster import Access
from components.release.ledger import Plan as UpdatePlan
from components.release.nodes import Nodes
from components.serving.front_door import RouterAccess
from components.serving.labels import MANAGED_BY, OWNER_LABEL
from components.serving.network_policies import NetworkPolicies, NetworkPoliciesArgs
from infra import output_names as names
from infra import preflight
from infra.existing_ground import discovered, lacking
from infra.node_plugins import check_plugins, device_claims, plugin_args, rdma_counters
from infra.plan import Plan

if TYPE_CHECKING:  # boto3 and pulumi-aws cost every other stack a second
    from components.platform.cluster_facts import ClusterFacts


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
    outputs: dict[str, Any] = field(default_factory=dict)


async def cluster_of_another(plan: Plan, where: str) -> ClusterFacts | None:
    """The cluster that another stack made, for a serving stack on AWS; None everywhere else."""
    if plan.settings.platform.kind != "aws" or plan.settings.platform.layers != "serving":
        return None
    from infra.cluster_of_another import read_cluster

    return await read_cluster(plan, where)


def observe(plan: Plan, project: Path, owner: str, stack: str, where: str,
            theirs: ClusterFacts | None = None) -> Observed:  # fmt: skip
    """Ask the cluster before anything is declared; on AWS there may be none yet, or another stack's."""
    if plan.settings.platform.kind == "aws":
        from infra import aws_ground

        return aws_ground.observe(plan, project, owner, stack, where, theirs)
    access = preflight.access(plan.settings.platform, project, where)
    cluster = preflight.observe(access, owner, where)
    if plan.settings.platform.kind == "local":
        return Observed(access, cluster)
    found = discovered(plan, access, where, rights=True)
    serves = plan.settings.platform.layers != "cluster"
    return Observed(access, cluster, found=found, warnings=lacking(plan, owner, found, where) if serves else ())


def declare_cluster(plan: Plan, observed: Observed, owner: str,
                    stack: str) -> tuple[k8s.Provider, list[pulumi.Resource], dict[str, Any]]:  # fmt: skip
    """The cluster layer alone: the way to the cluster, what its pods have to wait for, and its outputs."""
    if plan.settings.platform.kind == "aws":
        from infra import aws_ground

        there = aws_ground.own_cluster(plan, observed, stack)
        return there.kubernetes, there.ready, {names.CLUSTER: there.facts.exported()}
    return _existing(observed.access, owner), [], {}


def declare(plan: Plan, update: UpdatePlan, observed: Observed, owner: str, stack: str,
            theirs: ClusterFacts | None = None) -> Ground:  # fmt: skip
    if plan.settings.platform.kind == "aws":
        from infra import aws_ground

        return aws_ground.declare(plan, update, observed, owner, stack, theirs)
    plugins = check_plugins(plugin_args(plan, owner, observed.found), stack)
    opts = foundation(_existing(observed.access, owner), plan, observed.access, update, plugins, [])
    return Ground(opts, service_type=plan.settings.edge.service_type)


def _existing(access: Access, owner: str) -> k8s.Provider:
    return k8s.Provider(
        "cluster",
        kubeconfig=access.kubeconfig,
        context=access.context,
        # Another path to the same cluster must not replace every resource in it.
        cluster_identifier=owner,
    )


def foundation(provider: k8s.Provider, plan: Plan, access: Access, update: UpdatePlan, plugins: NodePluginsArgs,
               after: list[pulumi.Resource]) -> pulumi.ResourceOptions:  # fmt: skip
    """Namespace, network policies, router identity and node plugins: what every release stands on."""
    owner = plugins.owner
    namespace = k8s.core.v1.Namespace(
        "namespace",
        metadata=k8s.meta.v1.ObjectMetaArgs(name=access.namespace, labels={**MANAGED_BY, OWNER_LABEL: owner}),
        opts=pulumi.ResourceOptions(provider=provider, depends_on=after),
    )
    inside = pulumi.ResourceOptions(provider=provider, depends_on=[namespace])
    router_access = RouterAccess("router-access", access.namespace, inside)
    policies = NetworkPolicies("network-policies", _policy_args(plan, access), inside)
    on_nodes = _on_nodes(plan, access, update, plugins, inside)
    return pulumi.ResourceOptions(providers=[provider], depends_on=[namespace, router_access, policies, *on_nodes])


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
    return NetworkPoliciesArgs(access.namespace, engine.port, router.port, router.metrics_port)
