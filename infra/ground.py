"""What a release stands on: a cluster that is there, or one that this update makes.

The kinds differ in when the cluster can be asked. Whatever they have in common with the rest of the
program is `Ground`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pulumi
import pulumi_kubernetes as k8s

from components.existing.found import Found
from components.release.cluster import Access
from components.release.ledger import Plan as UpdatePlan
from infra import preflight
from infra.existing_ground import discovered, lacking, refuse_without_operator
from infra.foundation import Ground, Observed, foundation
from infra.leader_worker_sets import controller_args
from infra.node_plugins import check_plugins, plugin_args
from infra.observability import operator_kinds
from infra.over_nodes import tiers_over_nodes
from infra.plan import Plan
from infra.site import Site
from splitserve import names

if TYPE_CHECKING:  # boto3 and pulumi-aws cost every other stack a second
    from components.platform.cluster_facts import ClusterFacts


async def cluster_of_another(plan: Plan, where: str) -> ClusterFacts | None:
    """The cluster that another stack made, for a serving stack on AWS; None everywhere else."""
    if plan.settings.platform.kind != "aws" or plan.settings.platform.layers != "serving":
        return None
    from infra.cluster_of_another import read_cluster

    return await read_cluster(plan, where)


def observe(plan: Plan, site: Site, theirs: ClusterFacts | None = None) -> Observed:
    """Ask the cluster before anything is declared; on AWS there may be none yet, or another stack's."""
    if plan.settings.platform.kind == "aws":
        from infra import aws_ground

        return aws_ground.observe(plan, site.project, site.owner, site.stack, site.where, theirs)
    where = site.where
    access = preflight.access(plan.settings.platform, site.project, where)
    cluster = preflight.observe(access, site.owner, where)
    if plan.settings.platform.kind == "local":
        return Observed(access, cluster, found=_brought_by_others(plan, access, where))
    found, warnings = discovered(plan, access, where, rights=True)
    if found is not None and plan.settings.platform.layers != "cluster":
        warnings += lacking(plan, site.owner, found, where)
    return Observed(access, cluster, found=found, warnings=warnings)


def _brought_by_others(plan: Plan, access: Access, where: str) -> Found | None:
    """On the local cluster: what makes groups of pods, and the Prometheus operator's kinds. None: not asked."""
    asked = operator_kinds(plan.settings)
    if not (tiers_over_nodes(plan) or asked):
        return None
    found, _ = discovered(plan, access, where)
    if asked and found:
        refuse_without_operator(plan, found, where)
    return found


def declare_cluster(plan: Plan, observed: Observed,
                    site: Site) -> tuple[k8s.Provider, list[pulumi.Resource], dict[str, Any]]:  # fmt: skip
    """The cluster layer alone: the way to the cluster, what its pods have to wait for, and its outputs."""
    if plan.settings.platform.kind == "aws":
        from infra import aws_ground

        there = aws_ground.own_cluster(plan, observed, site.stack)
        return there.kubernetes, there.ready, {names.CLUSTER: there.facts.exported()}
    return _existing(observed.access, site), [], {}


def declare(plan: Plan, update: UpdatePlan, observed: Observed, site: Site,
            theirs: ClusterFacts | None = None) -> Ground:  # fmt: skip
    if plan.settings.platform.kind == "aws":
        from infra import aws_ground

        return aws_ground.declare(plan, update, observed, site.owner, site.stack, theirs)
    plugins = check_plugins(plugin_args(plan, site.owner, observed.found), site.stack)
    groups = controller_args(plan, site.owner, observed.found, site.stack, update)
    kubernetes = _existing(observed.access, site)
    opts = foundation(kubernetes, plan, observed.access, update, plugins, [], groups, site.parent)
    return Ground(opts, service_type=plan.settings.edge.service_type)


def _existing(access: Access, site: Site) -> k8s.Provider:
    return k8s.Provider(
        "cluster",
        kubeconfig=access.kubeconfig,
        context=access.context,
        # Another path to the same cluster must not replace every resource in it.
        cluster_identifier=site.owner,
        opts=pulumi.ResourceOptions(parent=site.parent),
    )
