"""What only AWS can say about a plan stops it at preview, with the way out, and nothing is made."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.aws_sim import install_plugins
from tools.awsim.running import AwsStandIn
from tools.cache import CHECKOUT
from tools.deployment import Deployment, Finished


@pytest.fixture
def aws() -> Iterator[AwsStandIn]:
    with AwsStandIn() as found:
        yield found


def previewed(deployment: Deployment, aws: AwsStandIn, folder: Path, **groups: dict[str, Any]) -> Finished:
    """A preview of the prod stack on the stand-in, with changed node groups."""
    home = folder / "pulumi"
    install_plugins(home)
    copy = Path(shutil.copy(CHECKOUT / "stacks/Pulumi.prod.yaml", folder))
    content = yaml.safe_load(copy.read_text())
    for tier, change in groups.items():
        content["config"]["splitserve:platform"]["aws"]["nodeGroups"][tier] |= change
    copy.write_text(yaml.safe_dump(content))
    environment = {**deployment.environment, **aws.environment(), "PULUMI_HOME": str(home)}
    return replace(deployment, environment=environment).run("preview", "--config-file", str(copy))


def test_blocks_and_reservations_that_do_not_fit_are_refused_together(
    deployment: Deployment, aws: AwsStandIn, tmp_path: Path
) -> None:
    ec2 = aws.client("ec2")
    (offering,) = ec2.describe_capacity_block_offerings(
        InstanceType="p5.48xlarge", InstanceCount=1, CapacityDurationHours=24,
        StartDateRange=datetime.now(UTC) + timedelta(days=2),
    )["CapacityBlockOfferings"]  # fmt: skip
    block = ec2.purchase_capacity_block(
        CapacityBlockOfferingId=offering["CapacityBlockOfferingId"], InstancePlatform="Linux/UNIX"
    )["CapacityReservation"]["CapacityReservationId"]
    other = ec2.create_capacity_reservation(
        InstanceType="p4d.24xlarge", InstancePlatform="Linux/UNIX", AvailabilityZone="us-east-1a", InstanceCount=1
    )["CapacityReservation"]["CapacityReservationId"]
    before = aws.leftovers()
    finished = previewed(
        deployment, aws, tmp_path,
        prefill={"capacity": "block", "reservation": block, "placementGroup": "none"},
        decode={"capacity": "reservation", "reservation": other, "placementGroup": "none"},
    )  # fmt: skip
    assert finished.code == 1 and "Traceback" not in finished.text
    for words in (
        "2 fault(s), nothing was changed", f"nodeGroups.prefill.reservation: found {block}, scheduled, starts",
        "deploy then: launches into it fail until it is active",
        f"nodeGroups.decode.reservation: found {other} of type p4d.24xlarge, wanted p5.48xlarge",
    ):  # fmt: skip
        assert words in finished.text, finished.text
    assert aws.leftovers() == before


def test_what_aws_does_not_answer_is_a_warning_and_never_ok(
    deployment: Deployment, aws: AwsStandIn, tmp_path: Path
) -> None:
    aws.faults([{"service": "service-quotas", "kind": "access-denied"}])
    finished = previewed(deployment, aws, tmp_path)
    assert finished.code == 0, finished.text
    assert "could not check" in finished.text and "vcpu-quota" in finished.text
