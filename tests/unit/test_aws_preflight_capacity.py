"""Quotas, reservations, capacity blocks, placement groups."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.hardware.catalogue import catalogue
from components.platform.preflight.answer import Answer
from components.platform.preflight.ask import Ask, Clients
from components.platform.preflight.capacity import judge_reservation, placement_group, reservation
from components.platform.preflight.quotas import (
    ELASTIC_IPS,
    VCPU_QUOTAS,
    Limit,
    address_quota,
    family_of,
    judge_quota,
    limit,
    quota_of,
    vcpu_quota,
    vpc_quota,
)
from components.platform.preflight.wanted import Wanted
from tests.unit.test_aws_preflight_ask import (  # noqa: F401
    EVERYTHING,
    NOW,
    PREFILL,
    SYSTEM,
    Aws,
    answers,
    aws_keys,
    moto,
    only,
    refusal,
    stubbed,
)

pytestmark = pytest.mark.usefixtures("aws_keys")
ONE = replace(EVERYTHING, groups=(PREFILL,))
P5 = {"InstanceType": "p5.48xlarge", "VCpuInfo": {"DefaultVCpus": 192}}


def quota(value: float) -> dict[str, Any]:
    return {"Quota": {"Value": value}}


def running(*kinds: tuple[str, str, str]) -> dict[str, Any]:
    """(type, lifecycle, EKS node group of splitserve-prod or nothing) of running instances."""
    entries = []
    for name, lifecycle, group in kinds:
        tags = [{"Key": "eks:cluster-name", "Value": "splitserve-prod"}, {"Key": "eks:nodegroup-name", "Value": group}]
        entry = {"InstanceType": name, "Tags": tags if group else [], "CapacityReservationId": "cr-1"}
        entries.append(entry | ({"InstanceLifecycle": lifecycle} if lifecycle else {}))
    return {"Reservations": [{"Instances": entries}]}


def vcpu_answer(value: float, *kinds: tuple[str, str, str], wanted: Wanted = ONE) -> Answer:
    return only(vcpu_quota, wanted, Aws({
        ("service-quotas", "get_service_quota"): quota(value), ("ec2", "describe_instances"): running(*kinds),
        ("ec2", "describe_instance_types"): {"InstanceTypes": [P5]}}))  # fmt: skip


def test_two_p5_need_384_vcpus_beside_what_runs() -> None:
    assert vcpu_answer(384).outcome == "ok"
    answer = vcpu_answer(384, ("p5.48xlarge", "", ""))
    assert answer.outcome == "fault"
    assert "384, 192 vCPUs in use" in answer.found and "request 576 for quota L-417A185B" in answer.fix


def test_nodes_that_the_group_has_already_are_not_counted_twice() -> None:
    assert vcpu_answer(384, ("p5.48xlarge", "", "aws-prefill-1")).outcome == "ok"


def test_nodes_of_another_generation_run_beside_the_new_ones_unless_they_make_room() -> None:
    assert vcpu_answer(384, ("p5.48xlarge", "", "aws-prefill-0")).outcome == "fault"
    assert vcpu_answer(384, ("p5.48xlarge", "", "aws-prefill-0"), wanted=replace(ONE, swap=True)).outcome == "ok"


def test_spot_and_blocks_do_not_draw_on_the_on_demand_quota() -> None:
    assert vcpu_answer(384, ("p5.48xlarge", "spot", ""), ("p5.48xlarge", "capacity-block", "")).outcome == "ok"


def test_spot_has_quotas_of_its_own() -> None:
    wanted = replace(ONE, groups=(replace(PREFILL, capacity="spot"),))
    assert "All P5 Spot" in vcpu_answer(384, ("p5.48xlarge", "", ""), wanted=wanted).found
    assert vcpu_answer(384, ("p5.48xlarge", "spot", ""), wanted=wanted).outcome == "fault"


def test_a_quota_without_a_known_code_is_unknown() -> None:
    wanted = replace(ONE, groups=(replace(PREFILL, instance="p6-b200.48xlarge", capacity="spot"),))
    answer = only(vcpu_quota, wanted, Aws({}))
    assert answer.outcome == "unknown" and "p6-b200.48xlarge, spot" in answer.found


def test_reserved_capacity_was_counted_when_it_was_reserved() -> None:
    wanted = replace(ONE, groups=(replace(PREFILL, capacity="reservation", reservation="cr-1"),))
    assert answers(vcpu_quota, wanted, Aws({})) == []


def test_groups_of_one_quota_are_summed() -> None:
    wanted = replace(ONE, groups=(PREFILL, replace(PREFILL, key="d", tier="decode", node_group="-decode-1"), SYSTEM))
    subjects = list(vcpu_quota.subjects(wanted))
    assert [subject.key for subject in subjects] == [
        "platform.aws.nodeGroups.prefill.nodes, d.nodes", "platform.aws.nodeGroups.system.nodes"]  # fmt: skip


@given(st.integers(0, 10**5), st.integers(0, 10**5), st.integers(0, 10**5))
def test_a_quota_is_kept_exactly_up_to_its_value(value: int, used: int, wanted: int) -> None:
    answer = judge_quota("k", ELASTIC_IPS, Limit(value, False), used, wanted, "addresses")
    assert (answer.outcome == "ok") == (used + wanted <= value)
    if answer.outcome == "fault":
        again = judge_quota("k", ELASTIC_IPS, Limit(int(answer.fix.split()[1]), False), used, wanted, "addresses")
        assert again.outcome == "ok", "what is asked for is enough"


@given(st.sampled_from(sorted(catalogue())), st.sampled_from(["", "spot"]))
def test_a_type_has_one_quota_at_most(name: str, lifecycle: str) -> None:
    found = [quota for quota in VCPU_QUOTAS if quota.covers(name, lifecycle)]
    letters, generation = family_of(name)
    assert len(found) == (0 if letters == "gr" or (letters + generation, lifecycle) == ("p6", "spot") else 1)
    assert quota_of(name, lifecycle) == (found[0] if found else None)


def test_awss_default_holds_where_the_account_has_no_value_of_its_own() -> None:
    clients = stubbed("service-quotas", ("get_service_quota", "NoSuchResourceException"),
                      ("get_aws_default_service_quota", {"Quota": {"Value": 5.0}}))  # fmt: skip
    assert limit(Ask(ONE, clients), ELASTIC_IPS) == Limit(5.0, True)


def test_elastic_ips_beside_the_stacks_own() -> None:
    own = {"AllocationId": "a", "Tags": [{"Key": "splitserve:stack", "Value": "me"}]}
    aws = Aws({("ec2", "describe_addresses"): {"Addresses": [own, *({"AllocationId": "b"} for _ in range(5))]},
               ("service-quotas", "get_service_quota"): quota(6)})  # fmt: skip
    assert only(address_quota, ONE, aws).outcome == "fault"
    assert only(address_quota, replace(ONE, own_tag=("splitserve:stack", "me")), aws).outcome == "ok"


def test_one_more_vpc(moto: Clients) -> None:  # noqa: F811
    answer = only(vpc_quota, ONE, moto)
    assert answer.outcome == "ok" and answer.found.startswith("VPCs per Region: 5, 1 VPCs in use")
    for i in range(4):
        moto("ec2").create_vpc(CidrBlock=f"10.{i}.0.0/16")
    assert only(vpc_quota, ONE, moto).outcome == "fault"


BLOCK = replace(PREFILL, capacity="block", reservation="cr-1")
ENTRY: dict[str, Any] = {
    "CapacityReservationId": "cr-1", "ReservationType": "capacity-block", "InstanceType": "p5.48xlarge",
    "InstancePlatform": "Linux/UNIX", "AvailabilityZone": "us-east-1a", "State": "active", "TotalInstanceCount": 4,
    "AvailableInstanceCount": 2, "StartDate": NOW - timedelta(days=1), "EndDate": NOW + timedelta(days=3),
}  # fmt: skip


def block_answers(changes: dict[str, Any], nodes: int = 2) -> list[Answer]:
    return judge_reservation("k", BLOCK, [ENTRY | changes], nodes, NOW)


def test_a_block_that_fits_is_told_with_its_end() -> None:
    assert [(a.outcome, a.found) for a in block_answers({})] == [("ok", "cr-1: 2 free, ends 2026-12-03 12:00 UTC")]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"CapacityReservationId": "cr-2"}, "no cr-1"),
        ({"ReservationType": "default"}, "is a default reservation, wanted reservation"),
        ({"InstanceType": "p5e.48xlarge"}, "of type p5e.48xlarge"),
        ({"InstancePlatform": "Windows"}, "for Windows"),
        ({"State": "scheduled", "StartDate": NOW + timedelta(days=2)}, "scheduled, starts 2026-12-02 12:00 UTC"),
        ({"State": "payment-pending", "StartDate": None}, "payment-pending, no word on when it starts"),
        ({"State": "expired"}, "expired"),
        ({"EndDate": NOW}, "ended 2026-11-30"),
        ({"AvailabilityZone": "us-east-1b"}, "cr-1 in us-east-1b"),
        ({"AvailableInstanceCount": 1}, "1 of 4 free"),
        ({"PlacementGroupArn": "arn:aws:ec2:us-east-1:1:placement-group/theirs"}, "is tied to theirs"),
    ],
)
def test_each_thing_wrong_with_a_block_is_told(changes: dict[str, Any], told: str) -> None:
    found = block_answers(changes)
    assert [answer.outcome for answer in found] == ["fault"] and told in str(found[0])


def test_all_that_is_wrong_with_a_block_is_told_at_once() -> None:
    found = block_answers({"State": "expired", "AvailabilityZone": "us-east-1b", "AvailableInstanceCount": 0})
    assert [answer.outcome for answer in found] == ["fault"] * 3


def test_a_block_that_ends_within_a_day_is_a_warning_with_the_hour_its_nodes_go() -> None:
    (answer,) = block_answers({"EndDate": NOW + timedelta(hours=6)})
    assert answer.outcome == "ok" and "WARNING: ends 2026-11-30 18:00 UTC, in 6.0 h" in answer.found
    assert "from 2026-11-30 17:30 UTC on" in answer.found


def test_groups_that_share_a_reservation_share_its_free_instances() -> None:
    wanted = replace(ONE, groups=(BLOCK, replace(BLOCK, key="d", node_group="-decode-1")))
    aws = Aws({("ec2", "describe_capacity_reservations"): {"CapacityReservations": [ENTRY]},
               ("ec2", "describe_instances"): running()})  # fmt: skip
    assert {answer.outcome for answer in answers(reservation, wanted, aws)} == {"fault"}
    aws.answers["ec2", "describe_instances"] = running(*[("p5.48xlarge", "capacity-block", "aws-prefill-1")] * 2)
    assert {answer.outcome for answer in answers(reservation, wanted, aws)} == {"ok"}


def test_a_reservation_that_is_not_there_is_a_fault() -> None:
    wanted = replace(ONE, groups=(BLOCK,))
    code = "InvalidCapacityReservationId.NotFound"
    aws = Aws({("ec2", "describe_capacity_reservations"): refusal(code), ("ec2", "describe_instances"): running()})
    assert only(reservation, wanted, aws).outcome == "fault"
    assert "none" in only(reservation, replace(ONE, groups=(replace(BLOCK, reservation=None),)), aws).found


@pytest.mark.parametrize(
    ("answer", "outcome", "told"),
    [
        ({"PlacementGroups": [{"GroupName": "pg", "Strategy": "cluster", "State": "available"}]}, "ok", "cluster"),
        ({"PlacementGroups": [{"GroupName": "pg", "Strategy": "spread", "State": "available"}]}, "fault", "spread"),
        ({"PlacementGroups": [{"GroupName": "pg", "Strategy": "cluster", "State": "deleting"}]}, "fault", "deleting"),
        ({"PlacementGroups": [{"GroupName": "pg", "Strategy": "cluster"}]}, "unknown", "no state"),
        ("InvalidPlacementGroup.Unknown", "fault", "no placement group"),
        ("UnauthorizedOperation", "unknown", "not allowed"),
    ],
)
def test_a_placement_group(answer: Any, outcome: str, told: str) -> None:
    wanted = replace(ONE, groups=(replace(PREFILL, placement_group="pg"),))
    found = only(placement_group, wanted, stubbed("ec2", ("describe_placement_groups", answer)))
    assert found.outcome == outcome and told in found.found
