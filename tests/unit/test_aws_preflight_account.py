"""Credentials, region, programs, endpoints, zones, offerings, interfaces: what is answered to what AWS says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from components.hardware.catalogue import instance
from components.platform.preflight.account import credentials, endpoints, judge_region, programs, region
from components.platform.preflight.ask import Clients
from components.platform.preflight.interfaces import interfaces, judge_hardware
from components.platform.preflight.zones import judge_offering, judge_zone, offering, zone
from tests.unit.test_aws_preflight_ask import (  # noqa: F401
    EVERYTHING,
    PREFILL,
    Aws,
    answers,
    aws_keys,
    moto,
    only,
    refusal,
    stubbed,
)

pytestmark = pytest.mark.usefixtures("aws_keys")
ZONE = {"ZoneName": "us-east-1a", "ZoneId": "use1-az6", "ZoneType": "availability-zone",
        "OptInStatus": "opt-in-not-required", "State": "available", "GroupName": "us-east-1-zg-1"}  # fmt: skip


def aws_keys_say_who_asks(moto: Clients) -> None:  # noqa: F811
    answer = only(credentials, EVERYTHING, moto)
    assert answer.outcome == "ok" and "account 123456789012" in answer.found


@pytest.mark.parametrize("code", ["ExpiredToken", "InvalidClientTokenId", "AuthFailure"])
def aws_keys_that_sts_refuses_are_a_fault(code: str) -> None:
    answer = only(credentials, EVERYTHING, stubbed("sts", ("get_caller_identity", code)))
    assert answer.outcome == "fault" and code in answer.found and "region that is not enabled" in answer.fix


def test_the_region_must_exist_and_be_enabled(moto: Clients) -> None:  # noqa: F811
    assert only(region, EVERYTHING, moto).outcome == "ok"
    entries = [{"RegionName": "us-east-1", "OptInStatus": "opt-in-not-required"},
               {"RegionName": "af-south-1", "OptInStatus": "not-opted-in"}]  # fmt: skip
    assert judge_region("k", "us-esat-1", entries).fix == "there are af-south-1, us-east-1"
    assert judge_region("k", "af-south-1", entries).outcome == "fault"
    assert judge_region("k", "us-east-1", [{"RegionName": "us-east-1"}]).outcome == "unknown"


def test_a_program_must_be_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert only(programs, EVERYTHING, Aws({})).outcome == "fault"
    (tmp_path / "aws").write_text("#!/bin/sh\n")
    (tmp_path / "aws").chmod(0o755)
    assert only(programs, EVERYTHING, Aws({})).outcome == "ok"


def test_an_endpoint_that_answers_is_fine() -> None:
    assert {answer.outcome for answer in answers(endpoints, EVERYTHING, Aws({}, {"any": "thing"}))} == {"ok"}


def test_a_zone_is_told_with_its_id(moto: Clients) -> None:  # noqa: F811
    assert only(zone, EVERYTHING, moto).found == "us-east-1a is use1-az6, available"


@pytest.mark.parametrize(
    ("changes", "outcome", "told"),
    [
        ({}, "ok", "use1-az6"),
        ({"ZoneName": "us-east-1f"}, "fault", "us-east-1a"),
        ({"OptInStatus": "not-opted-in", "ZoneType": "local-zone"}, "fault", "not-opted-in"),
        ({"State": "impaired"}, "fault", "impaired"),
        ({"State": None}, "unknown", "no state"),
    ],
)
def test_a_zone_must_exist_be_opted_into_and_available(changes: dict[str, Any], outcome: str, told: str) -> None:
    answer = judge_zone("k", "us-east-1a", [ZONE | changes])
    assert answer.outcome == outcome and told in str(answer)


def test_the_zone_of_a_group_and_further_zones_are_asked_once_each() -> None:
    wanted = replace(EVERYTHING, groups=(replace(PREFILL, zone="us-east-1b"), PREFILL),
                     other_zones=(("platform.aws.secondZone", "us-east-1c"),))  # fmt: skip
    assert [subject.key for subject in zone.subjects(wanted)] == [
        "platform.aws.zone", "platform.aws.nodeGroups.prefill.zone", "platform.aws.secondZone"]  # fmt: skip


def test_the_zones_that_have_the_type_are_the_way_out(moto: Clients) -> None:  # noqa: F811
    assert {answer.outcome for answer in answers(offering, EVERYTHING, moto)} == {"ok"}
    elsewhere = [{"InstanceType": "p5.48xlarge", "Location": name} for name in ("us-east-1f", "us-east-1b")]
    assert judge_offering("k", PREFILL, elsewhere).fix == "set the zone to one of us-east-1b, us-east-1f"
    assert "in any zone" in judge_offering("k", PREFILL, []).found


def test_ec2_describes_the_type_as_the_catalogue_does(moto: Clients) -> None:  # noqa: F811
    found = answers(interfaces, EVERYTHING, moto)
    assert [answer.outcome for answer in found] == ["ok", "ok"]
    assert found[0].found == "32 EFA interfaces on 32 network cards"


@pytest.mark.parametrize(
    ("changes", "outcome", "told"),
    [
        ({"efa_interfaces": 0}, "fault", "efa_interfaces 0"),
        ({"cards": instance("p5.48xlarge").cards[:31]}, "fault", "cards of 31"),
        ({"architecture": "arm64"}, "fault", "architecture arm64"),
        ({"network_gbit_per_s": 3201.0}, "ok", "differs in network_gbit_per_s"),
    ],
)
def test_a_type_that_differs_in_what_decides_is_a_fault(changes: dict[str, Any], outcome: str, told: str) -> None:
    answer = judge_hardware(
        "k", "p5.48xlarge", {"p5.48xlarge": replace(instance("p5.48xlarge"), **changes)}, "us-east-1"
    )
    assert answer.outcome == outcome and told in answer.found


def test_a_type_that_the_catalogue_lacks_is_a_fault() -> None:
    answer = judge_hardware("k", "p9.48xlarge", {"p9.48xlarge": instance("p5.48xlarge")}, "us-east-1")
    assert answer.outcome == "fault" and "--refresh" in answer.fix


def test_a_refused_identity_for_another_reason_is_unknown() -> None:
    assert only(credentials, EVERYTHING, Aws({}, refusal("AccessDenied"))).outcome == "unknown"
