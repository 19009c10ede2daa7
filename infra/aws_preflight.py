"""Ask AWS what a plan depends on, before anything is declared: from a plan to one message with every fault."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from components.platform.preflight.answer import Answer
from components.platform.preflight.ask import Clients
from components.platform.preflight.run import Outcomes, run_checks
from components.platform.preflight.wanted import Wanted, WantedGroup
from infra.aws_names import POOLS, STACK_TAG, platform_name, second_zone, zones
from infra.node_generations import node_generation
from infra.plan import Plan
from infra.rules.all_rules import check
from infra.rules.rule import Finding
from infra.schema.platform import Aws, NodeGroup
from infra.settings import SettingsError

if TYPE_CHECKING:  # it costs a command the import of Pulumi
    from components.platform.cluster_facts import ClusterFacts


@dataclass(frozen=True)
class Preflight:
    """`plan` has EC2's security groups in it; `warnings` are what could not be checked, and more."""

    plan: Plan
    answers: tuple[Answer, ...]
    warnings: tuple[str, ...]


def wanted(plan: Plan, stack: str, theirs: ClusterFacts | None = None) -> Wanted:
    """What a plan for AWS wants, of which the stack's own things are there already, and the cluster where
    it is another stack's (`theirs`). ValueError off AWS."""
    settings, aws = plan.settings, plan.settings.platform.aws
    if aws is None:
        raise ValueError(f"platform.kind is {settings.platform.kind}: there is nothing to ask AWS")
    tiers = [*settings.tiers, *POOLS]
    groups = {tier: group for tier in tiers if (group := getattr(aws.node_groups, tier, None))}
    makes_it = settings.platform.layers != "serving"
    return Wanted(
        region=aws.region, zone=aws.zone, groups=tuple(_group(tier, group, aws) for tier, group in groups.items()),
        cluster_name=str(theirs.name) if theirs else platform_name(stack), kubernetes_version=aws.kubernetes_version,
        eips=_nat_gateways(aws) if makes_it else 0, vpcs=int(makes_it), subnet_ids=tuple(map(str, theirs.private.values())) if theirs else (),
        other_zones=tuple(_other_zones(aws)) if makes_it else (), own_tag=(STACK_TAG, stack),
        swap=settings.rollout.strategy == "swap",
    )  # fmt: skip


def _group(tier: str, group: NodeGroup, aws: Aws) -> WantedGroup:
    generation = node_generation(tier, group, aws)
    return WantedGroup(
        key=f"platform.aws.nodeGroups.{tier}", tier=tier, instance=group.instance, nodes=group.nodes,
        zone=generation.zone, capacity=group.capacity, reservation=group.reservation,
        placement_group=generation.placement_group, addresses=group.addresses, ami=group.ami,
        ami_release=group.ami_release, security_group=group.security_group, launch_template=group.launch_template,
        node_group=f"-{tier}" if tier in POOLS else f"-{generation.name}",
    )  # fmt: skip


def _other_zones(aws: Aws) -> list[tuple[str, str]]:
    balancer = [(f"platform.aws.loadBalancerZones[{i}]", zone) for i, zone in enumerate(aws.load_balancer_zones)]
    return [("platform.aws.secondZone", second_zone(aws)), *balancer]


def _nat_gateways(aws: Aws) -> int:
    """Each has an Elastic IP (components/platform/network.py)."""
    return {"none": 0, "one": 1, "each-zone": len(zones(aws))}[aws.network.nat]


def preflight(plan: Plan, where: str, stack: str, theirs: ClusterFacts | None = None,
              clients: Clients | None = None) -> Preflight:  # fmt: skip
    """Ask AWS. Raises SettingsError with every fault, and every error of the rules on security groups."""
    outcomes = run_checks(wanted(plan, stack, theirs), clients)
    asked, errors, warnings = judged(plan, outcomes)
    faults = [*map(str, outcomes.of("fault")), *map(str, errors)]
    unknown = [f"could not check: {answer}" for answer in outcomes.of("unknown")]
    if faults:
        raise SettingsError(where, faults + unknown)
    dated = [str(answer) for answer in outcomes.of("ok") if "WARNING" in answer.found]
    return Preflight(asked, outcomes.answers, (*unknown, *dated, *map(str, warnings)))


def judged(plan: Plan, outcomes: Outcomes) -> tuple[Plan, list[Finding], list[Finding]]:
    """The plan with EC2's security groups, and what the rules find in it that they could not find before."""
    asked = replace(plan, security_groups={**plan.security_groups, **outcomes.security_groups})
    if not outcomes.security_groups:
        return asked, [], []
    before = set(check(plan))
    new = [finding for finding in check(asked) if finding not in before]
    return asked, [f for f in new if f.severity == "error"], [f for f in new if f.severity != "error"]
