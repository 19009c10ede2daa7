"""The cluster's network on AWS: its range and addresses, who may come in, and the ways out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import IPv4Network

from components.hardware.catalogue import UnknownInstance, instance
from components.hardware.interfaces import LayoutUnknown, layout
from components.platform.addresses import Subnets, addresses_of_node, free_addresses, subnets
from infra.aws_names import POOLS, second_zone, zones
from infra.plan import Plan
from infra.rules.nodes import all_groups
from infra.rules.rule import Finding, rule
from infra.schema.platform import Aws, NodeGroup

PRIVATE = tuple(IPv4Network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"))
"""RFC 1918, and RFC 6598's shared addresses: no public network has them."""
BESIDE_NODES = 6 + 8 + 8
"""Addresses of a subnet that EKS's own interfaces, VPC endpoints and a load balancer may take (EKS user
guide, "Network requirements"; `INTERFACE_ENDPOINTS` of components/platform/network.py; Elastic Load
Balancing, "Subnets for your load balancer")."""
GENERATIONS = {"canary": 2, "swap": 1}
"""A candidate's nodes stand beside the live ones, or come after them."""
CIDR_KEY = "platform.aws.network.cidr"


def _misread(text: str) -> tuple[str, str] | None:
    """What is found and wanted where a text is no range as AWS takes it."""
    try:
        network = IPv4Network(text, strict=False)
    except ValueError:
        return f"{text!r}, which is no IPv4 range", "an address and a prefix length, such as 203.0.113.0/24"
    written = text == str(network)
    return None if written else (f"{text!r}", f"{network}: the range's first address and its prefix length")


def _is_private(text: str) -> bool:
    return any(IPv4Network(text).subnet_of(private) for private in PRIVATE)


def _shared_out(aws: Aws) -> Subnets | None:
    """The subnets; None where the range is wrong, which `network-range` says."""
    try:
        return None if _misread(aws.network.cidr) else subnets(aws.network.cidr, aws.zone, zones(aws))
    except ValueError:
        return None


@rule("network-range", "error", "The VPC's range is a private one, apart from the Services', that can be shared out between the zones.",
      "https://docs.aws.amazon.com/vpc/latest/userguide/vpc-cidr-blocks.html; components/platform/addresses.py")  # fmt: skip
def network_range(plan: Plan) -> Iterator[Finding]:
    aws = plan.settings.platform.aws
    if not aws:
        return
    cidr, way_out = aws.network.cidr, "such as 10.64.0.0/16"
    if wrong := _misread(cidr):
        yield Finding(CIDR_KEY, wrong[0], wrong[1], "leave it out for 10.64.0.0/16")
        return
    try:
        subnets(cidr, aws.zone, zones(aws))
    except ValueError as error:
        fault = str(error).removeprefix(f"{cidr} ")
        yield Finding(CIDR_KEY, f"{cidr}: {fault}", "a range that can be shared out between the zones", way_out)
    if not _is_private(cidr):
        yield Finding(CIDR_KEY, f"{cidr}, which others have on the internet",
                      f"a part of {', '.join(map(str, PRIVATE))}", way_out)  # fmt: skip


@rule("addresses-enough", "error", "Subnets hold every node's interfaces and pods, and a candidate's beside the live ones.",
      "https://github.com/aws/amazon-vpc-cni-k8s README: WARM_ENI_TARGET; "
      "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html: addresses of interfaces")  # fmt: skip
def addresses_enough(plan: Plan) -> Iterator[Finding]:
    aws = plan.settings.platform.aws
    shared = _shared_out(aws) if aws else None
    if not aws or not shared:
        return
    for zone, cidr in shared.private.items():
        parts = _addresses(plan, aws, zone)
        needed, free = sum(count for _, count in parts) + BESIDE_NODES, free_addresses(cidr)
        if parts and needed > free:
            words = " + ".join([words for words, _ in parts] + [f"{BESIDE_NODES} of EKS, endpoints and balancer"])
            yield Finding(CIDR_KEY, f"{aws.network.cidr}: {free:,} addresses in {zone}", f"{needed:,}: {words}",
                          "take a larger range (up to /16), fewer maxNodes, addresses: save, or rollout.strategy: swap")  # fmt: skip


def _addresses(plan: Plan, aws: Aws, zone: str) -> list[tuple[str, int]]:
    """(words, addresses) of each group whose nodes come to a zone, at its largest."""
    found = []
    for _, tier, group in all_groups(plan):
        if (group.zone or aws.zone) != zone or (tier not in plan.settings.tiers and tier not in POOLS):
            continue
        times = GENERATIONS[plan.settings.rollout.strategy] if tier in plan.settings.tiers else 1
        nodes, each = group.max_nodes or group.nodes, addresses_of_node(_ip_interfaces(group))
        beside = " x 2 generations" if times > 1 else ""
        found.append((f"{tier} {nodes} nodes x {each}{beside}", nodes * each * times))
    return found


def _ip_interfaces(group: NodeGroup) -> int:
    """Interfaces with an address; one where the catalogue has no layout."""
    try:
        return sum(interface.needs_address for interface in layout(instance(group.instance), group.addresses))
    except (UnknownInstance, LayoutUnknown):
        return 1


@rule("zone-has-subnet", "error", "Node groups lie in zones that have a subnet.",
      "splitserve: subnets are made in zone, secondZone and loadBalancerZones")  # fmt: skip
def zone_has_subnet(plan: Plan) -> Iterator[Finding]:
    aws = plan.settings.platform.aws
    for key, _, group in all_groups(plan):
        if aws and group.zone and group.zone not in zones(aws):
            yield Finding(f"{key}.zone", f"{group.zone!r}", f"a zone with a subnet: {', '.join(zones(aws))}",
                          "leave it out, or make it platform.aws.secondZone")  # fmt: skip


@rule("control-plane-in-two-zones", "error", "The control plane has a second zone, other than the GPU nodes'.",
      "https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html: subnets in two zones at least")  # fmt: skip
def two_zones(plan: Plan) -> Iterator[Finding]:
    aws = plan.settings.platform.aws
    if aws and aws.second_zone == aws.zone:
        other = second_zone(aws.model_copy(update={"second_zone": None}))
        yield Finding("platform.aws.secondZone", f"{aws.second_zone!r}, the GPU nodes' zone", "another zone",
                      f"leave it out for {other}")  # fmt: skip


@rule("way-out", "error", "Without NAT gateways, nodes find everything through the VPC endpoints.",
      "https://docs.aws.amazon.com/eks/latest/userguide/private-clusters.html")  # fmt: skip
def way_out(plan: Plan) -> Iterator[Finding]:
    s, aws = plan.settings, plan.settings.platform.aws
    if not aws or aws.network.nat != "none":
        return
    gateway = "or set platform.aws.network.nat: one"
    if not aws.network.endpoints:
        yield Finding("platform.aws.network.endpoints", "false, with nat: none",
                      "true: nodes reach neither EKS nor images otherwise", gateway)  # fmt: skip
    if s.model.hugging_face:
        yield Finding("model.huggingFace", f"{s.model.hugging_face.repository}, with nat: none",
                      "weights that endpoints reach: model.s3 or model.lustre", gateway)  # fmt: skip
    images = {"image": s.image, "router.image": s.router.image}
    images |= {f"{tier}.image": settings.image for tier, settings in s.tiers.items()}
    registry = re.compile(rf"\d{{12}}\.dkr\.ecr\.{re.escape(aws.region)}\.amazonaws\.com(\.cn)?/")
    for key, name in images.items():
        if name and not registry.match(name):
            yield Finding(
                key, f"{name}, with nat: none", f"an image in a private ECR registry of {aws.region}", gateway
            )


@rule("ranges-written", "error", "Ranges of those who may come in are IPv4 ranges, each once.",
      "https://docs.aws.amazon.com/eks/latest/APIReference/API_VpcConfigRequest.html: an IPv4 cluster takes IPv4 ranges; "
      "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_IpRange.html", layer="any")  # fmt: skip
def ranges_written(plan: Plan) -> Iterator[Finding]:
    for key, text, place, given in _ranges(plan):
        if wrong := _misread(text):
            yield Finding(f"{key}[{place}]", wrong[0], wrong[1], "write a single address with /32")
        elif text in given[:place]:
            yield Finding(f"{key}[{place}]", f"{text!r} a second time", "each range once", "leave it out")


@rule("public-ranges-public", "error", "Who reaches the API from outside the VPC has public addresses.",
      "EKS CreateCluster: InvalidParameterException, CIDRs that are not allowed in publicAccessCidrs")  # fmt: skip
def public_ranges(plan: Plan) -> Iterator[Finding]:
    for key, text, place, _ in _ranges(plan):
        if key.endswith("publicCidrs") and not _misread(text) and _is_private(text):
            yield Finding(f"{key}[{place}]", f"{text}, a private range", "the public addresses of whoever runs `pulumi`",
                          "leave it out where it runs inside the VPC")  # fmt: skip


def _ranges(plan: Plan) -> Iterator[tuple[str, str, int, list[str]]]:
    """(key, range, place, all of that key) of every range of others on AWS."""
    aws = plan.settings.platform.aws
    if aws:
        lists = {"platform.aws.cluster.publicCidrs": aws.cluster.public_cidrs,
                 "edge.clientCidrs": plan.settings.edge.client_cidrs}  # fmt: skip
        for key, given in lists.items():
            yield from ((key, text, place, given) for place, text in enumerate(given))
