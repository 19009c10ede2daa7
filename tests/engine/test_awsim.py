"""The AWS stand-in through the real engine: every kind is made, changed, replaced, refreshed, imported, removed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine.on_stand_in import engine_on
from tools.awsim.kinds import KINDS
from tools.awsim.running import AwsStandIn

PROJECT = """\
name: awsim-test
runtime: python
main: .
config:
  aws:region: us-east-1
  aws:defaultTags: {value: {tags: {project: awsim}}}
"""
PROGRAM = '''\
"""Each kind once. Configuration changes what a step changes."""
import json

import pulumi
import pulumi_aws as aws

config = pulumi.Config()
nodes = config.get_int("nodes") or 1
retention = config.get_int("retention") or 7
instance = config.get("instance") or "g6.8xlarge"
strategy = config.get("strategy") or "cluster"
trust = lambda service: json.dumps({"Version": "2012-10-17", "Statement": [
    {"Effect": "Allow", "Principal": {"Service": service}, "Action": ["sts:AssumeRole", "sts:TagSession"]}]})

vpc = aws.ec2.Vpc("vpc", cidr_block="10.0.0.0/16", enable_dns_hostnames=True, tags={"Name": "awsim"})
subnets = [aws.ec2.Subnet(f"subnet-{z}", vpc_id=vpc.id, cidr_block=f"10.0.{n}.0/24", availability_zone=f"us-east-1{z}",
                          map_public_ip_on_launch=True) for n, z in enumerate("ab")]
gateway = aws.ec2.InternetGateway("gateway", vpc_id=vpc.id)
address = aws.ec2.Eip("address", domain="vpc", opts=pulumi.ResourceOptions(depends_on=[gateway]))
nat = aws.ec2.NatGateway("nat", allocation_id=address.allocation_id, subnet_id=subnets[0].id)
table = aws.ec2.RouteTable("table", vpc_id=vpc.id)
aws.ec2.Route("route", route_table_id=table.id, destination_cidr_block="0.0.0.0/0", gateway_id=gateway.id)
for index, subnet in enumerate(subnets):
    aws.ec2.RouteTableAssociation(f"association-{index}", route_table_id=table.id, subnet_id=subnet.id)
aws.ec2.VpcEndpoint("s3", vpc_id=vpc.id, service_name="com.amazonaws.us-east-1.s3", route_table_ids=[table.id])
group = aws.ec2.SecurityGroup("nodes", vpc_id=vpc.id, description="nodes")
aws.vpc.SecurityGroupIngressRule("self", security_group_id=group.id, ip_protocol="-1",
                                 referenced_security_group_id=group.id)
aws.vpc.SecurityGroupIngressRule("https", security_group_id=group.id, ip_protocol="tcp", from_port=443, to_port=443,
                                 cidr_ipv4="10.0.0.0/16", description="https")
aws.vpc.SecurityGroupEgressRule("all", security_group_id=group.id, ip_protocol="-1", cidr_ipv4="0.0.0.0/0")
placement = aws.ec2.PlacementGroup("placement", strategy=strategy)
key = aws.kms.Key("key", description="secrets", enable_key_rotation=True, deletion_window_in_days=7)
aws.kms.Alias("alias", name="alias/awsim", target_key_id=key.key_id)
log = aws.cloudwatch.LogGroup("log", name="/aws/eks/awsim/cluster", retention_in_days=retention)

role = aws.iam.Role("cluster", assume_role_policy=trust("eks.amazonaws.com"))
attached = aws.iam.RolePolicyAttachment("cluster", role=role.name,
                                        policy_arn="arn:aws:iam::aws:policy/AmazonEKSClusterPolicy")
node_role = aws.iam.Role("node", assume_role_policy=trust("ec2.amazonaws.com"))
pod_role = aws.iam.Role("pod", assume_role_policy=trust("pods.eks.amazonaws.com"))
aws.iam.RolePolicy("pod", role=pod_role.name, policy=json.dumps({"Version": "2012-10-17", "Statement": [
    {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}]}))

cluster = aws.eks.Cluster(
    "cluster", name="awsim", role_arn=role.arn, version="1.34",
    vpc_config={"subnet_ids": [s.id for s in subnets], "endpoint_private_access": True},
    access_config={"authentication_mode": "API", "bootstrap_cluster_creator_admin_permissions": True},
    encryption_config={"provider": {"key_arn": key.arn}, "resources": ["secrets"]},
    enabled_cluster_log_types=["audit", "api"], kubernetes_network_config={"ip_family": "ipv4"},
    upgrade_policy={"support_type": "STANDARD"}, bootstrap_self_managed_addons=False,
    opts=pulumi.ResourceOptions(depends_on=[attached, log]))
template = aws.ec2.LaunchTemplate(
    "gpu", instance_type=instance, update_default_version=True, placement={"group_name": placement.name},
    metadata_options={"http_tokens": "required", "http_put_response_hop_limit": 2},
    block_device_mappings=[{"device_name": "/dev/xvda", "ebs": {"volume_size": 200, "volume_type": "gp3",
                                                               "encrypted": "true"}}],
    network_interfaces=[
        {"network_card_index": 0, "device_index": 0, "interface_type": "interface",
         "security_groups": [group.id, cluster.vpc_config.cluster_security_group_id]},
        {"network_card_index": 0, "device_index": 1, "interface_type": "efa-only", "security_groups": [group.id]},
    ] if instance != "g6.8xlarge" else [
        {"network_card_index": 0, "device_index": 0, "interface_type": "efa", "security_groups": [group.id]}],
    tag_specifications=[{"resource_type": "instance", "tags": {"Name": "gpu"}}])
nodegroup = aws.eks.NodeGroup(
    "gpu", cluster_name=cluster.name, node_role_arn=node_role.arn, subnet_ids=[subnets[0].id],
    scaling_config={"desired_size": nodes, "min_size": 0, "max_size": 4}, ami_type="AL2023_x86_64_NVIDIA",
    launch_template={"id": template.id, "version": template.latest_version.apply(str)}, capacity_type="ON_DEMAND",
    labels={"splitserve.dev/pool": "prefill"}, node_repair_config={"enabled": True},
    taints=[{"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}],
    update_config={"max_unavailable": 1})
aws.eks.Addon("cni", cluster_name=cluster.name, addon_name="vpc-cni",
              configuration_values=json.dumps({"env": {"ENABLE_PREFIX_DELEGATION": "true"}}),
              resolve_conflicts_on_create="OVERWRITE", resolve_conflicts_on_update="PRESERVE")
aws.eks.Addon("dns", cluster_name=cluster.name, addon_name="coredns",
              opts=pulumi.ResourceOptions(depends_on=[nodegroup]))
operator = aws.iam.Role("operator", assume_role_policy=trust("ec2.amazonaws.com"))
entry = aws.eks.AccessEntry("operator", cluster_name=cluster.name, principal_arn=operator.arn)
aws.eks.AccessPolicyAssociation(
    "operator", cluster_name=cluster.name, principal_arn=entry.principal_arn, access_scope={"type": "cluster"},
    policy_arn="arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy")
aws.eks.PodIdentityAssociation("pod", cluster_name=cluster.name, namespace="splitserve", service_account="vllm",
                               role_arn=pod_role.arn)

logs = aws.s3.Bucket("logs", force_destroy=True)
aws.s3.BucketPublicAccessBlock("logs", bucket=logs.bucket, block_public_acls=True, block_public_policy=True,
                               ignore_public_acls=True, restrict_public_buckets=True)
aws.s3.BucketServerSideEncryptionConfiguration("logs", bucket=logs.bucket, rules=[
    {"apply_server_side_encryption_by_default": {"sse_algorithm": "AES256"}}])
aws.s3.BucketLifecycleConfiguration("logs", bucket=logs.bucket, rules=[
    {"id": "old", "status": "Enabled", "filter": {"prefix": ""}, "expiration": {"days": 30}}])
aws.s3.BucketPolicy("logs", bucket=logs.bucket, policy=logs.arn.apply(lambda arn: json.dumps({
    "Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:PutObject", "Resource": arn + "/*",
                                            "Principal": {"Service": "delivery.logs.amazonaws.com"}}]})))
balancer = aws.lb.LoadBalancer("front", load_balancer_type="network", internal=True, subnets=[s.id for s in subnets],
                               enable_cross_zone_load_balancing=True, security_groups=[group.id],
                               access_logs={"bucket": logs.bucket, "enabled": True, "prefix": "front"})
targets = aws.lb.TargetGroup("front", port=30080, protocol="TCP", vpc_id=vpc.id, target_type="instance",
                             deregistration_delay=30, connection_termination=True, preserve_client_ip="true",
                             health_check={"protocol": "HTTP", "path": "/health", "port": "30080", "interval": 10},
                             stickiness={"enabled": True, "type": "source_ip"})
aws.lb.Listener("front", load_balancer_arn=balancer.arn, port=80, protocol="TCP",
                default_actions=[{"type": "forward", "target_group_arn": targets.arn}])
aws.autoscaling.Attachment("front", lb_target_group_arn=targets.arn,
                           autoscaling_group_name=nodegroup.resources[0].autoscaling_groups[0].name)
aws.fsx.LustreFileSystem("models", subnet_ids=subnets[0].id, storage_capacity=1200, deployment_type="SCRATCH_2",
                         security_group_ids=[group.id])
if config.get("imported"):
    aws.ec2.Vpc("imported", cidr_block="10.9.0.0/16", opts=pulumi.ResourceOptions(import_=config.get("imported")))

pulumi.export("endpoint", cluster.endpoint)
pulumi.export("account", aws.get_caller_identity_output().account_id)
pulumi.export("partition", aws.get_partition_output().partition)
pulumi.export("image", aws.ssm.get_parameter_output(name="/test/image").value)
pulumi.export("template", template.latest_version)
pulumi.export("vpc", vpc.id)
pulumi.export("table", table.id)
pulumi.export("tags", vpc.tags_all)
'''


THROTTLED = [{"service": "ec2", "kind": "throttle", "every": 6}, {"service": "eks", "kind": "throttle", "every": 5}]


class Stack:
    """A stack of the program above, on the engine that this checkout uses."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self.environment = environment

    def pulumi(self, *arguments: str, fails: bool = False) -> str:
        command = ["pulumi", *arguments, "--non-interactive", "--color=never"]
        done = subprocess.run(command, cwd=self.folder, env=self.environment, text=True, capture_output=True)
        text = done.stdout + done.stderr
        assert (done.returncode != 0) == fails, text
        return text

    def up(self, *, fails: bool = False, **config: Any) -> str:
        settings = [part for key, value in config.items() for part in ("--config", f"awsim-test:{key}={value}")]
        return self.pulumi("up", "--yes", "--skip-preview", *settings, fails=fails)

    def outputs(self) -> dict[str, Any]:
        return json.loads(self.pulumi("stack", "output", "--json"))

    def tokens(self) -> set[str]:
        state = json.loads(self.pulumi("stack", "export"))
        return {found["type"] for found in state["deployment"]["resources"] if found["type"].startswith("aws:")}


@pytest.fixture
def aws() -> Iterator[AwsStandIn]:
    with AwsStandIn() as running:
        yield running


@pytest.fixture
def stack(tmp_path: Path, aws: AwsStandIn) -> Stack:
    environment = engine_on(tmp_path, aws)
    folder = tmp_path / "program"
    folder.mkdir()
    (folder / "Pulumi.yaml").write_text(PROJECT)
    (folder / "__main__.py").write_text(PROGRAM)
    made = Stack(folder, environment)
    made.pulumi("stack", "init", "test")
    aws.client("ssm").put_parameter(Name="/test/image", Value="ami-1", Type="String")
    return made


def test_a_stack_of_every_kind(stack: Stack, aws: AwsStandIn) -> None:
    planned = stack.pulumi("preview")
    assert "to create" in planned and not [call for call in aws.calls() if ":Create" in call]

    with aws.failing(*THROTTLED):
        stack.up()
    outputs = stack.outputs()
    assert stack.tokens() - {"aws:"} >= KINDS.keys()
    assert outputs["endpoint"].startswith("https://")
    assert (outputs["account"], outputs["partition"], outputs["image"]) == ("123456789012", "aws", "ami-1")
    assert outputs["tags"] == {"Name": "awsim", "project": "awsim"}
    assert "unchanged" in stack.up() and outputs == stack.outputs()

    changed = stack.up(nodes=2, retention=14)
    assert "2 updated" in changed, changed
    group = aws.client("eks").describe_nodegroup(clusterName="awsim", nodegroupName=_node_group(aws))["nodegroup"]
    assert group["scalingConfig"]["desiredSize"] == 2

    replaced = stack.up(nodes=2, retention=14, strategy="partition")
    assert "1 replaced" in replaced and stack.outputs()["template"] == 2, replaced

    aws.client("ec2").delete_route(RouteTableId=outputs["table"], DestinationCidrBlock="0.0.0.0/0")
    refreshed = stack.pulumi("refresh", "--yes", "--skip-preview")
    assert "1 deleted" in refreshed, refreshed
    assert "1 created" in stack.up(nodes=2, retention=14, strategy="partition")

    vpc = aws.client("ec2").create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    imported = stack.up(nodes=2, retention=14, strategy="partition", imported=vpc)
    assert "1 imported" in imported, imported

    stack.pulumi("destroy", "--yes", "--skip-preview")
    aws.client("ssm").delete_parameter(Name="/test/image")
    assert aws.leftovers() == []


def _node_group(aws: AwsStandIn) -> str:
    return aws.client("eks").list_nodegroups(clusterName="awsim")["nodegroups"][0]


def test_no_capacity_is_told_and_leaves_nothing_behind(stack: Stack, aws: AwsStandIn) -> None:
    """The node group exists in AWS, so it must be in the state, or nobody would ever remove it."""
    with aws.failing({"kind": "insufficient-capacity", "match": "g6.8xlarge"}):
        failed = stack.up(fails=True)
    assert "InsufficientInstanceCapacity - We currently do not have sufficient g6.8xlarge capacity" in failed
    assert "Traceback" not in failed
    assert "aws:eks/nodeGroup:NodeGroup" in stack.tokens()
    stack.pulumi("destroy", "--yes", "--skip-preview")
    aws.client("ssm").delete_parameter(Name="/test/image")
    assert aws.leftovers() == []
