"""What preflight asks of account and region and moto can't say: quotas, limits, EKS's versions and AMIs."""

from __future__ import annotations

import json
import re
from typing import Any

from tools.awsim.eks_state import Refused
from tools.awsim.wire import Answer, Call

RAISED = {
    ("ec2", code): 4096.0
    for code in ("L-417A185B", "L-DB2E81BA", "L-1216C47A", "L-C4BD4855", "L-7212CCBC", "L-3819A6DF", "L-34B43A08")
}
"""vCPUs by instance family (EC2 instance types guide, ec2-instance-quotas): this account's own values."""
DEFAULTS = {("ec2", "L-0263D0A3"): 5.0, ("vpc", "L-F678F1CE"): 5.0}
"""Elastic IPs (EC2 user guide, elastic-ip-addresses-eip) and VPCs a region (VPC user guide, amazon-vpc-limits)."""
VERSIONS = {
    "1.35": "STANDARD_SUPPORT",
    "1.34": "STANDARD_SUPPORT",
    "1.33": "STANDARD_SUPPORT",
    "1.32": "EXTENDED_SUPPORT",
}
"""Of Kubernetes on EKS; support ends change by the month and are left out."""
AMIS = re.compile(
    r"/aws/service/(?:eks/optimized-ami/(?P<eks>[\d.]+)/amazon-linux-2023/(?:x86_64|arm64)/(?:standard|nvidia)"
    r"/recommended/(?P<field>release_version|image_id)"
    r"|bottlerocket/aws-k8s-(?P<rocket>[\d.]+)(?:-nvidia)?/(?:x86_64|arm64)/[\w.-]+/image_id)"
)
"""EKS user guide, retrieve-ami-id and retrieve-ami-id-bottlerocket."""
JSON = {"Content-Type": "application/x-amz-json-1.1"}
XML = {"Content-Type": "text/xml"}
AUTO_SCALING = "http://autoscaling.amazonaws.com/doc/2011-01-01/"


def answer_account(call: Call) -> Answer | None:
    """The answer to one of these questions; None for any other call. Raises Refused as AWS would."""
    match call.service, call.action:
        case "service-quotas", "GetServiceQuota":
            return _quota(call, RAISED)
        case "service-quotas", "GetAWSDefaultServiceQuota":
            return _quota(call, DEFAULTS)
        case "ssm", "GetParameter" if name := _ami(call):
            return _json({"Parameter": {"Name": name[0], "Type": "String", "Value": name[1]}})
        case "autoscaling", "DescribeAccountLimits":
            return _account_limits()
    return None


def cluster_versions() -> dict[str, Any]:
    """EKS DescribeClusterVersions."""
    found = [
        {"clusterVersion": name, "versionStatus": status, "clusterType": "eks"} for name, status in VERSIONS.items()
    ]
    return {"clusterVersions": found}


def _quota(call: Call, quotas: dict[tuple[str, str], float]) -> Answer:
    """GetServiceQuota knows nothing of a quota that was never raised (its API reference)."""
    service, code = (str(call.parameters.get(name)) for name in ("ServiceCode", "QuotaCode"))
    if (service, code) not in quotas:
        raise Refused("NoSuchResourceException", f"no quota {code} of {service} here", 400)
    return _json({"Quota": {"ServiceCode": service, "QuotaCode": code, "Value": quotas[service, code]}})


def _ami(call: Call) -> tuple[str, str] | None:
    """(parameter, value) of an AMI that EKS publishes for a version it supports."""
    name = str(call.parameters.get("Name"))
    found = AMIS.fullmatch(name)
    version = found and (found["eks"] or found["rocket"])
    if not found or version not in VERSIONS:
        return None
    return name, f"{version}.0-20260101" if found["field"] == "release_version" else "ami-0123456789abcdef0"


def _account_limits() -> Answer:
    """Auto Scaling's defaults (its user guide, ec2-auto-scaling-quotas)."""
    fields = {"MaxNumberOfAutoScalingGroups": 500, "MaxNumberOfLaunchConfigurations": 200,
              "NumberOfAutoScalingGroups": 0, "NumberOfLaunchConfigurations": 0}  # fmt: skip
    inner = "".join(f"<{name}>{value}</{name}>" for name, value in fields.items())
    text = (
        f'<DescribeAccountLimitsResponse xmlns="{AUTO_SCALING}"><DescribeAccountLimitsResult>{inner}'
        "</DescribeAccountLimitsResult></DescribeAccountLimitsResponse>"
    )
    return Answer(200, XML, text.encode())


def _json(content: dict[str, Any]) -> Answer:
    return Answer(200, JSON, json.dumps(content).encode())
