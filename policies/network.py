"""Network: what EFA needs, so that KV cache can move between nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Literal

from pulumi_policy import PolicyResource
from pulumi_policy.proxy import UnknownValueError

from policies.gpu_groups import EXCHANGING_TIERS, NODE_GROUP, tiers
from policies.nodes import CARRIES_EFA, LAUNCH_TEMPLATE
from policies.references import Reference, References, given
from policies.rule import Finding, Setting, Stack, stack_rule
from policies.unknown import independently, known, some

SECURITY_GROUP = "aws:ec2/securityGroup:SecurityGroup"
DEFAULT_GROUP = "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup"
CLUSTER = "aws:eks/cluster:Cluster"
"""Has a security group of its own (vpcConfig.clusterSecurityGroupId), known only once it exists."""
GROUP_RULE = "aws:ec2/securityGroupRule:SecurityGroupRule"
SINGLE_RULES = {
    "ingress": "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule",
    "egress": "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule",
}
ALL_PROTOCOLS = ("-1", "all")
SUBNET = "aws:ec2/subnet:Subnet"
Direction = Literal["ingress", "egress"]
DIRECTIONS: tuple[Direction, ...] = ("ingress", "egress")


@stack_rule(
    "efa-self-rules", "mandatory",
    "An EFA interface has a security group that lets all protocols in from itself and out to itself.",
    fix="add an ingress and an egress rule of protocol -1 with the group itself as source and destination "
        "(0.0.0.0/0 does not cover EFA: its addresses are no IP addresses)",
    source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start.html: security group; "
           "awsome-distributed-ai#546; gardener#1832",
    settings=[Setting("checkedGroups", [], "ids of security groups of others that are known to have both rules")],
)  # fmt: skip
def efa_self_rules(stack: Stack) -> Iterator[Finding]:
    """One open group of an interface is enough: EC2 takes all groups' rules together."""
    yield from independently(_closed(template, stack) for template in stack.of(LAUNCH_TEMPLATE))


def _closed(template: PolicyResource, stack: Stack) -> Iterator[Finding]:
    references = References(stack.resources, SECURITY_GROUP, DEFAULT_GROUP, CLUSTER)
    told: set[str] = set()
    for interface in template.props.get("networkInterfaces") or []:
        if interface.get("interfaceType") not in CARRIES_EFA:
            continue
        found = _lacking(template, interface, references, stack)
        if found and found not in told:
            told.add(found)
            yield Finding(found, "both rules on one of them", at=template)


def _lacking(template: PolicyResource, interface: Mapping[str, Any], references: References, stack: Stack) -> str:
    """What the interface's groups lack, empty where nothing."""
    groups = interface.get("securityGroups") or []
    pointed = [
        references.of(template, "networkInterfaces", lambda place=place: groups[place]) for place in range(len(groups))
    ]
    checked = stack.settings["checkedGroups"]
    if any(reference.foreign in checked for reference in pointed if reference.foreign):
        return ""
    targets = {target.urn: target for reference in pointed for target in reference.resources}
    foreign = {reference.foreign for reference in pointed if reference.foreign}
    owners: list[PolicyResource | str] = [*targets.values(), *sorted(foreign)]
    if some(lambda owner=owner: _open_both_ways(owner, stack) for owner in owners):
        return ""
    names = [owner if isinstance(owner, str) else f"`{owner.name}`" for owner in owners] or ["none"]
    missing = [way for way in DIRECTIONS if not some(lambda o=o, w=way: _open(o, w, stack) for o in owners)]
    lack = " and ".join(missing) or "both in one"
    return f"EFA interfaces with the groups {', '.join(names)}, whose all-protocol rule to itself is missing: {lack}"


def _open_both_ways(owner: PolicyResource | str, stack: Stack) -> bool:
    return all(_open(owner, direction, stack) for direction in DIRECTIONS)


def _open(owner: PolicyResource | str, direction: Direction, stack: Stack) -> bool:
    """Whether the group lets everything through from or to itself, by its inline rules or single ones."""
    rules = stack.of(GROUP_RULE, SINGLE_RULES[direction])
    tests: list[Callable[[], bool]] = [partial(_single_rule_opens, rule, owner, direction, stack) for rule in rules]
    if isinstance(owner, PolicyResource) and owner.resource_type != CLUSTER:
        tests.append(partial(_inline_rule_opens, owner, direction))
    return some(tests)


def _inline_rule_opens(group: PolicyResource, direction: Direction) -> bool:
    own = known(lambda: group.props.get("id"))

    def opens(rule: Mapping[str, Any]) -> bool:
        itself = rule.get("self") or (own is not None and own in (rule.get("securityGroups") or []))
        return rule.get("protocol") in ALL_PROTOCOLS and bool(itself)

    return some(lambda rule=rule: opens(rule) for rule in given(group, direction) or [])


def _single_rule_opens(rule: PolicyResource, owner: PolicyResource | str, direction: Direction, stack: Stack) -> bool:
    """`aws.ec2.SecurityGroupRule` with a type, or `aws.vpc.SecurityGroupIngressRule` and `…EgressRule`."""
    general = rule.resource_type == GROUP_RULE
    if general and rule.props.get("type") != direction:
        return False
    if rule.props.get("protocol" if general else "ipProtocol") not in ALL_PROTOCOLS:
        return False
    references = References(stack.resources, SECURITY_GROUP, DEFAULT_GROUP, CLUSTER)

    def points(key: str) -> bool:
        return _is(references.of(rule, key, lambda: rule.props.get(key)), owner)

    if not points("securityGroupId"):
        return False
    if general and known(lambda: rule.props.get("self")):
        return True
    return points("sourceSecurityGroupId" if general else "referencedSecurityGroupId")


def _is(reference: Reference, owner: PolicyResource | str) -> bool:
    return reference.foreign == owner if isinstance(owner, str) else reference.may_be(owner)


@stack_rule(
    "one-zone", "mandatory", "All prefill and decode nodes of a stack lie in one availability zone.",
    fix="give all their node groups subnets of one zone: EFA traffic crosses none. To move a stack to another zone, "
        "make this rule advisory for that one update",
    source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa.html: limitations; aws-samples eks-ml #118",
    settings=[Setting("subnetZones", {}, "the zone by id of subnets that other stacks made")],
)  # fmt: skip
def one_zone(stack: Stack) -> Iterator[Finding]:
    zones: dict[str, set[str]] = {}
    unknown: UnknownValueError | None = None
    groups = [g for g in stack.of(NODE_GROUP) if any(tier in EXCHANGING_TIERS for tier in tiers(g.props))]
    try:
        for zone, place in independently(_zones(group, stack) for group in groups):
            zones.setdefault(zone, set()).add(place)
    except UnknownValueError as error:
        unknown = error
    untold = zones.pop("", set())
    if len(zones) > 1:
        found = "; ".join(f"{zone}: {', '.join(sorted(places))}" for zone, places in sorted(zones.items()))
        yield Finding(f"the zones {found}", "one")
    if untold and (zones or len({place.split()[-1] for place in untold}) > 1):
        yield Finding(f"subnets of another stack, so of unknown zone: {', '.join(sorted(untold))}", "known zones",
                      "give all node groups the one subnet, or name the zones in `subnetZones` of the policy "
                      "configuration")  # fmt: skip
    if unknown:
        raise unknown


def _zones(group: PolicyResource, stack: Stack) -> Iterator[tuple[str, str]]:
    """The zones of a node group, each with group and subnet; "" where only another stack knows it.

    While ids are unknown, the subnets that `subnetIds` depends on may be more than it names.
    """
    named = known(lambda: group.props.get("subnetIds")) or []
    references = References(stack.resources, SUBNET)
    pointed = [references.of(group, "subnetIds", lambda place=place: named[place]) for place in range(len(named))]
    for foreign in (reference.foreign for reference in pointed if reference.foreign):
        yield stack.settings["subnetZones"].get(foreign, ""), f"{group.name} in {foreign}"
    possible = {subnet.urn: subnet for reference in pointed for subnet in reference.resources}
    if not named:
        possible = {s.urn: s for s in group.property_dependencies.get("subnetIds", []) if s.resource_type == SUBNET}
    found = [(_zone(subnet), f"{group.name} in {subnet.name}") for subnet in possible.values()]
    settled = all(reference.certain for reference in pointed) or len(possible) == len(named)
    if len({zone for zone, _ in found}) > 1 and not settled:
        list(group.props["subnetIds"])  # raises the unknown value
    yield from found


def _zone(subnet: PolicyResource) -> str:
    return subnet.props.get("availabilityZone") or subnet.props.get("availabilityZoneId") or ""
