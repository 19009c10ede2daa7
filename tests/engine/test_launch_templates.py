"""What EC2 and EKS are told of GPU nodes: through the real engine, read back from the AWS stand-in.

The layouts are written down here from AWS's page "Maximize network bandwidth on EC2 instances with
multiple network cards" (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html,
with the sections on P5, P6-B200 and P6-B300), the counts of EFAs and network cards from
karpenter-provider-aws (instance-types.md, zz_generated.vpclimits.go). None is taken from the code.
"""

from __future__ import annotations

import base64
import email
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from email import policy
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.engine.on_stand_in import engine_on
from tests.engine.test_awsim import Stack
from tools.awsim.running import AwsStandIn

PROGRAM = Path(__file__).parent / "programs" / "launch_templates"
CLUSTER = "templates"
POOL = "system"


@dataclass(frozen=True)
class Expected:
    """`efa` are the (card, device) of EFA-only interfaces, `ena` those of plain ones, which have an IP address."""

    instance: str
    efa: list[tuple[int, int]]
    ena: list[tuple[int, int]]
    total: int


PRIMARY = [(0, 0)]
EFA_ON_CARD_0 = [(0, 1)]
EXPECTED = {
    # 4 cards, 4 EFAs
    "p4d": Expected("p4d.24xlarge", [*EFA_ON_CARD_0, (1, 0), (2, 0), (3, 0)], PRIMARY, 5),
    # 32 cards, 32 EFAs; "#efa-for-p5", to save IP addresses
    "p5": Expected("p5.48xlarge", [*EFA_ON_CARD_0, *((card, 0) for card in range(1, 32))], PRIMARY, 33),
    # 32 cards, 32 EFAs; "#efa-for-p5", for the whole IP bandwidth: ENA on every fourth card
    "p5-bandwidth": Expected(
        "p5.48xlarge",
        [*EFA_ON_CARD_0, *((card, 0) for card in range(1, 32))],
        [(0, 0), (4, 1), (8, 1), (12, 1), (16, 1), (20, 1), (24, 1), (28, 1)],
        40,
    ),
    # 16 cards, 16 EFAs
    "p5en": Expected("p5en.48xlarge", [*EFA_ON_CARD_0, *((card, 0) for card in range(1, 16))], PRIMARY, 17),
    # 8 cards, 8 EFAs
    "p6-b200": Expected("p6-b200.48xlarge", [*EFA_ON_CARD_0, *((card, 0) for card in range(1, 8))], PRIMARY, 9),
    # "Use case 2: Maximum EFA and ENA bandwidth"
    "p6-b200-bandwidth": Expected(
        "p6-b200.48xlarge",
        [*EFA_ON_CARD_0, *((card, 0) for card in range(1, 8))],
        [*PRIMARY, *((card, 1) for card in range(1, 8))],
        16,
    ),
    # 17 cards, 16 EFAs: card 0 takes none ("P6-B300": the primary card supports only ENA)
    "p6-b300": Expected("p6-b300.48xlarge", [(card, 0) for card in range(1, 17)], PRIMARY, 17),
    # "Use case 2: Maximum EFA and ENA bandwidth"
    "p6-b300-bandwidth": Expected(
        "p6-b300.48xlarge",
        [(card, 0) for card in range(1, 17)],
        [*PRIMARY, *((card, 1) for card in range(1, 17))],
        33,
    ),
    # 4 cards, 4 EFAs
    "g6e": Expected("g6e.48xlarge", [*EFA_ON_CARD_0, (1, 0), (2, 0), (3, 0)], PRIMARY, 5),
}
NOT_WITH_EKS = {"SecurityGroupIds", "SecurityGroups", "IamInstanceProfile", "ImageId", "InstanceMarketOptions",
                "CapacityReservationSpecification"}  # fmt: skip
"""What EKS refuses in a node group's template (user guide, "Launch templates"), or means other capacity."""
NEEDS_AN_ADDRESS = {"SubnetId", "AssociatePublicIpAddress", "PrivateIpAddress", "PrivateIpAddresses",
                    "SecondaryPrivateIpAddressCount", "Ipv4Prefixes", "Ipv4PrefixCount", "Ipv6AddressCount"}  # fmt: skip
"""On an EFA-only interface RunInstances refuses all of these; EKS refuses a subnet on any."""
TAGS = {"splitserve:stack": "test", "team": "inference"}


@dataclass(frozen=True)
class Made:
    """By tier: launch data as EC2 has them, node groups as EKS has them. `outputs` are the program's."""

    aws: AwsStandIn
    templates: dict[str, dict[str, Any]]
    groups: dict[str, dict[str, Any]]
    outputs: dict[str, Any]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    folder = tmp_path_factory.mktemp("launch-templates")
    with AwsStandIn() as aws:
        stack = _stack(folder, aws)
        stack.pulumi("stack", "init", "test")
        stack.up()
        groups = {_tier(group): group for group in _groups(aws)}
        templates = {tier: _launch_data(aws, group["launchTemplate"]) for tier, group in groups.items()}
        yield Made(aws, templates, groups, stack.outputs())


def _stack(folder: Path, aws: AwsStandIn) -> Stack:
    return Stack(shutil.copytree(PROGRAM, folder / "program"), engine_on(folder, aws))


def _groups(aws: AwsStandIn) -> list[dict[str, Any]]:
    eks = aws.client("eks")
    names = eks.list_nodegroups(clusterName=CLUSTER)["nodegroups"]
    return [eks.describe_nodegroup(clusterName=CLUSTER, nodegroupName=name)["nodegroup"] for name in names]


def _tier(group: dict[str, Any]) -> str:
    """A pool may run the routers beside its own pods."""
    labels = set(group["labels"]) - {"splitserve.dev/nodes-router"}
    found = [label for label in labels if label.startswith("splitserve.dev/nodes-")]
    assert len(found) == 1, group["labels"]
    return found[0].removeprefix("splitserve.dev/nodes-")


def _launch_data(aws: AwsStandIn, chosen: dict[str, str]) -> dict[str, Any]:
    answer = aws.client("ec2").describe_launch_template_versions(
        LaunchTemplateId=chosen["id"], Versions=[chosen["version"]]
    )
    assert len(answer["LaunchTemplateVersions"]) == 1
    return answer["LaunchTemplateVersions"][0]["LaunchTemplateData"]


def _places(interfaces: list[dict[str, Any]], kind: str) -> list[tuple[int, int]]:
    return [(i["NetworkCardIndex"], i["DeviceIndex"]) for i in interfaces if i["InterfaceType"] == kind]


def test_there_is_a_template_for_each_generation_and_pool(made: Made) -> None:
    assert made.templates.keys() == {*EXPECTED, POOL}
    assert {tier: made.templates[tier]["InstanceType"] for tier in EXPECTED} == {
        tier: expected.instance for tier, expected in EXPECTED.items()
    }


@pytest.mark.parametrize("tier", EXPECTED)
def test_every_interface_is_where_aws_wants_it(made: Made, tier: str) -> None:
    interfaces, expected = made.templates[tier]["NetworkInterfaces"], EXPECTED[tier]
    assert len(interfaces) == expected.total
    assert sorted(_places(interfaces, "efa-only")) == expected.efa
    assert sorted(_places(interfaces, "interface")) == expected.ena
    assert Counter(i["InterfaceType"] for i in interfaces) == {
        "efa-only": len(expected.efa), "interface": len(expected.ena)}  # fmt: skip


@pytest.mark.parametrize("tier", EXPECTED)
def test_every_interface_has_both_groups_and_none_a_subnet_or_an_address_of_its_own(made: Made, tier: str) -> None:
    wanted = {made.outputs["clusterSecurityGroup"], made.outputs["efaSecurityGroup"]}
    assert len(wanted) == 2
    for interface in made.templates[tier]["NetworkInterfaces"]:
        assert set(interface["Groups"]) == wanted and len(interface["Groups"]) == 2
        assert interface["DeleteOnTermination"] is True
        assert not interface.keys() & NEEDS_AN_ADDRESS
    assert not made.templates[tier].keys() & NOT_WITH_EKS


def test_efa_traffic_may_go_within_its_group_both_ways(made: Made) -> None:
    """0.0.0.0/0 does not cover EFA (gardener-extension-provider-aws issue 1832)."""
    own = made.outputs["efaSecurityGroup"]
    group = made.aws.client("ec2").describe_security_groups(GroupIds=[own])["SecurityGroups"][0]
    for rules in (group["IpPermissions"], group["IpPermissionsEgress"]):
        assert [(r["IpProtocol"], [pair["GroupId"] for pair in r["UserIdGroupPairs"]]) for r in rules] == [("-1", [own])]  # fmt: skip


@pytest.mark.parametrize("tier", [*EXPECTED, POOL])
def test_pods_can_not_take_the_nodes_credentials(made: Made, tier: str) -> None:
    """IMDSv2, one hop: "Restrict access to the instance profile assigned to the worker node" (EKS best practices)."""
    options = made.templates[tier]["MetadataOptions"]
    assert (options["HttpTokens"], options["HttpPutResponseHopLimit"]) == ("required", 1)


@pytest.mark.parametrize(("tier", "gib"), [*((tier, 200) for tier in EXPECTED), (POOL, 50)])
def test_the_one_volume_is_the_amis_root_and_encrypted(made: Made, tier: str, gib: int) -> None:
    """AL2023's root device is /dev/xvda (awslabs/amazon-eks-ami, templates/al2023/template.json)."""
    assert made.templates[tier]["BlockDeviceMappings"] == [{
        "DeviceName": "/dev/xvda",
        "Ebs": {"VolumeSize": gib, "VolumeType": "gp3", "Encrypted": True, "DeleteOnTermination": True},
    }]  # fmt: skip


def test_each_generation_has_a_cluster_placement_group_of_its_own(made: Made) -> None:
    names = {made.templates[tier]["Placement"]["GroupName"] for tier in EXPECTED}
    assert len(names) == len(EXPECTED)
    found = made.aws.client("ec2").describe_placement_groups(GroupNames=sorted(names))["PlacementGroups"]
    assert {group["Strategy"] for group in found} == {"cluster"} and len(found) == len(EXPECTED)
    assert "Placement" not in made.templates[POOL]


@pytest.mark.parametrize("tier", [*EXPECTED, POOL])
def test_instances_volumes_and_interfaces_are_tagged(made: Made, tier: str) -> None:
    # moto puts the template's own tags among the data's.
    specifications = [s for s in made.templates[tier]["TagSpecifications"] if s["ResourceType"] != "launch-template"]
    assert sorted(s["ResourceType"] for s in specifications) == ["instance", "network-interface", "volume"]
    for specification in specifications:
        tags = {tag["Key"]: tag["Value"] for tag in specification["Tags"]}
        assert TAGS.items() <= tags.items() and tags["Name"].startswith(f"templates-{tier}")


def _node_configs(user_data: str) -> list[dict[str, Any]]:
    """The NodeConfig documents, read as nodeadm and EKS do: a MIME message with a part of nodeadm's type."""
    message = email.message_from_bytes(base64.b64decode(user_data, validate=True), policy=policy.default)
    assert message["MIME-Version"] == "1.0" and message.get_content_type() == "multipart/mixed"
    assert not message.defects
    parts = list(message.iter_parts())
    assert [part.get_content_type() for part in parts] == ["application/node.eks.aws"]
    return [yaml.safe_load(part.get_content()) for part in parts]


def test_gpu_nodes_put_their_local_disks_together(made: Made) -> None:
    """nodeadm's instance.localStorage.strategy (awslabs.github.io/amazon-eks-ami/nodeadm/doc/api); all of
    these types have NVMe. Huge pages are no part of it: the AMI's EFA service reserves 5128 of 2 MiB
    (EKS user guide, "node-efa"), and kubelet's own defaults fit the rest."""
    wanted = {
        "apiVersion": "node.eks.aws/v1alpha1",
        "kind": "NodeConfig",
        "spec": {"instance": {"localStorage": {"strategy": "RAID0"}}},
    }
    for tier in EXPECTED:
        assert _node_configs(made.templates[tier]["UserData"]) == [wanted], tier


def test_a_type_without_local_disks_is_told_nothing_of_them(made: Made) -> None:
    [config] = _node_configs(made.templates[POOL]["UserData"])
    assert config == {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": {}}


def test_the_pools_one_interface_is_in_the_clusters_group_alone(made: Made) -> None:
    [interface] = made.templates[POOL]["NetworkInterfaces"]
    assert (interface["InterfaceType"], interface["NetworkCardIndex"], interface["DeviceIndex"]) == ("interface", 0, 0)
    assert interface["Groups"] == [made.outputs["clusterSecurityGroup"]]


@pytest.mark.parametrize("tier", [*EXPECTED, POOL])
def test_the_node_group_has_the_ami_of_its_machine_and_starts_in_the_gpu_zone(made: Made, tier: str) -> None:
    group, gpu = made.groups[tier], tier in EXPECTED
    assert group["amiType"] == ("AL2023_x86_64_NVIDIA" if gpu else "AL2023_x86_64_STANDARD")
    assert (group["capacityType"], group["status"], group["version"]) == ("ON_DEMAND", "ACTIVE", "1.34")
    assert group["subnets"] == [made.outputs["subnet"]]
    assert group["scalingConfig"]["desiredSize"] == (0 if gpu else 1)
    taints = {(taint["key"], taint["value"], taint["effect"]) for taint in group["taints"]}
    assert taints == ({("nvidia.com/gpu", "present", "NO_SCHEDULE"), ("splitserve.dev/tier", tier, "NO_SCHEDULE")}
                      if gpu else set())  # fmt: skip
    assert ("splitserve.dev/efa" in group["labels"], "splitserve.dev/accelerator" in group["labels"]) == (gpu, gpu)
