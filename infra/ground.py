"""What a release stands on: a cluster that is there, or one that this update makes.

The two kinds differ in when the cluster can be asked. Whatever they have in common with the rest of the
program is `Ground`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from components.release.cluster import Access
from components.release.ledger import Plan as UpdatePlan
from components.release.nodes import Nodes
from components.serving.front_door import RouterAccess
from components.serving.labels import MANAGED_BY, OWNER_LABEL
from components.serving.network_policies import NetworkPolicies, NetworkPoliciesArgs
from infra import preflight
from infra.plan import Plan


@dataclass(frozen=True)
class Observed:
    """How to reach the cluster, what is in it, and how many nodes its groups are set to."""

    access: Access
    cluster: preflight.Observed
    nodes: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Ground:
    """`opts` go to the release switch; `outputs` are the platform's own."""

    opts: pulumi.ResourceOptions
    nodes: Nodes | None = None
    outside: pulumi.Output[str] | None = None
    node_port: int | None = None
    service_type: str = "ClusterIP"
    outputs: dict[str, Any] = field(default_factory=dict)


def observe(plan: Plan, project: Path, owner: str, stack: str, where: str) -> Observed:
    """Ask the cluster before anything is declared; on AWS there may be none yet."""
    if plan.settings.platform.kind == "aws":
        from infra import aws_ground  # boto3 and pulumi-aws cost every other stack a second

        return aws_ground.observe(plan, project, owner, stack, where)
    access = preflight.access(plan.settings.platform, project, where)
    return Observed(access, preflight.observe(access, owner, where))


def declare(plan: Plan, update: UpdatePlan, observed: Observed, owner: str, stack: str) -> Ground:
    if plan.settings.platform.kind == "aws":
        from infra import aws_ground

        return aws_ground.declare(plan, update, observed, owner, stack)
    access = observed.access
    provider = k8s.Provider(
        "cluster",
        kubeconfig=access.kubeconfig,
        context=access.context,
        # Another path to the same cluster must not replace every resource in it.
        cluster_identifier=owner,
    )
    return Ground(foundation(provider, plan, access, owner, []), service_type=plan.settings.edge.service_type)


def foundation(provider: k8s.Provider, plan: Plan, access: Access, owner: str,
               after: list[pulumi.Resource]) -> pulumi.ResourceOptions:  # fmt: skip
    """Namespace, network policies and router identity: what every release stands on."""
    namespace = k8s.core.v1.Namespace(
        "namespace",
        metadata=k8s.meta.v1.ObjectMetaArgs(name=access.namespace, labels={**MANAGED_BY, OWNER_LABEL: owner}),
        opts=pulumi.ResourceOptions(provider=provider, depends_on=after),
    )
    inside = pulumi.ResourceOptions(provider=provider, depends_on=[namespace])
    router_access = RouterAccess("router-access", access.namespace, inside)
    policies = NetworkPolicies("network-policies", _policy_args(plan, access), inside)
    return pulumi.ResourceOptions(providers=[provider], depends_on=[namespace, router_access, policies])


def _policy_args(plan: Plan, access: Access) -> NetworkPoliciesArgs:
    engine, router = plan.settings.engine, plan.settings.router
    return NetworkPoliciesArgs(access.namespace, engine.port, router.port, router.metrics_port)
