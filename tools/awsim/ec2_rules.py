"""What EC2 refuses and moto does not: launch data, and deleting what something else still uses.

Error codes: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
"""

from __future__ import annotations

from collections.abc import Iterator

from tools.awsim.eks_app import Eks
from tools.awsim.eks_state import Refused
from tools.awsim.launch_rules import template_faults
from tools.awsim.neighbours import backend
from tools.awsim.wire import Call


def refuse_ec2(call: Call, eks: Eks) -> None:
    """Raises Refused for a call that EC2 would refuse."""
    if call.action in ("CreateLaunchTemplate", "CreateLaunchTemplateVersion"):
        _refuse_faults(template_faults(call.parameters.get("LaunchTemplateData", {}), call.region))
    elif call.action == "RunInstances":
        _refuse_faults(template_faults(call.parameters, call.region))
    elif call.action == "DeleteSubnet":
        _refuse_used("subnet", call.parameters["SubnetId"], users_of_subnet(call, eks, call.parameters["SubnetId"]))
    elif call.action == "DeleteSecurityGroup":
        group = call.parameters.get("GroupId", "")
        _refuse_used("resource", group, users_of_group(call, eks, group))
    elif call.action == "DetachInternetGateway":
        _refuse_used("network", call.parameters["VpcId"], _public_addresses(call))
    elif call.action == "DeleteVpc":
        _refuse_used("vpc", call.parameters["VpcId"], _left_in_vpc(call))


def _refuse_faults(faults: list[str]) -> None:
    if faults:
        raise Refused("InvalidParameterCombination", "; ".join(faults))


def _refuse_used(kind: str, name: str, users: Iterator[str]) -> None:
    found = sorted(set(users))
    if found:
        message = f"The {kind} '{name}' has dependencies and cannot be deleted: {', '.join(found)}"
        raise Refused("DependencyViolation", message)


def users_of_subnet(call: Call, eks: Eks, subnet: str) -> Iterator[str]:
    """What has a network interface in the subnet."""
    ec2 = backend("ec2", call.region)
    yield from (gateway.id for gateway in ec2.nat_gateways.values()
                if gateway.subnet_id == subnet and gateway.state != "deleted")  # fmt: skip
    yield from (end.id for end in ec2.vpc_end_points.values()
                if subnet in (end.subnet_ids or []) and end.state != "deleted")  # fmt: skip
    for balancer in backend("elbv2", call.region).load_balancers.values():
        if subnet in [found.id for found in balancer.subnets]:
            yield balancer.arn
    for system in backend("fsx", call.region).file_systems.values():
        if subnet in (system.subnet_ids or []):
            yield system.file_system_id
    for cluster in eks.region(call.region).clusters.values():
        if not cluster.gone and subnet in cluster.fields["resourcesVpcConfig"]["subnetIds"]:
            yield cluster.fields["arn"]


def users_of_group(call: Call, eks: Eks, group: str) -> Iterator[str]:
    """Whose network interfaces are in the group. Rules of other groups that name it: moto checks them."""
    for balancer in backend("elbv2", call.region).load_balancers.values():
        if group in (balancer.security_groups or []):
            yield balancer.arn
    for end in backend("ec2", call.region).vpc_end_points.values():
        if group in (end.security_group_ids or []) and end.state != "deleted":
            yield end.id
    for system in backend("fsx", call.region).file_systems.values():
        if group in (system.security_group_ids or []):
            yield system.file_system_id
    for cluster in eks.region(call.region).clusters.values():
        network = cluster.fields["resourcesVpcConfig"]
        if not cluster.gone and group in [*network["securityGroupIds"], network["clusterSecurityGroupId"]]:
            yield cluster.fields["arn"]


def _public_addresses(call: Call) -> Iterator[str]:
    vpc = call.parameters["VpcId"]
    for gateway in backend("ec2", call.region).nat_gateways.values():
        if gateway.vpc_id == vpc and gateway.state != "deleted" and gateway.connectivity_type == "public":
            yield gateway.id
    for balancer in backend("elbv2", call.region).load_balancers.values():
        if balancer.vpc_id == vpc and balancer.scheme == "internet-facing":
            yield balancer.arn


def _left_in_vpc(call: Call) -> Iterator[str]:
    vpc = call.parameters["VpcId"]
    ec2 = backend("ec2", call.region)
    yield from (gateway.id for gateway in ec2.internet_gateways.values() if gateway.vpc and gateway.vpc.id == vpc)
    yield from (group.id for group in ec2.groups.get(vpc, {}).values() if group.name != "default")
    yield from (end.id for end in ec2.vpc_end_points.values() if end.vpc_id == vpc and end.state != "deleted")
