"""Cost: who pays, and how much a stack may grow to."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pulumi_policy import PolicyResource
from pulumi_policy.proxy import UnknownValueError

from policies.amounts import whole
from policies.gpu_groups import DECIDING, NODE_GROUP, is_gpu_group
from policies.nodes import LAUNCH_TEMPLATE
from policies.references import given
from policies.rule import Finding, Resource, Setting, Stack, resource_rule, stack_rule
from policies.unknown import independently

BILLED = (
    LAUNCH_TEMPLATE,
    NODE_GROUP,
    "aws:autoscaling/group:Group",
    "aws:cloudwatch/logGroup:LogGroup",
    "aws:ebs/volume:Volume",
    "aws:ec2/capacityBlockReservation:CapacityBlockReservation",
    "aws:ec2/capacityReservation:CapacityReservation",
    "aws:ec2/eip:Eip",
    "aws:ec2/instance:Instance",
    "aws:ec2/natGateway:NatGateway",
    "aws:ec2/vpcEndpoint:VpcEndpoint",
    "aws:efs/fileSystem:FileSystem",
    "aws:eks/cluster:Cluster",
    "aws:fsx/lustreFileSystem:LustreFileSystem",
    "aws:kms/key:Key",
    "aws:lb/loadBalancer:LoadBalancer",
    "aws:s3/bucket:Bucket",
)
"""Taggable types that are on the bill, or whose instances are."""
UNIFORM_TAGS = "aws:autoscaling/group:Group"
"""Has a list of key, value and propagateAtLaunch in place of a map."""
LAUNCHED = ("instance", "volume")
"""What a launch template's own tags do not reach: tagSpecifications do (EKS user guide, "Launch templates")."""


@resource_rule(
    "cost-tags", "advisory", "What is on the bill carries the tags by which it is split.",
    kinds=BILLED,
    fix="set the tags, or the provider's defaultTags; in a launch template tagSpecifications for instance and volume too",
    source="https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/cost-alloc-tags.html",
    settings=[Setting("tags", ["splitserve:stack"], "the tags that everything on the bill carries")],
)  # fmt: skip
def cost_tags(resource: Resource) -> Iterator[Finding]:
    wanted = resource.settings["tags"]
    parts = [_missing(wanted, lambda: _tags(resource), "tags")]
    if resource.kind == LAUNCH_TEMPLATE:
        parts += [
            _missing(
                wanted, lambda kind=kind: _launched_tags(resource.props, kind), f"tags on each {kind} that it starts"
            )
            for kind in LAUNCHED
        ]
    yield from independently(parts)


def _missing(wanted: Iterable[str], read: Any, what: str) -> Iterator[Finding]:
    found = read()
    missing = [tag for tag in wanted if tag not in found]
    if missing:
        yield Finding(f"{what} without {', '.join(missing)}", "them")


def _tags(resource: Resource) -> set[str]:
    """Names of the resource's tags, the provider's default ones included. Values may be unknown."""
    own = resource.props.get("tags") or {}
    if resource.kind == UNIFORM_TAGS:
        own = {tag["key"]: tag for tag in own}
    return {*own, *(resource.props.get("tagsAll") or {}), *_default_tags(resource)}


def _default_tags(resource: Resource) -> Mapping[str, Any]:
    """A provider's nested inputs travel as JSON text (pulumi_aws provider.py)."""
    given = resource.provider.props.get("defaultTags") if resource.provider else None
    return (json.loads(given) if isinstance(given, str) else given or {}).get("tags") or {}


def _launched_tags(props: Mapping[str, Any], kind: str) -> set[str]:
    entries = [entry for entry in props.get("tagSpecifications") or [] if entry.get("resourceType") == kind]
    return {tag for entry in entries for tag in entry.get("tags") or {}}


@stack_rule(
    "gpu-ceiling", "advisory", "The GPU node groups of a stack together stay below a ceiling.",
    fix="lower scalingConfig.maxSize, or raise `ceiling` in the policy configuration",
    source="https://docs.aws.amazon.com/eks/latest/APIReference/API_NodegroupScalingConfig.html",
    settings=[Setting("ceiling", 64, "the most GPU instances that a stack may grow to")],
)  # fmt: skip
def gpu_ceiling(stack: Stack) -> Iterator[Finding]:
    sizes: dict[str, int] = {}
    unknown: UnknownValueError | None = None
    try:
        for name, size in independently(_size(group) for group in stack.of(NODE_GROUP)):
            sizes[name] = size
    except UnknownValueError as error:
        unknown = error
    ceiling = whole(stack.settings["ceiling"])
    if sum(sizes.values()) > ceiling:
        parts = ", ".join(f"{name} {size}" for name, size in sorted(sizes.items()))
        yield Finding(f"up to {sum(sizes.values())} GPU instances ({parts})", f"at most {ceiling}")
    if unknown:
        raise unknown


def _size(group: PolicyResource) -> Iterator[tuple[str, int]]:
    if is_gpu_group({key: given(group, key) for key in DECIDING}):
        yield group.name, whole((group.props.get("scalingConfig") or {}).get("maxSize"))
