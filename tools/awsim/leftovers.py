"""Everything that exists in the account beyond what a new one has, by asking the service itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import boto3

INSIDE = "AWSIMINSIDE"
"""The access key of the stand-in's own calls, which are neither counted nor made to fail."""
Client = Callable[[str], Any]


def leftovers(url: str, region: str) -> list[str]:
    """`service:kind:id` of all there is, sorted."""

    def client(service: str) -> Any:
        return boto3.client(service, endpoint_url=url, region_name=region, aws_access_key_id=INSIDE,
                            aws_secret_access_key=INSIDE)  # fmt: skip

    finders = (_ec2, _eks, _iam, _kms, _load_balancers, _others)
    return sorted({line for finder in finders for line in finder(client)})


def _ec2(client: Client) -> Iterator[str]:
    ec2 = client("ec2")
    vpcs = ec2.describe_vpcs()["Vpcs"]
    own = {vpc["VpcId"] for vpc in vpcs if not vpc["IsDefault"]}
    yield from (f"ec2:vpc:{name}" for name in own)
    for call, key, name, kind in (
        ("describe_subnets", "Subnets", "SubnetId", "subnet"),
        ("describe_route_tables", "RouteTables", "RouteTableId", "route-table"),
        ("describe_security_groups", "SecurityGroups", "GroupId", "security-group"),
    ):
        for found in getattr(ec2, call)()[key]:
            main = any(a.get("Main") for a in found.get("Associations", [])) or found.get("GroupName") == "default"
            if (found.get("VpcId") in own and not main) or (kind == "security-group" and not main):
                yield f"ec2:{kind}:{found[name]}"
    for call, key, name, kind in (
        ("describe_internet_gateways", "InternetGateways", "InternetGatewayId", "internet-gateway"),
        ("describe_nat_gateways", "NatGateways", "NatGatewayId", "nat-gateway"),
        ("describe_addresses", "Addresses", "AllocationId", "elastic-ip"),
        ("describe_vpc_endpoints", "VpcEndpoints", "VpcEndpointId", "vpc-endpoint"),
        ("describe_launch_templates", "LaunchTemplates", "LaunchTemplateId", "launch-template"),
        ("describe_placement_groups", "PlacementGroups", "GroupName", "placement-group"),
        ("describe_network_interfaces", "NetworkInterfaces", "NetworkInterfaceId", "network-interface"),
        ("describe_volumes", "Volumes", "VolumeId", "volume"),
    ):
        for found in getattr(ec2, call)()[key]:
            if str(found.get("State", "")).lower() not in ("deleted", "deleting"):
                yield f"ec2:{kind}:{found[name]}"
    for reservation in ec2.describe_instances()["Reservations"]:
        for instance in reservation["Instances"]:
            if instance["State"]["Name"] != "terminated":
                yield f"ec2:instance:{instance['InstanceId']}"


def _eks(client: Client) -> Iterator[str]:
    eks = client("eks")
    for cluster in eks.list_clusters()["clusters"]:
        yield f"eks:cluster:{cluster}"
        yield from (f"eks:node-group:{cluster}/{n}" for n in eks.list_nodegroups(clusterName=cluster)["nodegroups"])
        yield from (f"eks:addon:{cluster}/{name}" for name in eks.list_addons(clusterName=cluster)["addons"])


def _iam(client: Client) -> Iterator[str]:
    iam = client("iam")
    yield from (f"iam:role:{role['RoleName']}" for role in iam.list_roles()["Roles"])
    yield from (f"iam:policy:{policy['PolicyName']}" for policy in iam.list_policies(Scope="Local")["Policies"])
    for profile in iam.list_instance_profiles()["InstanceProfiles"]:
        yield f"iam:instance-profile:{profile['InstanceProfileName']}"
    yield from (f"iam:user:{user['UserName']}" for user in iam.list_users()["Users"])


def _kms(client: Client) -> Iterator[str]:
    """Without AWS's own keys: moto calls them CUSTOMER, and an alias of AWS's names them."""
    kms = client("kms")
    aliases = kms.list_aliases()["Aliases"]
    managed = {alias.get("TargetKeyId") for alias in aliases if alias["AliasName"].startswith("alias/aws/")}
    for entry in kms.list_keys()["Keys"]:
        key = kms.describe_key(KeyId=entry["KeyId"])["KeyMetadata"]
        own = key["KeyManager"] == "CUSTOMER" and entry["KeyId"] not in managed
        if own and key["KeyState"] != "PendingDeletion":
            yield f"kms:key:{entry['KeyId']}"
    for alias in aliases:
        if not alias["AliasName"].startswith("alias/aws/"):
            yield f"kms:alias:{alias['AliasName']}"


def _load_balancers(client: Client) -> Iterator[str]:
    elb = client("elbv2")
    for balancer in elb.describe_load_balancers()["LoadBalancers"]:
        yield f"elbv2:load-balancer:{balancer['LoadBalancerArn']}"
        for listener in elb.describe_listeners(LoadBalancerArn=balancer["LoadBalancerArn"])["Listeners"]:
            yield f"elbv2:listener:{listener['ListenerArn']}"
    yield from (f"elbv2:target-group:{g['TargetGroupArn']}" for g in elb.describe_target_groups()["TargetGroups"])
    for group in client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]:
        yield f"autoscaling:group:{group['AutoScalingGroupName']}"


def _others(client: Client) -> Iterator[str]:
    yield from (f"logs:group:{g['logGroupName']}" for g in client("logs").describe_log_groups()["logGroups"])
    yield from (f"s3:bucket:{bucket['Name']}" for bucket in client("s3").list_buckets()["Buckets"])
    yield from (f"fsx:file-system:{s['FileSystemId']}" for s in client("fsx").describe_file_systems()["FileSystems"])
    named = [{"Key": "Name", "Option": "BeginsWith", "Values": ["/"]}]
    for parameter in client("ssm").describe_parameters(ParameterFilters=named)["Parameters"]:
        if not parameter["Name"].startswith("/aws/"):
            yield f"ssm:parameter:{parameter['Name']}"
