"""The AWS stand-in's server: refusals, EKS, faults, the token webhook, leftovers."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from tests.unit.ports import free_port
from tools.awsim.running import AwsStandIn

EFA_ONLY = {"NetworkCardIndex": 0, "DeviceIndex": 1, "InterfaceType": "efa-only"}
PRIMARY = {"NetworkCardIndex": 0, "DeviceIndex": 0, "InterfaceType": "interface"}
ADMIN = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"


WEBHOOK = f"127.0.0.1:{free_port()}"


@pytest.fixture(scope="module")
def running() -> Iterator[AwsStandIn]:
    with AwsStandIn(webhook=WEBHOOK) as aws:
        yield aws


@pytest.fixture
def aws(running: AwsStandIn) -> AwsStandIn:
    running.reset()
    return running


def refused(call: Callable[..., Any], **parameters: Any) -> str:
    """The error code and message of a call that must fail."""
    with pytest.raises(ClientError) as caught:
        call(**parameters)
    return str(caught.value)


def template(aws: AwsStandIn, name: str = "t", **data: Any) -> str:
    made = aws.client("ec2").create_launch_template(LaunchTemplateName=name, LaunchTemplateData=data)
    return made["LaunchTemplate"]["LaunchTemplateId"]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"InstanceType": "p5.48xlarge", "NetworkInterfaces": [{**PRIMARY, "InterfaceType": "efa-only"}]}, "primary"),
        ({"InstanceType": "p5.48xlarge", "NetworkInterfaces": [PRIMARY, EFA_ONLY, EFA_ONLY]}, "given twice"),
        ({"InstanceType": "m7i.large", "NetworkInterfaces": [PRIMARY, EFA_ONLY]}, "takes no EFA"),
        ({"InstanceType": "p5.48xlarge", "NetworkInterfaces": [PRIMARY, {**EFA_ONLY, "DeviceIndex": 2}]}, "device 2"),
        (
            {"InstanceType": "p5.48xlarge", "NetworkInterfaces": [PRIMARY, {**EFA_ONLY, "NetworkCardIndex": 32}]},
            "card 32",
        ),
        (
            {"InstanceType": "g6.8xlarge", "NetworkInterfaces": [{**PRIMARY, "InterfaceType": "efa"}, EFA_ONLY]},
            "2 EFAs",
        ),
        (
            {"NetworkInterfaces": [{**PRIMARY, "AssociatePublicIpAddress": True}, EFA_ONLY]},
            "multiple network interfaces",
        ),
        ({"NetworkInterfaces": [PRIMARY], "SecurityGroupIds": ["sg-1"]}, "security group"),
    ],
)
def test_launch_data_that_ec2_refuses(running: AwsStandIn, data: dict[str, Any], words: str) -> None:
    code = refused(running.client("ec2").create_launch_template, LaunchTemplateName="t", LaunchTemplateData=data)
    assert words in code and "InvalidParameterCombination" in code


def network(aws: AwsStandIn, zones: str = "ab") -> tuple[str, list[str]]:
    ec2 = aws.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnets = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{n}.0/24", AvailabilityZone=f"us-east-1{z}")["Subnet"]["SubnetId"]
        for n, z in enumerate(zones)
    ]
    return vpc, subnets


def role(aws: AwsStandIn, name: str, service: str) -> str:
    trust = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"Service": service},
                                                     "Action": "sts:AssumeRole"}]}  # fmt: skip
    made = aws.client("iam").create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(trust))
    return made["Role"]["Arn"]


def settled(find: Callable[[], str]) -> str:
    while (state := find()) in ("CREATING", "UPDATING"):
        time.sleep(0.05)
    return state


def cluster(aws: AwsStandIn, name: str = "demo") -> tuple[str, list[str], dict[str, Any]]:
    """(vpc, subnets, the active cluster)."""
    vpc, subnets = network(aws)
    eks, arn = aws.client("eks"), role(aws, f"{name}-cluster", "eks.amazonaws.com")
    eks.create_cluster(name=name, roleArn=arn, resourcesVpcConfig={"subnetIds": subnets},
                       accessConfig={"authenticationMode": "API"})  # fmt: skip
    assert settled(lambda: eks.describe_cluster(name=name)["cluster"]["status"]) == "ACTIVE"
    return vpc, subnets, eks.describe_cluster(name=name)["cluster"]


def test_subnets_must_fit_and_be_apart(aws: AwsStandIn) -> None:
    vpc, _ = network(aws)
    create = aws.client("ec2").create_subnet
    assert "InvalidSubnet.Conflict" in refused(create, VpcId=vpc, CidrBlock="10.0.0.0/25")
    assert "InvalidSubnet.Range" in refused(create, VpcId=vpc, CidrBlock="10.1.0.0/24")


def test_a_cluster_needs_two_zones_and_a_role_that_eks_may_use(aws: AwsStandIn) -> None:
    _, subnets = network(aws, "aa")
    create, good = aws.client("eks").create_cluster, role(aws, "good", "eks.amazonaws.com")
    place = {"subnetIds": subnets}
    assert "two different AZs" in refused(create, name="c", roleArn=good, resourcesVpcConfig=place)
    wrong = role(aws, "wrong", "ec2.amazonaws.com")
    assert "trust policy" in refused(create, name="c", roleArn=wrong, resourcesVpcConfig=place)
    assert "does not match" in refused(create, name="a.b", roleArn=good, resourcesVpcConfig=place)


def test_a_cluster_owns_its_security_group(aws: AwsStandIn) -> None:
    vpc, _, found = cluster(aws)
    place = found["resourcesVpcConfig"]
    ec2 = aws.client("ec2")
    group = ec2.describe_security_groups(GroupIds=[place["clusterSecurityGroupId"]])["SecurityGroups"][0]
    assert (place["vpcId"], group["VpcId"]) == (vpc, vpc)
    assert "DependencyViolation" in refused(ec2.delete_subnet, SubnetId=place["subnetIds"][0])
    aws.client("eks").delete_cluster(name="demo")
    assert "NotFound" in refused(ec2.describe_security_groups, GroupIds=[group["GroupId"]])


@pytest.mark.parametrize(
    ("data", "more", "words"),
    [
        ({"NetworkInterfaces": [{**PRIMARY, "SubnetId": "subnet-1"}]}, {}, "should not specify a subnet"),
        ({"InstanceType": "g6.8xlarge"}, {"instanceTypes": ["g6.8xlarge"]}, "both the launch template"),
        ({"InstanceType": "g6.8xlarge"}, {"diskSize": 100}, "within the launch template"),
        ({"NetworkInterfaces": [PRIMARY, EFA_ONLY]}, {"instanceTypes": ["m7i.large"]}, "takes no EFA"),
    ],
)
def test_what_a_node_group_may_not_share_with_its_template(
    aws: AwsStandIn, data: dict[str, Any], more: dict[str, Any], words: str
) -> None:
    _, subnets, _ = cluster(aws)
    arn = role(aws, "node", "ec2.amazonaws.com")
    chosen = {"id": template(aws, **data)}
    create = aws.client("eks").create_nodegroup
    given = {"clusterName": "demo", "nodegroupName": "g", "nodeRole": arn, "subnets": subnets}
    assert words in refused(create, **given, launchTemplate=chosen, **more)


def node_group(aws: AwsStandIn, subnets: list[str], name: str = "gpu", nodes: int = 1) -> dict[str, Any]:
    eks = aws.client("eks")
    eks.create_nodegroup(
        clusterName="demo", nodegroupName=name, nodeRole=role(aws, f"node-{name}", "ec2.amazonaws.com"),
        subnets=subnets, instanceTypes=["g6.8xlarge"], scalingConfig={"minSize": 0, "desiredSize": nodes, "maxSize": 2},
    )  # fmt: skip

    def find() -> dict[str, Any]:
        return eks.describe_nodegroup(clusterName="demo", nodegroupName=name)["nodegroup"]

    settled(lambda: find()["status"])
    return find()


def test_a_node_group_has_a_scaling_group_and_holds_its_cluster(aws: AwsStandIn) -> None:
    _, subnets, _ = cluster(aws)
    group = node_group(aws, subnets)
    name = group["resources"]["autoScalingGroups"][0]["name"]
    found = aws.client("autoscaling").describe_auto_scaling_groups(AutoScalingGroupNames=[name])["AutoScalingGroups"]
    assert (group["status"], len(found)) == ("ACTIVE", 1)
    eks = aws.client("eks")
    assert "nodegroups attached" in refused(eks.delete_cluster, name="demo")
    other, _ = network(aws)
    assert other
    assert "not in the cluster's VPC" in refused(
        eks.create_nodegroup, clusterName="demo", nodegroupName="x", nodeRole=group["nodeRole"],
        subnets=[_subnet_of(aws, other)],
    )  # fmt: skip


def _subnet_of(aws: AwsStandIn, vpc: str) -> str:
    found = aws.client("ec2").describe_subnets(Filters=[{"Name": "vpc-id", "Values": [vpc]}])
    return found["Subnets"][0]["SubnetId"]


def test_no_capacity_ends_in_create_failed(aws: AwsStandIn) -> None:
    _, subnets, _ = cluster(aws)
    with aws.failing({"kind": "insufficient-capacity", "match": "g6.8xlarge", "times": 1}):
        group = node_group(aws, subnets)
        assert node_group(aws, subnets, "second")["status"] == "ACTIVE"
    assert group["status"] == "CREATE_FAILED"
    assert group["health"]["issues"][0]["code"] == "AsgInstanceLaunchFailures"


def test_an_empty_group_needs_no_capacity(aws: AwsStandIn) -> None:
    _, subnets, _ = cluster(aws)
    with aws.failing({"kind": "insufficient-capacity", "match": "g6.8xlarge"}):
        assert node_group(aws, subnets, nodes=0)["status"] == "ACTIVE"


def test_a_group_that_can_not_grow_is_degraded_and_can_shrink(aws: AwsStandIn) -> None:
    _, subnets, _ = cluster(aws)
    name = node_group(aws, subnets)["resources"]["autoScalingGroups"][0]["name"]
    eks, place = aws.client("eks"), {"clusterName": "demo", "nodegroupName": "gpu"}

    def status() -> str:
        return eks.describe_nodegroup(**place)["nodegroup"]["status"]

    def instances() -> int:
        found = aws.client("autoscaling").describe_auto_scaling_groups(AutoScalingGroupNames=[name])
        return len(found["AutoScalingGroups"][0]["Instances"])

    with aws.failing({"kind": "insufficient-capacity", "match": "gpu"}):
        eks.update_nodegroup_config(**place, scalingConfig={"desiredSize": 2})
        assert (settled(status), instances()) == ("DEGRADED", 1)
    eks.update_nodegroup_config(**place, scalingConfig={"desiredSize": 0})
    assert (settled(status), instances()) == ("ACTIVE", 0)


def test_addons_entries_and_associations_go_with_the_cluster(aws: AwsStandIn) -> None:
    _, subnets, _ = cluster(aws)
    eks = aws.client("eks")
    eks.create_addon(clusterName="demo", addonName="coredns")
    time.sleep(0.4)
    assert eks.describe_addon(clusterName="demo", addonName="coredns")["addon"]["status"] == "DEGRADED"
    node_group(aws, subnets)
    assert eks.describe_addon(clusterName="demo", addonName="coredns")["addon"]["status"] == "ACTIVE"
    assert "not supported" in refused(eks.create_addon, clusterName="demo", addonName="core-dns")
    pod = role(aws, "pod", "pods.eks.amazonaws.com")
    place = {"clusterName": "demo", "namespace": "a", "serviceAccount": "b"}
    made = eks.create_pod_identity_association(**place, roleArn=pod, tags={"x": "y"})["association"]
    eks.tag_resource(resourceArn=made["associationArn"], tags={"z": "1"})
    assert eks.list_tags_for_resource(resourceArn=made["associationArn"])["tags"] == {"x": "y", "z": "1"}
    assert "ResourceInUse" in refused(eks.create_pod_identity_association, **place, roleArn=pod)
    eks.create_access_entry(clusterName="demo", principalArn=pod)
    eks.associate_access_policy(clusterName="demo", principalArn=pod, policyArn=ADMIN, accessScope={"type": "cluster"})
    listed = eks.list_associated_access_policies(clusterName="demo", principalArn=pod)["associatedAccessPolicies"]
    assert [found["policyArn"] for found in listed] == [ADMIN]
    eks.disassociate_access_policy(clusterName="demo", principalArn=pod, policyArn=ADMIN)
    eks.delete_nodegroup(clusterName="demo", nodegroupName="gpu")
    time.sleep(0.4)
    eks.delete_cluster(name="demo")
    time.sleep(0.4)
    assert eks.list_clusters()["clusters"] == []


CALLS = {
    "ec2": lambda aws: aws.client("ec2").describe_vpcs(),
    "eks": lambda aws: aws.client("eks").list_clusters(),
    "iam": lambda aws: aws.client("iam").list_roles(),
    "kms": lambda aws: aws.client("kms").list_keys(),
    "s3": lambda aws: aws.client("s3").list_buckets(),
}
CODES = {
    "throttle": {"ec2": "RequestLimitExceeded", "eks": "ThrottlingException", "iam": "Throttling",
                 "kms": "ThrottlingException", "s3": "SlowDown"},
    "access-denied": {"ec2": "UnauthorizedOperation", "eks": "AccessDeniedException", "iam": "AccessDenied",
                      "kms": "AccessDeniedException", "s3": "AccessDenied"},
    "expired-token": {"ec2": "RequestExpired", "eks": "ExpiredTokenException", "iam": "ExpiredToken",
                      "kms": "ExpiredTokenException", "s3": "ExpiredToken"},
}  # fmt: skip


@pytest.mark.parametrize("kind", sorted(CODES))
@pytest.mark.parametrize("service", sorted(CALLS))
def test_a_fault_has_its_services_code(running: AwsStandIn, kind: str, service: str) -> None:
    with running.failing({"service": service, "kind": kind, "times": 1}), pytest.raises(ClientError) as caught:
        CALLS[service](running)
    assert caught.value.response["Error"]["Code"] == CODES[kind][service]
    CALLS[service](running)


def test_rules_count_calls(running: AwsStandIn) -> None:
    ec2 = running.client("ec2")
    rule = {"service": "ec2", "action": "DescribeVpcs", "kind": "server-error", "every": 3, "after": 1}
    before = running.calls().get("ec2:DescribeVpcs", 0)
    with running.failing(rule):
        failed = []
        for number in range(7):
            try:
                ec2.describe_vpcs()
            except ClientError:
                failed.append(number)
    assert failed == [3, 6]
    assert running.calls()["ec2:DescribeVpcs"] == before + 7


def test_a_partial_creation_exists(aws: AwsStandIn) -> None:
    ec2 = aws.client("ec2")
    with aws.failing({"service": "ec2", "action": "CreateVpc", "kind": "partial", "times": 1}):
        assert "InternalError" in refused(ec2.create_vpc, CidrBlock="10.7.0.0/16")
    assert "10.7.0.0/16" in [vpc["CidrBlock"] for vpc in ec2.describe_vpcs()["Vpcs"]]
    assert [line.split(":")[1] for line in aws.leftovers()] == ["vpc"]


def test_a_retrying_client_gets_through(running: AwsStandIn) -> None:
    client = boto3.client("eks", endpoint_url=running.url, region_name=running.region, aws_access_key_id="test",
                          aws_secret_access_key="test", config=Config(retries={"mode": "standard"}))  # fmt: skip
    with running.failing({"service": "eks", "kind": "throttle", "times": 1}):
        assert client.list_clusters()["clusters"] == []


def test_a_timeout_closes_the_connection(running: AwsStandIn) -> None:
    rule = {"service": "ec2", "kind": "timeout", "seconds": 0.1, "times": 1}
    with running.failing(rule), pytest.raises(BotoCoreError):
        running.client("ec2").describe_vpcs()


def test_a_wrong_rule_is_refused(running: AwsStandIn) -> None:
    with pytest.raises(Exception, match="400"):
        running.faults([{"kind": "earthquake"}])


def token(aws: AwsStandIn, name: str, key: tuple[str, str] = ("test", "test")) -> str:
    """What `aws eks get-token` prints, by its own code."""
    environment = {**os.environ, **aws.environment(), "AWS_ACCESS_KEY_ID": key[0], "AWS_SECRET_ACCESS_KEY": key[1]}
    command = [str(Path(sys.executable).with_name("aws")), "eks", "get-token", "--cluster-name", name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["status"]["token"]


def ask(text: str) -> dict[str, Any]:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": text}}
    with urlopen(Request(f"http://{WEBHOOK}/authenticate", json.dumps(body).encode()), timeout=10) as answer:
        return json.loads(answer.read())["status"]


def test_the_webhook_knows_creator_entry_and_stranger(aws: AwsStandIn) -> None:
    cluster(aws)
    creator = ask(token(aws, "demo"))
    assert creator["authenticated"] and "system:masters" in creator["user"]["groups"]
    iam = aws.client("iam")
    iam.create_user(UserName="ann")
    made = iam.create_access_key(UserName="ann")["AccessKey"]
    text = token(aws, "demo", (made["AccessKeyId"], made["SecretAccessKey"]))
    assert "no access entry" in ask(text)["error"]
    arn = iam.get_user(UserName="ann")["User"]["Arn"]
    aws.client("eks").create_access_entry(clusterName="demo", principalArn=arn, kubernetesGroups=["viewers"])
    assert ask(text)["user"]["groups"] == ["viewers"]
    forged = token(aws, "demo", (made["AccessKeyId"], "guessed"))
    assert "signature" in ask(forged)["error"]


def test_the_webhook_refuses_other_tokens(aws: AwsStandIn) -> None:
    assert "no EKS cluster" in ask(token(aws, "demo"))["error"]
    cluster(aws)
    assert "fits no cluster" in ask(token(aws, "other"))["error"]
    assert "does not start" in ask("eyJ")["error"]
    good = base64.urlsafe_b64decode(token(aws, "demo").removeprefix("k8s-aws-v1.") + "==").decode()

    def changed(old: str, new: str) -> str:
        return "k8s-aws-v1." + base64.urlsafe_b64encode(good.replace(old, new).encode()).decode().rstrip("=")

    day = good.split("X-Amz-Date=")[1][:8]
    assert "expired" in ask(changed(f"X-Amz-Date={day}", "X-Amz-Date=20200101"))["error"]
    assert "not for 127" in ask(changed("127.0.0.1", "127.0.0.2"))["error"]
    assert "not for GetCallerIdentity" in ask(changed("GetCallerIdentity", "GetSessionToken"))["error"]


def test_fsx_sizes_and_throughput(aws: AwsStandIn) -> None:
    _, subnets = network(aws)
    create = aws.client("fsx").create_file_system
    given = {"FileSystemType": "LUSTRE", "SubnetIds": subnets[:1]}
    assert "multiple of 2400" in refused(
        create, **given, StorageCapacity=2000, LustreConfiguration={"DeploymentType": "SCRATCH_2"}
    )
    assert "needs one of (125" in refused(
        create, **given, StorageCapacity=1200, LustreConfiguration={"DeploymentType": "PERSISTENT_2"}
    )


def test_a_new_account_has_no_leftovers(aws: AwsStandIn) -> None:
    aws.client("ec2").describe_vpcs()
    key = aws.client("kms").create_key()["KeyMetadata"]["KeyId"]
    assert aws.leftovers() == [f"kms:key:{key}"]
    aws.client("kms").schedule_key_deletion(KeyId=key, PendingWindowInDays=7)
    assert aws.leftovers() == []
