"""Nodes: what launch templates and node groups must say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pulumi_policy import PolicyResource

from components.hardware.catalogue import catalogue, dated
from components.hardware.interfaces import Interface, layout_faults
from policies.amounts import whole, yes
from policies.gpu_groups import EXCHANGING_TIERS, NODE_GROUP, is_gpu_group, is_gpu_type, tiers
from policies.references import References, given
from policies.rule import Finding, Resource, Setting, Stack, resource_rule, stack_rule
from policies.unknown import independently

LAUNCH_TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
INSTANCE = "aws:ec2/instance:Instance"
CARRIES_EFA = ("efa", "efa-only")


@resource_rule(
    "imds-v2", "mandatory", "Instance metadata is read with a session token only (IMDSv2).",
    kinds=(LAUNCH_TEMPLATE, INSTANCE),
    fix="set metadataOptions.httpTokens: required",
    source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/configuring-IMDS-new-instances.html",
)  # fmt: skip
def imds_v2(resource: Resource) -> Iterator[Finding]:
    options = resource.props.get("metadataOptions") or {}
    tokens = options.get("httpTokens")
    if tokens != "required" and options.get("httpEndpoint") != "disabled":
        yield Finding(f"metadataOptions.httpTokens {tokens or 'not set'}", "required")


@resource_rule(
    "gpu-group-has-maximum", "mandatory", "A GPU node group has a maximum size, and not a huge one.",
    kinds=(NODE_GROUP,),
    fix="set scalingConfig.maxSize, or raise `maximum` in the policy configuration",
    source="https://docs.aws.amazon.com/eks/latest/APIReference/API_NodegroupScalingConfig.html",
    settings=[Setting("maximum", 64, "the most nodes that one GPU node group may grow to")],
)  # fmt: skip
def gpu_group_has_maximum(resource: Resource) -> Iterator[Finding]:
    if not is_gpu_group(resource.props):
        return
    allowed = whole(resource.settings["maximum"])
    size = (resource.props.get("scalingConfig") or {}).get("maxSize")
    if size is None:
        yield Finding("no scalingConfig.maxSize", f"one of at most {allowed}")
    elif whole(size) > allowed:
        yield Finding(f"scalingConfig.maxSize {whole(size)}", f"at most {allowed}")


@resource_rule(
    "encrypted-volumes", "mandatory", "The volumes of nodes are encrypted.",
    kinds=(LAUNCH_TEMPLATE,),
    fix="set blockDeviceMappings[].ebs.encrypted: true, for the root device too",
    source="https://docs.aws.amazon.com/ebs/latest/userguide/ebs-encryption.html",
    settings=[Setting("encryptedByDefault", False, "the account encrypts new EBS volumes by default")],
)  # fmt: skip
def encrypted_volumes(resource: Resource) -> Iterator[Finding]:
    if yes(resource.settings["encryptedByDefault"]):
        return
    mappings = resource.props.get("blockDeviceMappings") or []
    if not mappings:
        yield Finding("no blockDeviceMappings, so the image's root volume as it is", "an encrypted root volume",
                      "name the root device with ebs.encrypted: true, or set `encryptedByDefault` in the policy "
                      "configuration where the account does that")  # fmt: skip
    yield from independently(_open_volume(mapping) for mapping in mappings)


def _open_volume(mapping: Mapping[str, Any]) -> Iterator[Finding]:
    """Instance store (virtualName) and suppressed devices (noDevice) are no EBS volumes."""
    if mapping.get("virtualName") or mapping.get("noDevice"):
        return
    encrypted = (mapping.get("ebs") or {}).get("encrypted")
    if not yes(encrypted):
        yield Finding(f"device {mapping.get('deviceName')} with ebs.encrypted {encrypted or 'not set'}", "true")


@stack_rule(
    "efa-layout", "mandatory", "A launch template's interfaces are what its instance type takes, every EFA used.",
    fix="give the interfaces that components/hardware/interfaces.py lays out for the type",
    source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html",
)  # fmt: skip
def efa_layout(stack: Stack) -> Iterator[Finding]:
    """The type is in the launch template or in its node groups; prefill and decode nodes need EFA."""
    templates = stack.of(LAUNCH_TEMPLATE)
    references = References(stack.resources, LAUNCH_TEMPLATE)
    groups = stack.of(NODE_GROUP)
    yield from independently(_layout(template, _groups_of(template, groups, references)) for template in templates)


def _groups_of(
    template: PolicyResource, groups: Sequence[PolicyResource], references: References
) -> list[PolicyResource]:
    def uses(group: PolicyResource) -> bool:
        def read() -> Any:
            named = group.props.get("launchTemplate") or {}
            return named.get("id") or named.get("name")

        reference = references.of(group, "launchTemplate", read)
        return reference.certain and reference.may_be(template)

    return [group for group in groups if uses(group)]


def _layout(template: PolicyResource, groups: Sequence[PolicyResource]) -> Iterator[Finding]:
    interfaces = [
        Interface(whole(i.get("networkCardIndex")), whole(i.get("deviceIndex")), i.get("interfaceType") or "interface")
        for i in template.props.get("networkInterfaces") or []
    ]
    exchanges = any(tier in EXCHANGING_TIERS for group in groups for tier in tiers(group.props))
    if not exchanges and not any(interface.carries_efa for interface in interfaces):
        return
    own = template.props.get("instanceType")
    types = {own} if own else {name for group in groups for name in given(group, "instanceTypes") or []}
    for name in sorted(types):
        for fault in _type_faults(name, interfaces):
            yield Finding(f"for {name}: {fault}", "the layout of that type", at=template)


def _type_faults(name: str, interfaces: list[Interface]) -> list[str]:
    """A type whose layout AWS has not published can't be judged; a GPU type that nobody knows must not pass."""
    instance = catalogue().get(name)
    if instance is None:
        unknown = is_gpu_type(name) and any(interface.carries_efa for interface in interfaces)
        return [f"the {dated()} lacks the type; `splitserve instances --refresh` reads it"] if unknown else []
    if not instance.efa_interfaces and not any(interface.carries_efa for interface in interfaces):
        return []
    if instance.efa_interfaces and not instance.cards:
        return []
    return layout_faults(instance, interfaces)
