"""The rights of the cluster, its nodes and its add-ons, as data. Pure.

Managed policies are AWS's own; what is written here is ours, and each statement says who uses it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

MANAGED = "arn:aws:iam::aws:policy/"

CLUSTER_POLICIES = (f"{MANAGED}AmazonEKSClusterPolicy",)
NODE_POLICIES = (f"{MANAGED}AmazonEKSWorkerNodePolicy", f"{MANAGED}AmazonEC2ContainerRegistryPullOnly")
"""What EKS nodes need where the VPC CNI has Pod Identity (EKS user guide, "Node IAM role"). Not
AmazonEKSWorkerNodeMinimalPolicy, which is for Auto Mode: nodeadm asks EC2 for its node's name
(ec2:DescribeInstances; awslabs/amazon-eks-ami nodeadm/internal/api/status.go), and stops without it."""
CNI_POLICIES = (f"{MANAGED}AmazonEKS_CNI_Policy",)

EKS = "eks.amazonaws.com"
EC2 = "ec2.amazonaws.com"
PODS = "pods.eks.amazonaws.com"


@dataclass(frozen=True)
class Statement:
    """`used_by` says what needs the actions."""

    actions: tuple[str, ...]
    resources: tuple[str, ...]
    used_by: str


def trust(service: str) -> str:
    """Who may take a role on: an AWS service; for Pod Identity it also names the session."""
    actions = ["sts:AssumeRole", "sts:TagSession"] if service == PODS else ["sts:AssumeRole"]
    return _document([{"Effect": "Allow", "Principal": {"Service": service}, "Action": actions}])


def policy(statements: list[Statement]) -> str:
    return _document(
        [{"Effect": "Allow", "Action": list(s.actions), "Resource": list(s.resources)} for s in statements]
    )


def read_bucket(bucket: str, prefix: str) -> list[Statement]:
    """What Mountpoint needs to read one folder (awslabs/mountpoint-s3 doc/CONFIGURATION.md, "IAM permissions")."""
    inside = f"{prefix}/*" if prefix else "*"
    return [
        Statement(("s3:ListBucket",), (f"arn:aws:s3:::{bucket}",), "Mountpoint lists the model's folder"),
        Statement(("s3:GetObject",), (f"arn:aws:s3:::{bucket}/{inside}",), "Mountpoint reads the weights"),
    ]


def deliver_logs(bucket_arn: str, account: str, service: str) -> str:
    """A bucket policy that lets load balancers of one account write their access logs, and no one read
    in clear text (Elastic Load Balancing user guides, "Access logs")."""
    written = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "s3:PutObject",
               "Resource": f"{bucket_arn}/*", "Condition": {"StringEquals": {"aws:SourceAccount": account}}}  # fmt: skip
    asked = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "s3:GetBucketAcl", "Resource": bucket_arn,
             "Condition": {"StringEquals": {"aws:SourceAccount": account}}}  # fmt: skip
    clear = {"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": [bucket_arn, f"{bucket_arn}/*"],
             "Condition": {"Bool": {"aws:SecureTransport": "false"}}}  # fmt: skip
    return _document([written, asked, clear])


def _document(statements: list[dict[str, Any]]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements})
