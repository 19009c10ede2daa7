"""AMIs, the Kubernetes version, subnets' addresses, security groups."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from components.hardware.catalogue import instance
from components.platform.addresses import WARM_ADDRESSES
from components.platform.preflight.addresses import addresses_of_node, judge_subnets, needed, subnet_addresses
from components.platform.preflight.ask import Ask, Clients
from components.platform.preflight.images import image, judge_version, kubernetes_version, parameter
from components.platform.preflight.run import answers_of
from components.platform.preflight.security_groups import security_group
from components.platform.preflight.wanted import WantedGroup
from tests.unit.test_aws_preflight_ask import (  # noqa: F401
    EVERYTHING,
    PREFILL,
    SYSTEM,
    Aws,
    aws_keys,
    moto,
    only,
    refusal,
    stubbed,
)

pytestmark = pytest.mark.usefixtures("aws_keys")
ONE = replace(EVERYTHING, groups=(PREFILL,))
P5: dict[str, Any] = {
    "InstanceTypes": [
        {"InstanceType": "p5.48xlarge", "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]}},
    ]
}
RELEASE_VERSION = "/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/{}/recommended/release_version"


@pytest.mark.parametrize(
    ("group", "architecture", "name"),
    [
        (PREFILL, "x86_64", RELEASE_VERSION.format("x86_64/nvidia")),
        (PREFILL, "arm64", RELEASE_VERSION.format("arm64/nvidia")),
        (SYSTEM, "x86_64", RELEASE_VERSION.format("x86_64/standard")),
        (replace(PREFILL, ami="bottlerocket"), "x86_64",
         "/aws/service/bottlerocket/aws-k8s-1.34-nvidia/x86_64/latest/image_id"),
        (replace(SYSTEM, ami="bottlerocket", ami_release="1.50.0"), "arm64",
         "/aws/service/bottlerocket/aws-k8s-1.34/arm64/1.50.0/image_id"),
    ],
)  # fmt: skip
def test_the_parameter_of_an_ami_family(group: WantedGroup, architecture: str, name: str) -> None:
    assert parameter(group, "1.34", architecture) == name


def image_answer(group: WantedGroup, **answers: Any) -> Any:
    services = {"get_parameter": "ssm"}
    given = {(services.get(name, "ec2"), name): answer for name, answer in answers.items()}
    return only(image, replace(ONE, groups=(group,)), Aws({("ec2", "describe_instance_types"): P5} | given))


def test_a_published_ami() -> None:
    assert image_answer(PREFILL, get_parameter={"Parameter": {"Value": "1.34.2-20261101"}}).outcome == "ok"
    missing = image_answer(PREFILL, get_parameter=refusal("ParameterNotFound"))
    assert missing.outcome == "fault" and "x86_64/nvidia" in missing.found
    assert image_answer(PREFILL, get_parameter={"Parameter": {}}).outcome == "unknown"
    assert image_answer(PREFILL, get_parameter=refusal("AccessDeniedException")).fix.endswith("ssm:GetParameter")
    odd = image_answer(replace(PREFILL, ami="windows"))
    assert odd.outcome == "unknown" and "no AMI family" in odd.found


def test_a_pinned_release_is_found_by_its_name() -> None:
    pinned = replace(PREFILL, ami_release="1.34.2-20261101")
    name = "amazon-eks-node-al2023-x86_64-nvidia-1.34-v20261101"
    assert image_answer(pinned, describe_images={"Images": [{"Name": name, "ImageId": "ami-1"}]}).outcome == "ok"
    assert image_answer(pinned, describe_images={"Images": []}).outcome == "fault"


@pytest.mark.parametrize(
    ("answer", "outcome", "told"),
    [
        ({"Images": [{"ImageId": "ami-1", "Architecture": "x86_64", "State": "available"}]}, "ok", "ami-1"),
        ({"Images": [{"ImageId": "ami-1", "Architecture": "arm64", "State": "available"}]}, "fault", "for arm64"),
        ({"Images": [{"ImageId": "ami-1", "Architecture": "x86_64", "State": "pending"}]}, "fault", "pending"),
        ({"Images": []}, "fault", "no ami-1"),
        (refusal("InvalidAMIID.NotFound"), "fault", "no ami-1"),
        (refusal("RequestLimitExceeded"), "unknown", "throttled"),
    ],
)
def test_an_ami_of_ones_own(answer: Any, outcome: str, told: str) -> None:
    found = image_answer(replace(PREFILL, ami="ami-1"), describe_images=answer)
    assert found.outcome == outcome and told in found.found


def test_a_launch_template_of_ones_own_has_its_own_ami() -> None:
    assert list(image.subjects(replace(ONE, groups=(replace(PREFILL, launch_template="lt-1"),)))) == []


VERSIONS = [
    {"clusterVersion": "1.9", "versionStatus": "UNSUPPORTED"},
    {"clusterVersion": "1.32", "versionStatus": "EXTENDED_SUPPORT", "endOfExtendedSupportDate": datetime(2027, 3, 1, tzinfo=UTC)},
    {"clusterVersion": "1.34", "versionStatus": "STANDARD_SUPPORT", "endOfStandardSupportDate": datetime(2026, 12, 2, tzinfo=UTC)},
]  # fmt: skip


def test_a_version_must_be_supported() -> None:
    clients = stubbed("eks", ("describe_cluster_versions", {"clusterVersions": VERSIONS}))
    assert only(kubernetes_version, ONE, clients).found == "1.34, standard support until 2026-12-02"
    assert "charges more" in judge_version("k", "1.32", VERSIONS).found
    for version in ("1.9", "1.40"):
        answer = judge_version("k", version, VERSIONS)
        assert answer.outcome == "fault" and answer.fix == "choose one of 1.34, 1.32"
    assert judge_version("k", "1.9", VERSIONS[:1]).outcome == "unknown"


def subnet(name: str, zone: str, free: int) -> dict[str, Any]:
    return {"SubnetId": name, "AvailabilityZone": zone, "AvailableIpAddressCount": free}


def test_addresses_count_the_interfaces_that_take_one() -> None:
    assert addresses_of_node(PREFILL) == 1 + WARM_ADDRESSES
    assert addresses_of_node(replace(PREFILL, addresses="bandwidth")) == 8 + WARM_ADDRESSES
    assert addresses_of_node(SYSTEM) == 1 + WARM_ADDRESSES
    assert instance("p5.48xlarge").efa_interfaces == 32
    groups = (PREFILL, replace(SYSTEM, zone="us-east-1b"))
    there = {PREFILL.key: 1, SYSTEM.key: 5}
    assert needed(groups, there) == {"us-east-1a": 1 + WARM_ADDRESSES, "us-east-1b": 0}


@pytest.mark.parametrize(
    ("subnets", "told"),
    [
        ([subnet("a", "us-east-1a", 202), subnet("b", "us-east-1b", 9)], []),
        (
            [subnet("a", "us-east-1a", 201), subnet("b", "us-east-1b", 9)],
            ["201 free addresses in us-east-1a, wanted 202"],
        ),
        ([subnet("a", "us-east-1a", 500)], ["no b", "subnets in us-east-1a, wanted subnets in two zones"]),
        ([subnet("a", "us-east-1c", 500), subnet("b", "us-east-1b", 9)], ["no subnet in us-east-1a"]),
        ([subnet("a", "us-east-1a", 500), subnet("b", "us-east-1b", 5)], ["b: found 5 free addresses, wanted 6"]),
    ],
)
def test_subnets(subnets: list[dict[str, Any]], told: list[str]) -> None:
    found = [a for a in judge_subnets("k", ("a", "b"), subnets, {"us-east-1a": 202}) if a.outcome != "ok"]
    assert len(found) == len(told)
    assert all(words in str(answer) for answer, words in zip(found, told, strict=True))


def test_subnets_as_ec2_has_them(moto: Clients) -> None:  # noqa: F811
    ec2 = moto("ec2")
    found = ec2.describe_subnets()["Subnets"]
    ids = tuple(s["SubnetId"] for s in found if s["AvailabilityZone"] in ("us-east-1a", "us-east-1b"))
    assert only(subnet_addresses, replace(ONE, subnet_ids=ids), moto).outcome == "ok"
    missing = only(subnet_addresses, replace(ONE, subnet_ids=(*ids, "subnet-12345678")), moto)
    assert missing.outcome == "fault" and "InvalidSubnetID.NotFound" in missing.found


def test_an_unknown_layout_is_unknown() -> None:
    group = replace(PREFILL, instance="p6e-gb200.36xlarge")
    clients = Aws({("ec2", "describe_subnets"): {"Subnets": [subnet("a", "us-east-1a", 500)]},
                   ("ec2", "describe_instances"): {"Reservations": []}})  # fmt: skip
    answer = only(subnet_addresses, replace(ONE, groups=(group,), subnet_ids=("a",)), clients)
    assert answer.outcome == "unknown" and "network cards" in answer.found


def test_a_security_group_is_kept_for_the_rules(moto: Clients) -> None:  # noqa: F811
    (entry,) = moto("ec2").describe_security_groups()["SecurityGroups"]
    wanted = replace(ONE, groups=(replace(PREFILL, security_group=entry["GroupId"]),))
    ask = Ask(wanted, moto)
    (subject,) = security_group.subjects(wanted)
    assert [answer.outcome for answer in answers_of(ask, security_group, subject)] == ["ok"]
    assert ask.security_groups["prefill"]["GroupId"] == entry["GroupId"]
    missing = replace(ONE, groups=(replace(PREFILL, security_group="sg-12345678"),))
    assert only(security_group, missing, moto).outcome == "fault"
