"""Whole runs: from a plan to every answer, to one message, to the command's table, JSON and exit codes."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from components.hardware.catalogue import instance
from components.platform.preflight.all_checks import checks
from components.platform.preflight.answer import worst
from components.platform.preflight.ask import Ask
from components.platform.preflight.check import Subject
from components.platform.preflight.run import Outcomes, answers_of, run_checks
from infra.aws_preflight import preflight, wanted
from infra.commands import preflight as command
from infra.settings import SettingsError
from tests.unit.plans import ROOT, prod
from tests.unit.test_aws_preflight_ask import EVERYTHING, NOW, Aws, refusal

GROUPS = "platform.aws.nodeGroups"


def described(name: str, vcpus: int, gpu: bool) -> dict[str, Any]:
    """A type as EC2 describes it, in the fields that are read."""
    known = instance(name) if gpu else None
    entry: dict[str, Any] = {"InstanceType": name, "VCpuInfo": {"DefaultVCpus": vcpus},
                             "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]}}  # fmt: skip
    if known is None:
        return entry
    cards = [{"NetworkCardIndex": c.index, "InterfaceTypes": list(c.interface_types),
              "MaximumNetworkInterfaces": c.max_interfaces, "PeakBandwidthInGbps": c.gbit_per_s} for c in known.cards]  # fmt: skip
    return entry | {
        "GpuInfo": {"Gpus": [{"Name": known.gpu, "Count": known.gpus, "MemoryInfo": {"SizeInMiB": known.gpu_memory_mib}}]},
        "NetworkInfo": {"NetworkPerformance": "3200 Gigabit", "NetworkCards": cards,
                        "EfaInfo": {"MaximumEfaInterfaces": known.efa_interfaces}},
        "MemoryInfo": {"SizeInMiB": known.memory_mib}, "InstanceStorageInfo": {"TotalSizeInGB": known.nvme_gb},
    }  # fmt: skip


def healthy() -> dict[tuple[str, str], Any]:
    """What AWS says where prod can be built."""
    types = ("p5.48xlarge", "m7i.xlarge")
    zones = [{"ZoneName": f"us-east-1{letter}", "ZoneId": "use1-az6", "State": "available",
              "ZoneType": "availability-zone", "OptInStatus": "opt-in-not-required"} for letter in "abcdef"]  # fmt: skip
    return {
        ("sts", "get_caller_identity"): {"Account": "1", "Arn": "arn:aws:iam::1:user/me"},
        ("ec2", "describe_regions"): {"Regions": [{"RegionName": "us-east-1", "OptInStatus": "opt-in-not-required"}]},
        ("ec2", "describe_availability_zones"): {"AvailabilityZones": zones},
        ("ec2", "describe_instance_type_offerings"): {
            "InstanceTypeOfferings": [{"InstanceType": name, "Location": "us-east-1a"} for name in types]},
        ("ec2", "describe_instance_types"): {
            "InstanceTypes": [described("p5.48xlarge", 192, True), described("m7i.xlarge", 4, False)]},
        ("ec2", "describe_instances"): {"Reservations": []},
        ("ec2", "describe_addresses"): {"Addresses": []},
        ("ec2", "describe_vpcs"): {"Vpcs": []},
        ("service-quotas", "get_service_quota"): {"Quota": {"Value": 1000.0}},
        ("ssm", "get_parameter"): {"Parameter": {"Value": "1.34.2-20261101"}},
        ("eks", "describe_cluster_versions"): {
            "clusterVersions": [{"clusterVersion": "1.34", "versionStatus": "STANDARD_SUPPORT"}]},
    }  # fmt: skip


@pytest.fixture(autouse=True)
def aws_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "aws").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(folder))


def stand_in(**changes: Any) -> Aws:
    """A healthy AWS with some operations answered otherwise."""
    found = healthy()
    services = {operation: service for service, operation in found}
    other = {(services.get(name, "ec2"), name): answer for name, answer in changes.items()}
    return Aws(found | other, {"any": "answer"})


def test_what_prod_wants() -> None:
    asked = wanted(prod(("platform.aws.network.nat", "one")), "prod")
    assert [group.key for group in asked.groups] == [f"{GROUPS}.{t}" for t in ("prefill", "decode", "system")]
    assert (asked.region, asked.zone, asked.eips, asked.swap) == ("us-east-1", "us-east-1a", 1, False)
    assert asked.cluster_name == "splitserve-prod"
    assert asked.own_tag == ("splitserve:stack", "prod")
    assert [group.placement_group for group in asked.groups] == ["own", "own", "none"]
    assert asked.groups[0].node_group.startswith("-prefill-") and asked.groups[2].node_group == "-system"


@pytest.mark.parametrize(("nat", "eips"), [("none", 0), ("one", 1), ("each-zone", 3)])
def test_each_nat_gateway_has_an_address(nat: str, eips: int) -> None:
    asked = wanted(
        prod(("platform.aws.network.nat", nat), ("platform.aws.loadBalancerZones", ["us-east-1a", "us-east-1c"])), "c"
    )
    assert asked.eips == eips
    assert ("platform.aws.secondZone", "us-east-1b") in asked.other_zones


def test_off_aws_there_is_nothing_to_ask() -> None:
    result = CliRunner().invoke(app(), ["--stack-file", str(ROOT / "stacks/Pulumi.local.yaml")])
    assert result.exit_code == 2 and "platform.kind is local" in result.stderr


def test_where_all_is_well_there_is_an_ok_for_each_subject() -> None:
    asked = wanted(prod(), "prod")
    outcomes = run_checks(asked, stand_in(), NOW)
    assert outcomes.outcome == "ok", [str(answer) for answer in outcomes.answers if answer.outcome != "ok"]
    assert len(outcomes.answers) == sum(len(list(check.subjects(asked))) for check in checks())
    assert preflight(prod(), "prod", "prod", clients=stand_in()).warnings == ()


def test_all_faults_come_in_one_message_with_what_could_not_be_checked() -> None:
    plan = prod((f"{GROUPS}.prefill.capacity", "block"), (f"{GROUPS}.prefill.reservation", "cr-1"),
                (f"{GROUPS}.prefill.placementGroup", "theirs"), (f"{GROUPS}.decode.securityGroup", "sg-1"))  # fmt: skip
    aws = stand_in(
        describe_regions={"Regions": [{"RegionName": "us-east-1", "OptInStatus": "not-opted-in"}]},
        describe_availability_zones={"AvailabilityZones": [{"ZoneName": "us-east-1b", "ZoneType": "availability-zone"}]},
        describe_instance_type_offerings={"InstanceTypeOfferings": [{"InstanceType": "p5.48xlarge", "Location": "us-east-1b"}]},
        describe_capacity_reservations={"CapacityReservations": []},
        describe_placement_groups=refusal("InvalidPlacementGroup.Unknown"),
        describe_security_groups=refusal("InvalidGroup.NotFound"),
        get_service_quota={"Quota": {"Value": 0.0}},
        get_parameter=refusal("ParameterNotFound"),
        describe_cluster_versions=refusal("AccessDeniedException"),
    )  # fmt: skip
    with pytest.raises(SettingsError) as error:
        preflight(plan, "prod", "prod", clients=aws)
    told = str(error.value)
    for check in ("region", "zone", "offering", "reservation", "placement-group", "security-group", "vcpu-quota",
                  "address-quota", "vpc-quota", "image"):  # fmt: skip
        assert f"[{check}]" in told, check
    assert "could not check: platform.aws.kubernetesVersion" in told and "eks:DescribeClusterVersions" in told


def test_what_could_not_be_checked_is_a_warning_where_nothing_is_wrong() -> None:
    found = preflight(prod(), "prod", "c", clients=stand_in(describe_regions=refusal("RequestLimitExceeded")))
    assert len(found.warnings) == 1 and found.warnings[0].startswith("could not check: platform.aws.region")


def test_without_credentials_nothing_else_is_asked() -> None:
    aws = stand_in(get_caller_identity=refusal("ExpiredToken"))
    outcomes = run_checks(EVERYTHING, aws, NOW)
    assert aws.calls == [("sts", "get_caller_identity")]
    assert {answer.check for answer in outcomes.of("ok")} == {"programs"}
    assert {answer.found for answer in outcomes.of("unknown")} == {"not asked: no credentials"}


def test_an_existing_security_group_without_efas_rules_is_a_fault_of_the_rules() -> None:
    plan = prod((f"{GROUPS}.prefill.securityGroup", "sg-1"))
    group = {"GroupId": "sg-1", "VpcId": "vpc-1", "IpPermissions": [], "IpPermissionsEgress": []}
    aws = stand_in(describe_security_groups={"SecurityGroups": [group]})
    with pytest.raises(SettingsError, match="efa-self-rules"):
        preflight(plan, "prod", "c", clients=aws)
    itself = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": "sg-1"}]}]
    group |= {"IpPermissions": itself, "IpPermissionsEgress": itself}
    found = preflight(plan, "prod", "c", clients=aws)
    assert found.plan.security_groups == {"prefill": group}


def test_a_check_that_takes_too_long_is_unknown_and_holds_up_none() -> None:
    def slow(service: str, operation: str) -> dict[str, Any]:
        time.sleep(0.4)
        return healthy()[service, operation]

    started = time.monotonic()
    outcomes = run_checks(wanted(prod(), "c"), stand_in(describe_regions=slow), NOW, limit_s=0.2)
    assert time.monotonic() - started < 0.4
    assert [(answer.check, answer.found) for answer in outcomes.of("unknown")] == [("region", "no answer within 0.2 s")]


def test_an_answer_that_can_not_be_read_is_unknown() -> None:
    outcomes = run_checks(wanted(prod(), "c"), stand_in(describe_vpcs={"Unexpected": 1}), NOW)
    (answer,) = outcomes.of("unknown")
    assert (answer.check, answer.found) == ("vpc-quota", "could not be judged: KeyError: 'Vpcs'")


def test_no_answer_at_all_is_no_ok() -> None:
    silent = replace(checks()[0], ask=lambda ask, subject: [])
    (answer,) = answers_of(Ask(EVERYTHING, stand_in()), silent, Subject("k"))
    assert answer.outcome == "unknown"
    assert worst([]) == "unknown" and Outcomes(()).outcome == "unknown"


def app() -> typer.Typer:
    made = typer.Typer()
    made.command()(command.preflight)
    return made


def run_command(monkeypatch: pytest.MonkeyPatch, aws: Aws, *more: str) -> Any:
    monkeypatch.setattr(command, "run_checks", lambda asked: run_checks(asked, aws, NOW))
    return CliRunner().invoke(app(), ["--stack-file", str(ROOT / "stacks/Pulumi.prod.yaml"), *more])


def test_the_command_exits_by_what_it_found(monkeypatch: pytest.MonkeyPatch) -> None:
    fine = run_command(monkeypatch, stand_in())
    assert fine.exit_code == 0 and "0 fault(s), 0 could not be checked" in fine.stdout
    unknown = run_command(monkeypatch, stand_in(describe_regions=refusal("UnauthorizedOperation")))
    assert unknown.exit_code == 2 and "could not check" in unknown.stdout and "ec2:DescribeRegions" in unknown.stdout
    both = run_command(monkeypatch, stand_in(describe_regions=refusal("UnauthorizedOperation"),
                                             get_parameter=refusal("ParameterNotFound")))  # fmt: skip
    assert both.exit_code == 1 and "FAULT" in both.stdout


def test_json_is_one_line_with_every_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run_command(monkeypatch, stand_in(get_parameter=refusal("ParameterNotFound")), "--json")
    assert result.stdout.count("\n") == 1
    found = json.loads(result.stdout)
    assert (found["stack"], found["region"], found["outcome"]) == ("prod", "us-east-1", "fault")
    assert {row["check"] for row in found["answers"] if row["outcome"] == "fault"} == {"image"}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "can't be read"),
        (": [", "is not YAML"),
        ("a: 1", "found no `config`"),
        ("config: {}", "platform: missing"),
    ],
)
def test_a_stack_file_that_can_not_be_read_is_one_message(tmp_path: Path, content: str | None, told: str) -> None:
    path = tmp_path / "Pulumi.odd.yaml"
    if content is not None:
        path.write_text(content)
    result = CliRunner().invoke(app(), ["--stack-file", str(path)])
    assert result.exit_code == 2 and told in result.stderr


def test_the_page_is_what_the_checks_are() -> None:
    assert (ROOT / "docs/reference/preflight.md").read_text() == command.page(), "write infra.commands.preflight.page()"
