"""What EKS does in other services of the account, through moto's own state: EC2, IAM, Auto Scaling."""

from __future__ import annotations

import contextlib
import json
from typing import Any
from urllib.parse import unquote

from moto.backends import get_backend
from moto.core.exceptions import ServiceException

from tools.awsim.eks_state import ACCOUNT, Refused, invalid

SECRET_KEY = "test"
"""The secret of every access key that IAM did not give out."""


def backend(service: Any, region: str) -> Any:
    """moto's state of a service in the account; `aws` is the region of global services."""
    return get_backend(service)[ACCOUNT][region]


def caller_arn(access_key: str, region: str) -> str:
    """The caller's IAM ARN. An assumed role is its role, as in EKS's access entries."""
    _, arn, _ = backend("sts", "aws").get_caller_identity(access_key, region)
    return canonical_arn(arn)


def secret_of(access_key: str) -> str:
    """The secret key: that which IAM or STS gave out, else the one every test uses."""
    iam = backend("iam", "aws")
    keys = [key for user in iam.users.values() for key in user.access_keys]
    assumed = backend("sts", "aws").get_assumed_role_from_access_key(access_key)
    found = [
        key.secret_access_key for key in [*keys, *([assumed] if assumed else [])] if key.access_key_id == access_key
    ]
    return found[0] if found else SECRET_KEY


def canonical_arn(arn: str) -> str:
    """`sts:…:assumed-role/NAME/SESSION` as `iam:…:role/NAME`. A role's path is not in the former."""
    parts = arn.split(":", 5)
    if parts[5].startswith("assumed-role/"):
        parts[5] = "role/" + parts[5].split("/")[1]
    parts[2] = "iam"
    return ":".join(parts)


def subnets(region: str, ids: list[str]) -> list[Any]:
    """moto's subnets. Refuses ids that EC2 does not have."""
    known = {subnet.id: subnet for subnet in backend("ec2", region).describe_subnets()}
    missing = sorted(set(ids) - known.keys())
    if missing:
        raise invalid(f"The subnet ID '{missing[0]}' does not exist")
    return [known[name] for name in ids]


def require_role(arn: str, service: str, what: str) -> None:
    """Refuse a role that does not exist, or whose trust policy does not name the service."""
    for role in backend("iam", "aws").roles.values():
        if role.arn == arn:
            document = role.assume_role_policy_document
            found = document if isinstance(document, dict) else json.loads(unquote(document))
            if service in json.dumps(found):
                return
            raise invalid(f"{what} {arn}: its trust policy does not allow {service}")
    raise invalid(f"{what} {arn} could not be assumed because it does not exist")


def require_security_groups(region: str, ids: list[str]) -> None:
    for group in ids:
        if backend("ec2", region).get_security_group_from_id(group) is None:
            raise invalid(f"The security group '{group}' does not exist")


def create_cluster_security_group(region: str, cluster: str, vpc: str) -> str:
    """The group that EKS makes for control plane and nodes
    (https://docs.aws.amazon.com/eks/latest/userguide/sec-group-reqs.html)."""
    tags = {"Name": f"eks-cluster-sg-{cluster}", "aws:eks:cluster-name": cluster,
            f"kubernetes.io/cluster/{cluster}": "owned"}  # fmt: skip
    group = backend("ec2", region).create_security_group(
        f"eks-cluster-sg-{cluster}-{abs(hash(vpc)) % 10**9}",
        "EKS created security group applied to ENI that is attached to EKS Control Plane master nodes",
        vpc_id=vpc, tags=tags,
    )  # fmt: skip
    return group.id


def delete_security_group(region: str, group: str) -> None:
    """Remove EKS's group; one that other groups' rules name stays behind, as with AWS."""
    with contextlib.suppress(ServiceException):
        backend("ec2", region).delete_security_group(group_id=group)


def launch_template_data(region: str, chosen: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """(id, name, data) of the template's chosen version."""
    ec2 = backend("ec2", region)
    for template in ec2.launch_templates.values():
        if template.id == chosen.get("id") or template.name == chosen.get("name"):
            version = str(chosen.get("version") or "$Default")
            if version == "$Latest":
                found = template.latest_version()
            elif version == "$Default":
                found = template.default_version()
            else:
                numbers = {str(v.number): v for v in template.versions}
                if version not in numbers:
                    raise Refused("InvalidRequestException", f"Launch template {template.id} has no version {version}")
                found = numbers[version]
            return template.id, template.name, found.data
    raise Refused("InvalidRequestException", f"Launch template {chosen} does not exist")


def create_scaling_group(region: str, name: str, group: dict[str, Any]) -> None:
    """A real group in moto's Auto Scaling, with as many instances as the node group has nodes."""
    ec2 = backend("ec2", region)
    template = group.get("launchTemplate")
    if template is None:
        made = ec2.create_launch_template(name, "made by EKS", {"InstanceType": group["instanceTypes"][0]}, {})
        template = {"id": made.id, "version": "1"}
    tags = [
        {"key": key, "value": value, "propagate_at_launch": "true", "resource_id": name}
        for key, value in (
            ("eks:cluster-name", group["clusterName"]),
            ("eks:nodegroup-name", group["nodegroupName"]),
        )
    ]
    backend("autoscaling", region).create_auto_scaling_group(
        name=name, availability_zones=[], desired_capacity=0, max_size=group["scalingConfig"]["maxSize"],
        min_size=0, launch_config_name="",
        launch_template={"LaunchTemplateId": template["id"], "Version": str(template.get("version") or "$Default")},
        vpc_zone_identifier=",".join(group["subnets"]), default_cooldown=None, health_check_period=None,
        health_check_type=None, load_balancers=[], target_group_arns=[], placement_group="",
        termination_policies=[], tags=tags,
    )  # fmt: skip
    resize_scaling_group(region, name, group["scalingConfig"])


def resize_scaling_group(region: str, name: str, scaling: dict[str, int]) -> None:
    """Start or end instances until there are as many as wanted."""
    group = backend("autoscaling", region).autoscaling_groups[name]
    group.max_size = max(group.max_size, scaling["maxSize"])
    group.set_desired_capacity(scaling["desiredSize"])


def delete_scaling_group(region: str, name: str) -> None:
    with contextlib.suppress(ServiceException, KeyError):
        backend("autoscaling", region).delete_auto_scaling_group(name)
    with contextlib.suppress(ServiceException, KeyError):
        backend("ec2", region).delete_launch_template(name, None)
