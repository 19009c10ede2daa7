"""Faults of a cluster on AWS that is not there yet: its network, node groups and add-ons. Each fault is
told with its key and a way out; beside it, what is right and must pass."""

from __future__ import annotations

from typing import Any

import pytest

from components.platform.addresses import addresses_of_node, free_addresses
from infra.rules.network import BESIDE_NODES
from tests.unit.plans import errors, found, prod

Change = tuple[str, Any]
AWS = "platform.aws"
CIDR = f"{AWS}.network.cidr"
GROUPS = f"{AWS}.nodeGroups"
ADDONS = f"{AWS}.cluster.addons"
EFA = "engine.resources.extended.vpc.amazonaws.com/efa"
ECR = "123456789012.dkr.ecr.us-east-1.amazonaws.com/vllm-efa@sha256:" + "0" * 64
CERTIFICATE = "arn:aws:acm:us-east-1:123456789012:certificate/1"
FACING: list[Change] = [("edge.internetFacing", True), ("edge.certificate", CERTIFICATE),
                        ("edge.clientCidrs", ["198.51.100.0/24"])]  # fmt: skip
CLOSED: list[Change] = [(f"{AWS}.network.nat", "none"), ("image", ECR), ("model.huggingFace", None),
                        ("model.s3", {"bucket": "b", "config": "components/hardware/models/llama-3.1-70b.json"})]  # fmt: skip
CROWDED: list[Change] = [(CIDR, "10.64.0.0/20"), (f"{GROUPS}.prefill.maxNodes", 5), (f"{GROUPS}.decode.maxNodes", 5)]


def instances(name: str) -> list[Change]:
    return [(f"{GROUPS}.{tier}.instance", name) for tier in ("prefill", "decode")]


# name of the fault: (rule, changes to the right plan, words of the message)
FAULTS: dict[str, tuple[str, list[Change], str]] = {
    "efa_asked_for_on_a_type_without_it": (
        "efa-on-the-node", instances("g6e.2xlarge"),
        "prefill.resources.extended.vpc.amazonaws.com/efa: found 32 on a g6e.2xlarge, wanted nothing: the type has no "
        "EFA; leave it out, or choose a type with it: g6e."),
    "more_efa_than_a_node_has": (
        "efa-on-the-node", [(EFA, 33)], "found 33 for each of 1 pods, wanted no more than 1 p5.48xlarge of 32 hold"),
    "two_pods_of_a_node_that_each_want_all_efas": (
        "efa-on-the-node", [("engine.parallel", {"tensor": 4}), ("decode.replicas", 2)], "found 32 for each of 2 pods"),
    "routers_on_graviton_with_an_x86_image": (
        "one-architecture", [(f"{GROUPS}.system.instance", "m7g.xlarge")],
        f"{GROUPS}.system.instance: found m7g.xlarge, arm64, wanted x86_64, as {GROUPS}.prefill is: both run"),
    "a_router_pool_on_graviton": (
        "one-architecture", [(f"{GROUPS}.router", {"instance": "c8g.large"})], f"{GROUPS}.router.instance: found c8g.large"),
    "no_nodes_for_routers": (
        "pool-for-routers", [(f"{GROUPS}.system", None)], f"{GROUPS}.system: found nothing, wanted a node group"),
    "fewer_nodes_at_most_than_wanted": (
        "max-nodes", [(f"{GROUPS}.decode.nodes", 3), (f"{GROUPS}.decode.maxNodes", 2)],
        f"{GROUPS}.decode.maxNodes: found 2, wanted at least the group's nodes, 3; raise it, or leave it out"),
    "a_router_pool_that_may_not_grow_to_its_size": (
        "max-nodes", [(f"{GROUPS}.router", {"instance": "m7i.large", "nodes": 2, "maxNodes": 1})], "router.maxNodes"),
    "an_ami_release_of_another_kubernetes_version": (
        "ami-release-of-family", [(f"{GROUPS}.decode.amiRelease", "1.33.5-20251209")],
        "found '1.33.5-20251209', with ami al2023, wanted a release for Kubernetes 1.34, such as 1.34.2-20260101; leave"),
    "an_ami_release_of_another_family": (
        "ami-release-of-family",
        [(f"{GROUPS}.decode.ami", "bottlerocket"), (f"{GROUPS}.decode.amiRelease", "1.34.2-20260101")],
        "with ami bottlerocket, wanted a release of Bottlerocket"),
    "a_bottlerocket_release_on_al2023": (
        "ami-release-of-family", [(f"{GROUPS}.decode.amiRelease", "1.50.0-cacc4ce9")], "with ami al2023, wanted"),
    "a_second_zone_of_another_region": (
        "zone-of-region", [(f"{AWS}.secondZone", "eu-west-1b")],
        f"{AWS}.secondZone: found 'eu-west-1b', wanted a zone of us-east-1, such as us-east-1a"),
    "a_second_zone_that_is_the_first": (
        "control-plane-in-two-zones", [(f"{AWS}.secondZone", "us-east-1a")],
        f"{AWS}.secondZone: found 'us-east-1a', the GPU nodes' zone, wanted another zone; leave it out for us-east-1b"),
    "nodes_in_a_zone_without_a_subnet": (
        "zone-has-subnet", [(f"{GROUPS}.system.zone", "us-east-1f")],
        "found 'us-east-1f', wanted a zone with a subnet: us-east-1a, us-east-1b; leave it out, or make it"),
    "a_range_that_is_none": (
        "network-range", [(CIDR, "ten")], f"{CIDR}: found 'ten', which is no IPv4 range, wanted an address and a prefix"),
    "an_ipv6_range": ("network-range", [(CIDR, "fd00::/56")], "which is no IPv4 range"),
    "a_range_with_host_bits": (
        "network-range", [(CIDR, "10.64.1.0/16")],
        f"{CIDR}: found '10.64.1.0/16', wanted 10.64.0.0/16: the range's first address and its prefix length; leave"),
    "a_range_with_a_netmask": ("network-range", [(CIDR, "10.64.0.0/255.255.0.0")], "wanted 10.64.0.0/16"),
    "a_range_larger_than_a_vpc": (
        "network-range", [(CIDR, "10.0.0.0/8")], "found 10.0.0.0/8: a /8, between /16 and /20 is possible, wanted"),
    "a_range_too_small_to_be_shared_out": (
        "network-range", [(CIDR, "10.64.0.0/24")], "a /24, between /16 and /20 is possible"),
    "more_zones_than_parts": (
        "network-range", [(f"{AWS}.loadBalancerZones", [f"us-east-1{letter}" for letter in "abcdefghi"])],
        "found 10.64.0.0/16: 9 zones, at most 8 are possible"),
    "a_range_of_others": (
        "network-range", [(CIDR, "8.8.0.0/16")], "found 8.8.0.0/16, which others have on the internet, wanted a part of 10"),
    "a_range_over_the_services": (
        "network-range", [(CIDR, "172.20.128.0/17")],
        f"{CIDR}: found 172.20.128.0/17: overlaps the Services' range 172.20.0.0/16, which EKS refuses, wanted a range "
        "that can be shared out between the zones; such as 10.64.0.0/16"),
    "more_nodes_than_addresses": (
        "addresses-enough", CROWDED, "found 10.64.0.0/20: 2,043 addresses in us-east-1a, wanted 2,244: prefill 5 nodes "
        "x 101 x 2 generations + decode 5 nodes x 101 x 2 generations + system 2 nodes x 101 + 22 of EKS"),
    "more_interfaces_than_addresses": (
        "addresses-enough",
        [(CIDR, "10.64.0.0/20"), *((f"{GROUPS}.{tier}.maxNodes", 4) for tier in ("prefill", "decode")),
         (f"{GROUPS}.prefill.addresses", "bandwidth"), (f"{GROUPS}.system.nodes", 4)], "prefill 4 nodes x 108 x 2"),
    "more_nodes_than_addresses_of_a_small_zone": (
        "addresses-enough",
        [(CIDR, "10.64.0.0/20"), (f"{GROUPS}.system.zone", "us-east-1b"), (f"{GROUPS}.system.maxNodes", 3)],
        "found 10.64.0.0/20: 251 addresses in us-east-1b, wanted 325: system 3 nodes x 101 + 22"),
    "no_way_out": (
        "way-out", [*CLOSED, (f"{AWS}.network.endpoints", False)],
        f"{AWS}.network.endpoints: found false, with nat: none, wanted true: nodes reach neither EKS nor images otherwise; "
        "or set platform.aws.network.nat: one"),
    "a_model_of_the_internet_without_a_way_out": (
        "way-out", [(f"{AWS}.network.nat", "none"), ("image", ECR)],
        "model.huggingFace: found meta-llama/Llama-3.1-70B-Instruct, with nat: none, wanted weights that endpoints reach"),
    "an_image_of_the_internet_without_a_way_out": (
        "way-out", [*CLOSED, ("router.image", "public.ecr.aws/x/router:1")],
        "router.image: found public.ecr.aws/x/router:1, with nat: none, wanted an image in a private ECR registry"),
    "clients_of_no_range": (
        "ranges-written", [("edge.clientCidrs", ["0.0.0.0/0", "office"])],
        "edge.clientCidrs[1]: found 'office', which is no IPv4 range"),
    "a_client_without_its_prefix_length": (
        "ranges-written", [("edge.clientCidrs", ["198.51.100.7"])],
        "found '198.51.100.7', wanted 198.51.100.7/32: the range's first address and its prefix length; write a single"),
    "a_range_given_twice": (
        "ranges-written", [("edge.clientCidrs", ["198.51.100.0/24", "198.51.100.0/24"])],
        "edge.clientCidrs[1]: found '198.51.100.0/24' a second time"),
    "administrators_with_host_bits": (
        "ranges-written", [(f"{AWS}.cluster.publicCidrs", ["203.0.113.7/24"])],
        f"{AWS}.cluster.publicCidrs[0]: found '203.0.113.7/24', wanted 203.0.113.0/24"),
    "administrators_of_a_private_network": (
        "public-ranges-public", [(f"{AWS}.cluster.publicCidrs", ["192.168.7.0/24"])],
        "found 192.168.7.0/24, a private range, wanted the public addresses of whoever runs `pulumi`; leave it out"),
    "prompts_in_plain_text_on_the_internet": (
        "internet-facing-on-purpose", [("edge.internetFacing", True), ("edge.clientCidrs", ["198.51.100.0/24"])],
        "edge.certificate: found nothing, with internetFacing, wanted the ARN of a TLS certificate of the region; request"),
    "a_public_balancer_that_admits_nobody": (
        "internet-facing-on-purpose", FACING[:2], "edge.clientCidrs: found nothing, with internetFacing"),
    "facing_the_internet_without_a_balancer": (
        "internet-facing-on-purpose", [*FACING, ("edge.serviceType", "ClusterIP")],
        "edge.internetFacing: found true, without a load balancer of the stack"),
    "an_idle_timeout_that_the_balancer_refuses": (
        "idle-timeout-possible", [("edge.idleTimeoutS", 30)],
        "edge.idleTimeoutS: found 30, wanted 60 to 6000 s for a balancer of kind network; leave it out for its own"),
    "an_idle_timeout_longer_than_an_application_balancers": (
        "idle-timeout-possible", [("edge.loadBalancer", "application"), ("edge.idleTimeoutS", 5000)], "wanted 1 to 4000 s"),
    "an_idle_timeout_that_tls_ignores": (
        "idle-timeout-possible", [("edge.certificate", CERTIFICATE), ("edge.idleTimeoutS", 600)],
        "found 600, on the TLS listener of a network balancer, wanted nothing: it always has 350 s"),
    "a_kubernetes_patch_version": (
        "kubernetes-version-named", [(f"{AWS}.kubernetesVersion", "v1.34.1")],
        f"{AWS}.kubernetesVersion: found 'v1.34.1', wanted a minor version; such as '1.34'"),
    "a_kubernetes_version_without_its_add_ons": (
        "addons-pinned", [(f"{AWS}.kubernetesVersion", "1.33"), (f"{ADDONS}.coredns", "v1.12.2-eksbuild.4")],
        f"{ADDONS}.kube-proxy: found nothing, with kubernetesVersion 1.33, wanted a version for it: splitserve has those of "
        "1.34; `aws eks describe-addon-versions --kubernetes-version 1.33 --addon-name kube-proxy` lists them"),
    "an_add_on_that_nobody_installs": (
        "addons-known", [(f"{ADDONS}.core-dns", "v1.12.2-eksbuild.4")],
        f"{ADDONS}.core-dns: found an add-on that the stack does not install, wanted one of vpc-cni"),
    "an_add_on_version_of_another_form": (
        "addons-known", [(f"{ADDONS}.coredns", "1.12.2")],
        f"{ADDONS}.coredns: found '1.12.2', wanted a version as EKS writes it, such as v1.12.3-eksbuild.1"),
}  # fmt: skip

# what a rule must pass: (rule, changes to the right plan)
RIGHT: dict[str, tuple[str, list[Change]]] = {
    "every_efa_of_a_node": ("efa-on-the-node", [(EFA, 32)]),
    "two_pods_of_a_node_that_share_its_efas": (
        "efa-on-the-node", [("engine.parallel", {"tensor": 4}), ("decode.replicas", 2), (EFA, 16)]),
    "a_type_without_efa_of_which_none_is_asked": (
        "efa-on-the-node", [*instances("g6e.2xlarge"), ("engine.resources.extended", {"nvidia.com/gpu": 1})]),
    "routers_on_graviton_with_an_image_for_it": (
        "one-architecture", [(f"{GROUPS}.system.instance", "m7g.xlarge"), ("router.image", ECR)]),
    "a_router_pool_alone": (
        "pool-for-routers", [(f"{GROUPS}.system", None), (f"{GROUPS}.router", {"instance": "m7i.large"})]),
    "as_many_nodes_as_at_most": ("max-nodes", [(f"{GROUPS}.decode.maxNodes", 1)]),
    "an_ami_release_of_this_version": ("ami-release-of-family", [(f"{GROUPS}.decode.amiRelease", "1.34.2-20260101")]),
    "a_bottlerocket_release": (
        "ami-release-of-family",
        [(f"{GROUPS}.decode.ami", "bottlerocket"), (f"{GROUPS}.decode.amiRelease", "1.50.0-cacc4ce9")]),
    "another_zone_of_the_region": ("zone-of-region", [(f"{AWS}.secondZone", "us-east-1c")]),
    "a_second_zone": ("control-plane-in-two-zones", [(f"{AWS}.secondZone", "us-east-1c")]),
    "nodes_in_the_second_zone": (
        "zone-has-subnet", [(f"{AWS}.secondZone", "us-east-1f"), (f"{GROUPS}.system.zone", "us-east-1f")]),
    "the_smallest_range": ("network-range", [(CIDR, "192.168.16.0/20")]),
    "a_range_of_carriers": ("network-range", [(CIDR, "100.64.0.0/16")]),
    "a_range_next_to_the_services": ("network-range", [(CIDR, "172.21.0.0/16")]),
    "as_many_nodes_in_a_larger_range": ("addresses-enough", [*CROWDED, (CIDR, "10.64.0.0/19")]),
    "as_many_nodes_one_generation_at_a_time": ("addresses-enough", [*CROWDED, ("rollout.strategy", "swap")]),
    "everything_through_endpoints": ("way-out", CLOSED),
    "everybody_and_one_address": ("ranges-written", [("edge.clientCidrs", ["0.0.0.0/0", "198.51.100.7/32"])]),
    "administrators_of_everywhere": ("public-ranges-public", [(f"{AWS}.cluster.publicCidrs", ["0.0.0.0/0"])]),
    "facing_the_internet": ("internet-facing-on-purpose", FACING),
    "facing_the_internet_without_nat": ("internet-facing-on-purpose", [*FACING, *CLOSED]),
    "an_idle_timeout": ("idle-timeout-possible", [("edge.idleTimeoutS", 600)]),
    "another_kubernetes_version_with_its_add_ons": (
        "addons-pinned",
        [(f"{AWS}.kubernetesVersion", "1.33"),
         (ADDONS, {"coredns": "v1.12.2-eksbuild.4", "kube-proxy": "v1.33.5-eksbuild.2"})]),
    "an_add_on_of_another_version": ("addons-known", [(f"{ADDONS}.vpc-cni", "v1.21.1-eksbuild.1")]),
    "another_minor_version": ("kubernetes-version-named", [(f"{AWS}.kubernetesVersion", "1.35")]),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_plan_with_the_fault_is_told_so(fault: str) -> None:
    rule, changes, words = FAULTS[fault]
    messages = [str(finding) for finding in found(prod(*changes), rule)]
    assert messages, f"{rule} found nothing; all findings: {errors(prod(*changes))}"
    assert any(words in message for message in messages), messages


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_stops_and_most_say_the_way_out(fault: str) -> None:
    rule, changes, _ = FAULTS[fault]
    findings = found(prod(*changes), rule)
    assert all(finding.severity == "error" and finding.wanted for finding in findings)
    assert rule == "zone-of-region" or all(finding.fix for finding in findings)


@pytest.mark.parametrize("case", RIGHT)
def test_a_right_plan_passes(case: str) -> None:
    rule, changes = RIGHT[case]
    assert found(prod(*changes), rule) == []


def test_every_rule_that_is_broken_here_passes_something_here() -> None:
    assert {rule for rule, _, _ in FAULTS.values()} == {rule for rule, _ in RIGHT.values()}


def test_as_many_nodes_pass_as_the_gpu_subnet_holds() -> None:
    """The half of a /20 less what AWS and the cluster keep, two generations of two tiers, and two system nodes."""
    each = addresses_of_node(1)
    most = (free_addresses("10.64.0.0/21") - BESIDE_NODES - 2 * each) // (2 * 2 * each)
    for nodes, fits in ((most, True), (most + 1, False)):
        plan = prod((CIDR, "10.64.0.0/20"), *((f"{GROUPS}.{tier}.maxNodes", nodes) for tier in ("prefill", "decode")))
        assert (found(plan, "addresses-enough") == []) is fits


def test_a_wrong_range_hides_no_other_fault() -> None:
    faults = errors(prod((CIDR, "ten"), (f"{GROUPS}.decode.maxNodes", 1), (f"{GROUPS}.decode.nodes", 2),
                         (f"{AWS}.secondZone", "us-east-1a")))  # fmt: skip
    assert len(faults) == 3
