"""Every question of preflight through boto3 to the stand-in: answered, and answered with a fault where it should."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest

from components.platform.preflight.run import run_checks
from infra.aws_preflight import wanted
from infra.plan import Plan
from tests.unit.plans import changed, make_plan, stack_values
from tools.awsim.running import AwsStandIn

MODELS = {"prod": "llama-3.1-70b", "dev": "qwen3-32b"}


@pytest.fixture(scope="module")
def aws() -> Iterator[AwsStandIn]:
    with AwsStandIn() as found, pytest.MonkeyPatch.context() as patch:
        for name, value in found.environment().items():
            patch.setenv(name, value)
        yield found


def plan(name: str, *changes: tuple[str, Any]) -> Plan:
    return make_plan(changed(stack_values(name), *changes), MODELS[name])


@pytest.mark.parametrize("name", MODELS)
def test_nothing_about_the_examples_is_unknown_or_wrong(aws: AwsStandIn, name: str) -> None:
    outcomes = run_checks(wanted(plan(name), "s"))
    assert [str(answer) for answer in outcomes.answers if answer.outcome != "ok"] == []
    assert {"credentials", "vcpu-quota", "image", "offering"} <= {answer.check for answer in outcomes.answers}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("platform.aws.kubernetesVersion", "1.27"), "choose one of 1.35"),
        (("platform.aws.nodeGroups.system.nodes", 2000), "request 8000 for quota L-1216C47A"),
        (("platform.aws.nodeGroups.prefill.placementGroup", "theirs"), "no placement group 'theirs'"),
    ],
)
def test_what_would_fail_later_is_a_fault_now(aws: AwsStandIn, change: tuple[str, Any], words: str) -> None:
    outcomes = run_checks(wanted(plan("prod", change), "s"))
    assert any(words in str(answer) for answer in outcomes.of("fault")), [str(answer) for answer in outcomes.answers]


def reserved(kind: str, reservation: str) -> Plan:
    group = "platform.aws.nodeGroups.decode"
    changes = [("capacity", kind), ("reservation", reservation), ("placementGroup", "none")]
    return plan("prod", *((f"{group}.{key}", value) for key, value in changes))


def faults_of(found: Plan) -> list[str]:
    return [str(answer) for answer in run_checks(wanted(found, "s")).of("fault")]


def test_a_reservation_is_held_against_type_zone_count_and_kind(aws: AwsStandIn) -> None:
    ec2 = boto3.client("ec2", region_name="us-east-1")

    def reserve(**given: Any) -> str:
        fields = {"InstanceType": "p5.48xlarge", "InstancePlatform": "Linux/UNIX", "AvailabilityZone": "us-east-1a",
                  "InstanceCount": 1}  # fmt: skip
        return ec2.create_capacity_reservation(**(fields | given))["CapacityReservation"]["CapacityReservationId"]

    right = reserve()
    assert faults_of(reserved("reservation", right)) == []
    assert any("is a default reservation" in line for line in faults_of(reserved("block", right)))
    assert any(
        "of type p4d.24xlarge" in line
        for line in faults_of(reserved("reservation", reserve(InstanceType="p4d.24xlarge")))
    )
    assert any(
        "in us-east-1b" in line for line in faults_of(reserved("reservation", reserve(AvailabilityZone="us-east-1b")))
    )
    assert any("no cr-0000" in line for line in faults_of(reserved("reservation", "cr-00000000000000000")))
    ec2.cancel_capacity_reservation(CapacityReservationId=right)
    assert any("cancelled" in line for line in faults_of(reserved("reservation", right)))


def test_a_block_that_begins_tomorrow_is_refused_today(aws: AwsStandIn) -> None:
    ec2 = boto3.client("ec2", region_name="us-east-1")

    def buy(start: datetime) -> str:
        (offer,) = ec2.describe_capacity_block_offerings(
            InstanceType="p5.48xlarge", InstanceCount=1, CapacityDurationHours=48, StartDateRange=start
        )["CapacityBlockOfferings"]
        bought = ec2.purchase_capacity_block(
            CapacityBlockOfferingId=offer["CapacityBlockOfferingId"], InstancePlatform="Linux/UNIX"
        )
        return bought["CapacityReservation"]["CapacityReservationId"]

    now = datetime.now(UTC)
    (line,) = faults_of(reserved("block", buy(now + timedelta(days=1))))
    assert "scheduled" in line and "deploy then" in line
    assert faults_of(reserved("block", buy(now - timedelta(hours=1)))) == []


def test_elastic_ips_that_others_use_count(aws: AwsStandIn) -> None:
    ec2 = boto3.client("ec2", region_name="us-east-1")
    taken = [ec2.allocate_address(Domain="vpc")["AllocationId"] for _ in range(4)]
    try:
        faults = run_checks(wanted(plan("prod"), "s")).of("fault")
        assert any("4 addresses in use" in str(answer) for answer in faults)
    finally:
        for name in taken:
            ec2.release_address(AllocationId=name)
