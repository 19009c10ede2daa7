"""`splitserve orphans`: what is on AWS's stand-in and not in a state, and the commands that deal with it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from awscli.clidriver import create_clidriver
from typer.testing import CliRunner

from infra.cli import app
from infra.orphans import clusters, forget_command, orphans, pending_creates, pending_routes, region
from infra.tagged import Found
from tools.awsim.running import AwsStandIn

TAGS = [{"Key": "splitserve:stack", "Value": "t"}]
URN = "urn:pulumi:t::splitserve::"
TRUST = json.dumps({"Version": "2012-10-17", "Statement": [
    {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}]})  # fmt: skip
POLICY = "arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy"


@pytest.fixture(scope="module")
def running() -> Iterator[AwsStandIn]:
    with AwsStandIn() as aws:
        yield aws


@pytest.fixture
def aws(running: AwsStandIn, monkeypatch: pytest.MonkeyPatch) -> AwsStandIn:
    running.reset()
    for name, value in running.environment().items():
        monkeypatch.setenv(name, value)
    return running


def creating(kind: str, name: str, **inputs: Any) -> dict[str, Any]:
    return {"type": "creating", "resource": {"urn": f"{URN}{kind}::{name}", "type": kind, "inputs": inputs}}


def state(*pending: dict[str, Any]) -> dict[str, Any]:
    provider = {"urn": f"{URN}aws", "type": "pulumi:providers:aws", "id": "1", "inputs": {"region": "us-east-1"}}
    return {"deployment": {"resources": [provider], "pending_operations": list(pending)}}


SUBNET = "aws:ec2/subnet:Subnet"


def test_what_the_state_has_is_no_orphan() -> None:
    found = {"deployment": {"resources": [{"urn": "u", "type": SUBNET, "id": "subnet-1"}]}}
    one, other = Found(SUBNET, "subnet-1", ()), Found(SUBNET, "subnet-2", ())
    assert orphans(found, [one, other]) == [other]
    assert (pending_creates(found), forget_command(found, "t"), region(found)) == ([], "", None)
    assert region(state()) == "us-east-1"


def test_routes_that_may_be_there() -> None:
    route = creating("aws:ec2/route:Route", "r", routeTableId="rtb-1", destinationCidrBlock="0.0.0.0/0")
    assert pending_routes(state(route)) == [("rtb-1", "0.0.0.0/0")]


def ask(folder: Path, content: dict[str, Any], *options: str) -> Any:
    file = folder / "state.json"
    file.write_text(json.dumps(content))
    return CliRunner().invoke(app, ["orphans", "--stack", "t", "--state-file", str(file), *options])


def remove_all(printed: str) -> None:
    """By the AWS command line itself, in this process, which saves its starts."""
    driver = create_clidriver()
    for orphan in json.loads(printed)["orphans"]:
        for command in " && ".join(orphan["remove"]).split(" && "):
            assert driver.main(shlex.split(command)[1:]) == 0, command


def make_of_every_service(aws: AwsStandIn) -> str:
    """Of a stack `t`, and of another. Returns the route table."""
    ec2, elb, kms, iam = (aws.client(name) for name in ("ec2", "elbv2", "kms", "iam"))
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16", TagSpecifications=tagged("vpc"))["Vpc"]["VpcId"]
    gateway = ec2.create_internet_gateway(TagSpecifications=tagged("internet-gateway"))["InternetGateway"]
    ec2.attach_internet_gateway(InternetGatewayId=gateway["InternetGatewayId"], VpcId=vpc)
    table = ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
    ec2.create_route(RouteTableId=table, DestinationCidrBlock="0.0.0.0/0", GatewayId=gateway["InternetGatewayId"])
    group = ec2.create_security_group(GroupName="g", Description="g", VpcId=vpc,
                                      TagSpecifications=tagged("security-group"))["GroupId"]  # fmt: skip
    ec2.authorize_security_group_ingress(
        GroupId=group, TagSpecifications=tagged("security-group-rule"),
        IpPermissions=[{"IpProtocol": "tcp", "FromPort": 1, "ToPort": 1, "IpRanges": [{"CidrIp": "10.0.0.0/8"}]}],
    )  # fmt: skip
    key = kms.create_key(Tags=[{"TagKey": "splitserve:stack", "TagValue": "t"}])["KeyMetadata"]["KeyId"]
    kms.create_alias(AliasName="alias/splitserve-t-secrets", TargetKeyId=key)
    for role, tags in (("node-20260101000000aaaaaaaa", TAGS), ("node-20260101000000bbbbbbbb", []), ("person", TAGS)):
        iam.create_role(RoleName=role, AssumeRolePolicyDocument=TRUST, Tags=tags)
        iam.attach_role_policy(RoleName=role, PolicyArn=POLICY)
    elb.create_target_group(Name="t", Protocol="TCP", Port=1, VpcId=vpc, Tags=TAGS)
    for name in ("splitserve-t-logs-20260101000000aaaaaaaa", "splitserve-t-logs-kept"):
        aws.client("s3").create_bucket(Bucket=name)
    for name in ("t", "t2"):
        aws.client("logs").create_log_group(logGroupName=f"/aws/eks/splitserve-{name}/cluster")
    return table


def tagged(kind: str) -> Any:
    return [{"ResourceType": kind, "Tags": TAGS}]


def test_what_is_listed_can_be_removed_as_it_says(aws: AwsStandIn, tmp_path: Path) -> None:
    table = make_of_every_service(aws)
    route = creating("aws:ec2/route:Route", "r", routeTableId=table, destinationCidrBlock="0.0.0.0/0")
    asked = ask(tmp_path, state(route), "--json")
    assert asked.exit_code == 1, asked.output
    kinds = [orphan["kind"].rsplit(":", 1)[1] for orphan in json.loads(asked.output)["orphans"]]
    assert kinds == [
        "Route", "TargetGroup", "SecurityGroupIngressRule", "SecurityGroup", "InternetGateway", "Vpc", "Role", "Alias",
        "Key", "LogGroup", "Bucket",
    ]  # fmt: skip
    aws.client("ec2").delete_route(RouteTableId=table, DestinationCidrBlock="0.0.0.0/0")
    aws.client("ec2").delete_route_table(RouteTableId=table)
    remove_all(ask(tmp_path, state(), "--json").output)
    empty = ask(tmp_path, state())
    assert (empty.exit_code, empty.output) == (0, "0 thing(s) of stack t in us-east-1 are not in its state\n")
    assert aws.leftovers() == [
        "iam:role:node-20260101000000bbbbbbbb", "iam:role:person", "logs:group:/aws/eks/splitserve-t2/cluster",
        "s3:bucket:splitserve-t-logs-kept",
    ]  # fmt: skip


def test_the_text_tells_what_to_run(aws: AwsStandIn, tmp_path: Path) -> None:
    ec2 = aws.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16", TagSpecifications=tagged("vpc"))["Vpc"]["VpcId"]
    asked = ask(tmp_path, state(creating("aws:ec2/vpc:Vpc", "v", cidrBlock="10.0.0.0/16")))
    assert asked.exit_code == 1 and asked.output == (
        "1 thing(s) of stack t in us-east-1 are not in its state\n\nexport AWS_REGION=us-east-1\n\n"
        f"aws:ec2/vpc:Vpc  {vpc}  (available)\n  aws ec2 delete-vpc --vpc-id {vpc}\n\n"
        "then forget the creations that were under way:\n"
        "  pulumi refresh --stack t --yes --skip-preview --clear-pending-creates\n"
    )


def test_a_serving_stack_has_its_node_groups_in_anothers_cluster() -> None:
    group = creating("aws:eks/nodeGroup:NodeGroup", "g", clusterName="splitserve-other")
    assert clusters(state(group)) == {"splitserve-other"}


@pytest.fixture
def slow_eks(monkeypatch: pytest.MonkeyPatch) -> Iterator[AwsStandIn]:
    """What it makes is CREATING for longer than any test takes: none hangs on who is faster."""
    with AwsStandIn(settle_s=3600) as aws:
        for name, value in aws.environment().items():
            monkeypatch.setenv(name, value)
        yield aws


def test_eks_deletes_what_is_ready_and_not_protected(slow_eks: AwsStandIn, tmp_path: Path) -> None:
    aws = slow_eks
    ec2 = aws.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnets = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{n}.0/24", AvailabilityZone=f"us-east-1{z}")["Subnet"]["SubnetId"]
        for n, z in enumerate("ab")
    ]
    trust = TRUST.replace("ec2.", "eks.")
    role = aws.client("iam").create_role(RoleName="c", AssumeRolePolicyDocument=trust)["Role"]["Arn"]
    place = {"subnetIds": subnets}
    aws.client("eks").create_cluster(name="splitserve-t", roleArn=role, resourcesVpcConfig=place,
                                     accessConfig={"authenticationMode": "API"}, deletionProtection=True, tags={"splitserve:stack": "t"})  # fmt: skip
    printed = ask(tmp_path, state(), "--json").output
    remove = json.loads(printed)["orphans"][0]["remove"]
    active = "aws eks wait cluster-active --name splitserve-t"
    assert remove[:-1] == [
        active,
        f"aws eks update-cluster-config --name splitserve-t --no-deletion-protection && {active}",
    ]


def test_what_can_not_be_asked_is_no_empty_list(aws: AwsStandIn, tmp_path: Path) -> None:
    with aws.failing({"service": "iam", "kind": "access-denied"}):
        denied = ask(tmp_path, state())
    assert denied.exit_code == 2 and "AWS in us-east-1 can't be asked" in denied.stderr
    assert ask(tmp_path, {}, "--region", "us-east-1").exit_code == 0


def test_only_the_credentials_that_expired_fail(aws: AwsStandIn) -> None:
    ec2 = aws.client("ec2")
    with aws.failing({"kind": "expired-token", "match": "other"}):
        ec2.describe_vpcs()
    with aws.failing({"kind": "expired-token", "match": "test"}), pytest.raises(Exception, match="RequestExpired"):
        ec2.describe_vpcs()
