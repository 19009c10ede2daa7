"""The cluster of another stack, by stack reference: what it exports, held against what this stack wants."""

from __future__ import annotations

from collections.abc import Iterator

import pulumi

from components.platform.cluster_facts import ClusterFacts, NotACluster
from infra.aws_arguments import aws_of
from infra.plan import Plan
from infra.schema.platform import Aws
from infra.settings import SettingsError
from splitserve import names

KEY = "platform.aws.clusterStack"


async def read_cluster(plan: Plan, where: str) -> ClusterFacts:
    """The facts that the stack reference gives. Raises SettingsError where they don't fit the plan."""
    aws = aws_of(plan.settings)
    assert aws.cluster_stack is not None  # rule cluster-stack-named
    found = await pulumi.StackReference(aws.cluster_stack).get_output_details(names.CLUSTER)
    try:
        facts = ClusterFacts.read(found.value)
    except NotACluster as error:
        raise SettingsError(where, [
            f"{KEY}: found {error} in stack {aws.cluster_stack}, wanted one that a `pulumi up` with layers: cluster made; "
            "run it there first, with the same version of splitserve"
        ]) from None  # fmt: skip
    if faults := list(faults_of(plan, facts)):
        raise SettingsError(where, faults)
    return facts


def faults_of(plan: Plan, facts: ClusterFacts) -> Iterator[str]:
    """What of this stack does not lie in that cluster."""
    aws = aws_of(plan.settings)
    if aws.region != facts.region:
        yield f"platform.aws.region: found {aws.region}, wanted {facts.region}, where the cluster of {aws.cluster_stack} is"
    if aws.kubernetes_version != facts.kubernetes_version:
        yield (
            f"platform.aws.kubernetesVersion: found {aws.kubernetes_version}, wanted {facts.kubernetes_version}, "
            f"the version of the cluster of {aws.cluster_stack}"
        )
    yield from _zone_faults(plan, aws, facts)


def _zone_faults(plan: Plan, aws: Aws, facts: ClusterFacts) -> Iterator[str]:
    edge = plan.settings.edge
    groups = {tier: plan.settings.node_group(tier) for tier in plan.settings.tiers}
    zones = {"platform.aws.zone": aws.zone}
    zones |= {f"platform.aws.nodeGroups.{tier}.zone": g.zone for tier, g in groups.items() if g and g.zone}
    for key, zone in zones.items():
        if zone not in facts.private:
            yield f"{key}: found {zone}, wanted a zone where {aws.cluster_stack} has subnets: {', '.join(facts.private)}"
    if edge.service_type != "LoadBalancer":
        return
    there = facts.public if edge.internet_facing else facts.private
    for zone in aws.load_balancer_zones or [aws.zone]:
        if zone not in there:
            kind = "public" if edge.internet_facing else "private"
            yield (
                f"platform.aws.loadBalancerZones: found {zone}, wanted a zone where {aws.cluster_stack} has {kind} "
                f"subnets: {', '.join(there) or 'none, set platform.aws.network.publicSubnets there'}"
            )
