"""Node groups: zones, interfaces, capacity, launch templates and security groups on AWS."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from components.hardware.catalogue import UnknownInstance, dated, instance, known_instance
from components.hardware.instance import architecture_of
from components.hardware.interfaces import LayoutUnknown, layout
from infra.aws_names import POOLS, router_pool
from infra.plan import Plan
from infra.rules.rule import Finding, rule
from infra.schema.platform import NodeGroup

AL2023_RELEASE = re.compile(r"(\d+\.\d+)\.\d+-20\d{6}")
"""Kubernetes' version and a date, such as 1.34.2-20260101 (amazon-eks-ami, releases)."""
BOTTLEROCKET_RELEASE = re.compile(r"\d+\.\d+\.\d+(-[0-9a-f]{8})?")
"""Bottlerocket's own version, such as 1.50.0-cacc4ce9, which says nothing of Kubernetes'."""


def all_groups(plan: Plan) -> Iterator[tuple[str, str, NodeGroup]]:
    """(key in the stack file, tier, node group) of every group that is set."""
    aws = plan.settings.platform.aws
    for tier in ("prefill", "decode", "collocated", *POOLS):
        group = getattr(aws.node_groups, tier) if aws else None
        if group:
            yield f"platform.aws.nodeGroups.{tier}", tier, group


def _gpu_groups(plan: Plan) -> Iterator[tuple[str, str, NodeGroup]]:
    return (entry for entry in all_groups(plan) if entry[1] in plan.settings.tiers)


@rule("node-group-of-each-tier", "error", "Each engine tier on AWS has its node group.",
      "splitserve: an engine tier runs on nodes of its own", layer="serving")  # fmt: skip
def node_groups(plan: Plan) -> Iterator[Finding]:
    if plan.settings.platform.aws:
        present = {tier for _, tier, _ in all_groups(plan)}
        for tier in plan.settings.tiers.keys() - present:
            yield Finding(f"platform.aws.nodeGroups.{tier}", "nothing", "a node group for this tier")


@rule("pool-for-routers", "error", "There are CPU nodes for the routers and for what the cluster itself runs.",
      "splitserve: GPU nodes take their own tier's pods alone, so CoreDNS and routers would wait for ever", layer="cluster")  # fmt: skip
def pool_for_routers(plan: Plan) -> Iterator[Finding]:
    aws = plan.settings.platform.aws
    if aws and not aws.node_groups.system and not aws.node_groups.router:
        yield Finding("platform.aws.nodeGroups.system", "nothing", "a node group for routers and the cluster's own pods",
                      "such as {instance: m7i.large, nodes: 2}")  # fmt: skip


@rule("max-nodes", "error", "A node group's largest size is no less than its size.",
      "https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_UpdateAutoScalingGroup.html: the desired "
      "capacity is at most the maximum size")  # fmt: skip
def max_nodes(plan: Plan) -> Iterator[Finding]:
    for key, _, group in all_groups(plan):
        if group.max_nodes is not None and group.max_nodes < group.nodes:
            yield Finding(f"{key}.maxNodes", f"{group.max_nodes}", f"at least the group's nodes, {group.nodes}",
                          "raise it, or leave it out")  # fmt: skip


@rule("ami-release-of-family", "error", "An AMI release is one of the group's AMI family and Kubernetes version.",
      "https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateNodegroup.html: releaseVersion")  # fmt: skip
def ami_release(plan: Plan) -> Iterator[Finding]:
    aws = plan.settings.platform.aws
    for key, _, group in all_groups(plan):
        if not aws or not group.ami_release:
            continue
        version, of_al2023 = aws.kubernetes_version, AL2023_RELEASE.fullmatch(group.ami_release)
        found = f"{group.ami_release!r}, with ami {group.ami}"
        if group.ami == "al2023" and (not of_al2023 or of_al2023[1] != version):
            yield Finding(f"{key}.amiRelease", found, f"a release for Kubernetes {version}, such as {version}.2-20260101",
                          "leave it out for EKS's newest")  # fmt: skip
        elif group.ami == "bottlerocket" and (of_al2023 or not BOTTLEROCKET_RELEASE.fullmatch(group.ami_release)):
            yield Finding(f"{key}.amiRelease", found, "a release of Bottlerocket, such as 1.50.0-cacc4ce9",
                          "leave it out for EKS's newest, or set ami: al2023")  # fmt: skip


@rule("one-architecture", "error", "Nodes that run one image are of one architecture.",
      "splitserve: routers run the engines' image unless router.image names another; an image by digest is of one "
      "architecture, and elsewhere ends with `exec format error`", layer="serving")  # fmt: skip
def one_architecture(plan: Plan) -> Iterator[Finding]:
    s = plan.settings
    groups = [(key, group, s.tiers[tier].image or s.image) for key, tier, group in _gpu_groups(plan)]
    groups += [(key, group, s.router.image or s.image) for key, group in _routers_nodes(plan)]
    first: dict[str | None, tuple[str, str]] = {}
    for key, group, image in groups:
        found = architecture_of(group.instance, known_instance(group.instance))
        other, wanted = first.setdefault(image, (key, found))
        if found != wanted:
            yield Finding(f"{key}.instance", f"{group.instance}, {found}", f"{wanted}, as {other} is: both run {image}",
                          "another type, or an image of its own (router.image, prefill.image, decode.image)")  # fmt: skip


def _routers_nodes(plan: Plan) -> Iterator[tuple[str, NodeGroup]]:
    """(key, node group) of the pool that runs the routers."""
    aws = plan.settings.platform.aws
    return ((key, group) for key, tier, group in all_groups(plan) if aws and tier == router_pool(aws))


@rule("instance-known", "error", "GPU node groups are of types that the catalogue has.",
      "components/hardware/instances.json")  # fmt: skip
def instance_known(plan: Plan) -> Iterator[Finding]:
    for key, _, group in _gpu_groups(plan):
        try:
            instance(group.instance)
        except UnknownInstance as error:
            yield Finding(
                f"{key}.instance", f"{group.instance!r}", f"a type of the {dated()}", str(error).split("have; ")[-1]
            )


@rule("instance-in-region", "error", "The region offers the type.",
      "EC2 DescribeInstanceTypeOfferings, as recorded in the catalogue")  # fmt: skip
def instance_in_region(plan: Plan) -> Iterator[Finding]:
    aws = plan.settings.platform.aws
    for key, tier, group in _gpu_groups(plan):
        hardware = plan.hardware[tier]
        regions = hardware.instance.regions if hardware and hardware.instance else ()
        if aws and regions and aws.region not in regions:
            yield Finding(f"{key}.instance", f"{group.instance} in {aws.region}", "a region that offers it",
                          f"{', '.join(regions)} do ({dated()}); `splitserve instances --refresh` asks again")  # fmt: skip


@rule("one-zone", "error", "Prefill and decode nodes lie in one zone.",
      "https://github.com/aws-samples/amazon-eks-machine-learning-with-terraform-and-kubeflow/issues/118: EFA crosses "
      "no zone", layer="serving")  # fmt: skip
def one_zone(plan: Plan) -> Iterator[Finding]:
    aws = plan.settings.platform.aws
    if not aws or plan.settings.topology != "prefill-decode":
        return
    left, right = ((plan.settings.node_group(tier) or NodeGroup(instance="-")).zone or aws.zone
                   for tier in ("prefill", "decode"))  # fmt: skip
    if left != right:
        yield Finding("platform.aws.nodeGroups.prefill.zone and .decode.zone", f"{left} and {right}",
                      "one zone for both", "leave them out and set platform.aws.zone")  # fmt: skip


@rule("zone-of-region", "error", "Zones belong to the region.", "EC2: a zone's name begins with its region's")
def zone_of_region(plan: Plan) -> Iterator[Finding]:
    aws = plan.settings.platform.aws
    if not aws:
        return
    zones = {"platform.aws.zone": aws.zone} | ({"platform.aws.secondZone": aws.second_zone} if aws.second_zone else {})
    zones |= {f"{key}.zone": group.zone for key, _, group in all_groups(plan) if group.zone}
    zones |= {f"platform.aws.loadBalancerZones[{i}]": zone for i, zone in enumerate(aws.load_balancer_zones)}
    for key, zone in zones.items():
        if not zone.startswith(aws.region) or len(zone) == len(aws.region):
            yield Finding(key, f"{zone!r}", f"a zone of {aws.region}, such as {aws.region}a")


@rule("two-nodes", "error", "On EFA, prefill and decode run on different nodes.",
      "NVIDIA Dynamo efa.md: on one node `fi_read still retrying EAGAIN`; terraform-aws-eks README: no EFA on one node", layer="serving")  # fmt: skip
def two_nodes(plan: Plan) -> Iterator[Finding]:
    if not plan.on_efa:
        return
    for key, _, group in _gpu_groups(plan):
        if not group.spread_tiers:
            yield Finding(f"{key}.spreadTiers", "false", "true where KV goes over EFA")


@rule("interfaces-known", "error", "The network interfaces of a node group can be laid out.",
      "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html")  # fmt: skip
def interfaces_known(plan: Plan) -> Iterator[Finding]:
    for key, tier, group in _gpu_groups(plan):
        hardware = plan.hardware[tier]
        if hardware and hardware.instance and not group.launch_template:
            try:
                layout(hardware.instance, group.addresses)
            except LayoutUnknown as error:
                yield Finding(f"{key}.instance", group.instance, "a type whose interfaces are known", str(error))


@rule("placement-with-reservation", "error", "Reserved capacity is not forced into a placement group of the stack.",
      "https://github.com/terraform-aws-modules/terraform-aws-eks/pull/3730, issue 3661: InsufficientInstanceCapacity")  # fmt: skip
def placement_group(plan: Plan) -> Iterator[Finding]:
    for key, _, group in _gpu_groups(plan):
        if group.capacity in ("reservation", "block") and group.placement_group == "own":
            yield Finding(f"{key}.placementGroup", f"own, with capacity {group.capacity}",
                          "none, or the group that the reservation was made in")  # fmt: skip


@rule("reservation-named", "error", "Reserved capacity names its reservation, other capacity none.",
      "https://github.com/hashicorp/terraform-provider-aws/issues/40876, https://github.com/eksctl-io/eksctl/pull/8207")  # fmt: skip
def reservation_named(plan: Plan) -> Iterator[Finding]:
    for key, _, group in all_groups(plan):
        reserved = group.capacity in ("reservation", "block")
        if reserved and not (group.reservation or "").startswith("cr-"):
            yield Finding(f"{key}.reservation", f"{group.reservation}, with capacity {group.capacity}",
                          "the reservation's id (cr-…)", "EC2 refuses a capacity block without it")  # fmt: skip
        if group.reservation and not reserved:
            yield Finding(f"{key}.capacity", f"{group.capacity}, with a reservation", "reservation or block")


@rule("own-template-alone", "error", "A launch template of your own comes without settings that it would replace.",
      "https://github.com/pulumi/pulumi-eks/issues/1228, 633: disk size ignored beside a template")  # fmt: skip
def own_template(plan: Plan) -> Iterator[Finding]:
    for key, _, group in all_groups(plan):
        ignored = {"diskGib": group.disk_gib, "securityGroup": group.security_group}
        for name, value in ignored.items():
            if group.launch_template and value:
                yield Finding(f"{key}.{name}", f"{value}, beside launchTemplate", "nothing", "set it in the template")


@rule("efa-self-rules", "error", "A security group on EFA interfaces lets all traffic from and to itself through.",
      "https://github.com/gardener/gardener-extension-provider-aws/issues/1832, "
      "https://github.com/ofiwg/libfabric/issues/11256: error 4126, since EFA addresses are no IP addresses", layer="serving")  # fmt: skip
def efa_self_rules(plan: Plan) -> Iterator[Finding]:
    for key, tier, _ in _gpu_groups(plan):
        answer = plan.security_groups.get(tier)
        if not answer or not plan.on_efa:
            continue
        for direction, permissions in (("ingress", "IpPermissions"), ("egress", "IpPermissionsEgress")):
            if not any(_all_from_itself(rule, answer["GroupId"]) for rule in answer[permissions]):
                yield Finding(f"{key}.securityGroup", f"{answer['GroupId']} without a self-referencing {direction} rule",
                              "all protocols from and to the group itself", "0.0.0.0/0 does not cover EFA")  # fmt: skip


@rule("tiers-reach-each-other", "error", "The tiers' security groups let their connections through.",
      "NVIDIA/aicr docs/integrator/eks-dynamo-networking.md: groups of two tiers that don't reach each other", layer="serving")  # fmt: skip
def tiers_reach(plan: Plan) -> Iterator[Finding]:
    engine = plan.settings.engine
    flows = [("decode", "prefill", engine.side_channel_port), ("system", "prefill", engine.port),
             ("system", "decode", engine.port)]  # fmt: skip
    for source, target, port in flows:
        left, right = plan.security_groups.get(source), plan.security_groups.get(target)
        if not left or not right or left["GroupId"] == right["GroupId"]:
            continue
        if not any(_admits(rule, left["GroupId"], port) for rule in right["IpPermissions"]):
            yield Finding(f"platform.aws.nodeGroups.{target}.securityGroup",
                          f"{right['GroupId']} without a way in for {source} on port {port}",
                          f"an ingress rule from {left['GroupId']}")  # fmt: skip


def _all_from_itself(permission: Mapping[str, Any], group: str) -> bool:
    itself = any(pair.get("GroupId") == group for pair in permission.get("UserIdGroupPairs", []))
    return permission.get("IpProtocol") == "-1" and itself


def _admits(permission: Mapping[str, Any], group: str, port: int) -> bool:
    from_group = any(pair.get("GroupId") == group for pair in permission.get("UserIdGroupPairs", []))
    everything = permission.get("IpProtocol") == "-1"
    ports = permission.get("FromPort", 0) <= port <= permission.get("ToPort", 65535)
    return from_group and (everything or (permission.get("IpProtocol") == "tcp" and ports))
