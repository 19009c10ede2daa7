"""IAM: every right that the AWS platform gives is real, narrow, and used by something that is named here."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import pytest
from moto.iam.aws_managed_policies import aws_managed_policies_data

from components.platform import iam
from components.platform.preflight.all_checks import iam_actions
from components.platform.preflight.page import iam_policy
from tests.unit.plans import ROOT
from tools.awsim.shapes import service

PLATFORM = ROOT / "components/platform"
FILES = sorted(PLATFORM.glob("*.py"))
"""Without preflight/, which gives no rights: it names those that its reader needs."""


@dataclass(frozen=True)
class Use:
    """What uses an action: `file` holds `mark`; `source` is the document that asks for it."""

    file: str
    mark: str
    source: str


USES = {
    "s3:ListBucket": Use("weights.py", "s3.csi.aws.com", "awslabs/mountpoint-s3 doc/CONFIGURATION.md, IAM permissions"),
    "s3:GetObject": Use("weights.py", "s3.csi.aws.com", "awslabs/mountpoint-s3 doc/CONFIGURATION.md, IAM permissions"),
    "s3:PutObject": Use("load_balancer.py", "access_logs", "Elastic Load Balancing user guides, Access logs"),
    "s3:GetBucketAcl": Use("load_balancer.py", "access_logs", "Network Load Balancers user guide, Access logs"),
    "sts:AssumeRole": Use("roles.py", "assume_role_policy", "IAM user guide, AWS services"),
    "sts:TagSession": Use("roles.py", "PodIdentityAssociation", "EKS user guide, pod-id-role"),
}
REFUSED = {"s3:*": Use("load_balancer.py", "BucketPolicy", "S3 user guide: deny what is not sent over TLS")}
"""Actions of Deny statements."""
MANAGED = {
    "AmazonEKSClusterPolicy": "the control plane itself (EKS user guide, Cluster IAM role)",
    "AmazonEKSWorkerNodePolicy": "nodeadm: ec2:DescribeInstances; the Pod Identity agent (EKS user guide, Node IAM role)",
    "AmazonEC2ContainerRegistryPullOnly": "kubelet pulls the add-ons' images (EKS user guide, Node IAM role)",
    "AmazonEKS_CNI_Policy": "the VPC CNI, by Pod Identity (EKS user guide, cni-iam-role)",
}
NO_OPERATION = {
    "s3:ListBucket": "ListObjectsV2",  # Service Authorization Reference, "Actions defined by Amazon S3"
    "sts:TagSession": "AssumeRole",  # a permission of AssumeRole with tags (STS, "Passing session tags")
}
"""IAM names some actions otherwise than the API its operations."""
API_OF = {"elasticloadbalancing": "elbv2", "servicequotas": "service-quotas"}
"""botocore's names of services whose IAM prefix is another."""

DOCUMENTS = {
    "trust of EKS": iam.trust(iam.EKS),
    "trust of EC2": iam.trust(iam.EC2),
    "trust of pods": iam.trust(iam.PODS),
    "weights in a folder": iam.policy(iam.read_bucket("models", "llama/v1")),
    "weights in a bucket": iam.policy(iam.read_bucket("models", "")),
    "logs of the balancer": iam.deliver_logs("arn:aws:s3:::logs", "123456789012", "delivery.logs.amazonaws.com"),
}


def statements(document: str) -> list[dict[str, Any]]:
    content = json.loads(document)
    assert content["Version"] == "2012-10-17"
    return content["Statement"]


def listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def actions(effect: str) -> set[str]:
    found = [s for document in DOCUMENTS.values() for s in statements(document) if s["Effect"] == effect]
    return {action for statement in found for action in listed(statement["Action"])}


def texts(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def calls(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)


def test_the_documents_here_are_all_that_there_are() -> None:
    """Who makes a document, a role or a policy besides the functions above would be seen here."""
    made = {(path.name, name) for path in FILES for name in calls(ast.parse(path.read_text()))
            if re.search(r"\baws\.iam\.|Policy$|\b_document$|\bRoleArgs$|^trust$|^policy$|^deliver_logs$|^read_bucket$", name)}  # fmt: skip
    assert made == {
        ("iam.py", "_document"),
        ("roles.py", "aws.iam.Role"), ("roles.py", "aws.iam.RolePolicyAttachment"), ("roles.py", "aws.iam.RolePolicy"),
        ("roles.py", "trust"), ("roles.py", "policy"),
        ("load_balancer.py", "aws.s3.BucketPolicy"), ("load_balancer.py", "deliver_logs"),
        ("weights.py", "RoleArgs"), ("weights.py", "read_bucket"),
        ("cluster.py", "RoleArgs"), ("aws_cluster.py", "RoleArgs"),
    }  # fmt: skip


def test_every_action_in_the_code_has_its_user_and_every_user_its_action() -> None:
    written = {text for path in FILES for text in texts(ast.parse(path.read_text()))
               if re.fullmatch(r"(?!aws:)[a-z0-9-]+:(\*|[A-Z]\w*\*?)", text)}  # fmt: skip
    assert written == USES.keys() | REFUSED.keys()
    assert actions("Allow") == USES.keys() and actions("Deny") == REFUSED.keys()


@pytest.mark.parametrize("action", [*USES, *REFUSED])
def test_the_user_is_there(action: str) -> None:
    use = {**USES, **REFUSED}[action]
    assert use.source and use.mark in (PLATFORM / use.file).read_text()


@pytest.mark.parametrize("action", [*USES, *iam_actions()])
def test_every_action_is_one_of_its_service(action: str) -> None:
    prefix, name = action.split(":")
    known: Any = service(API_OF.get(prefix, prefix)).operation_names
    assert NO_OPERATION.get(action, name) in known


def test_what_the_preflight_asks_for_on_everything_only_reads() -> None:
    """Its policy is for people to give, not given by the stack; Describe, Get and List name no resource beforehand."""
    [statement] = statements(iam_policy())
    assert (statement["Effect"], statement["Resource"]) == ("Allow", "*")
    assert statement["Action"] == iam_actions()
    for action in iam_actions():
        assert re.fullmatch(r"[a-z0-9]+:(Describe|Get|List)[A-Z]\w+", action), action


@pytest.mark.parametrize("name", DOCUMENTS)
def test_nothing_is_allowed_that_is_not_named(name: str) -> None:
    for statement in statements(DOCUMENTS[name]):
        if statement["Effect"] == "Allow":
            assert not any("*" in action for action in listed(statement["Action"]))
            assert not any(resource.startswith("*") for resource in listed(statement.get("Resource", [])))
            assert statement.get("Principal") != "*" and "NotAction" not in statement and "NotResource" not in statement
            assert "Resource" in statement or name.startswith("trust")


def test_our_own_statements_say_who_uses_them() -> None:
    assert all(statement.used_by for statement in iam.read_bucket("models", "llama"))


@pytest.mark.parametrize(
    ("role", "expected"),
    [(iam.EKS, ["sts:AssumeRole"]), (iam.EC2, ["sts:AssumeRole"]), (iam.PODS, ["sts:AssumeRole", "sts:TagSession"])],
)
def test_a_role_is_for_one_service(role: str, expected: list[str]) -> None:
    """Pod Identity passes tags of the session; without TagSession its calls are refused (EKS user guide, pod-id-role)."""
    [statement] = statements(iam.trust(role))
    assert statement == {"Effect": "Allow", "Principal": {"Service": role}, "Action": expected}
    assert (iam.EKS, iam.EC2, iam.PODS) == ("eks.amazonaws.com", "ec2.amazonaws.com", "pods.eks.amazonaws.com")


def allowed(document: str, action: str, resource: str) -> bool:
    return any(action in listed(s["Action"]) and any(fnmatchcase(resource, r) for r in listed(s["Resource"]))
               for s in statements(document) if s["Effect"] == "Allow")  # fmt: skip


@pytest.mark.parametrize(
    ("name", "action", "resource", "expected"),
    [
        ("weights in a folder", "s3:GetObject", "arn:aws:s3:::models/llama/v1/config.json", True),
        ("weights in a folder", "s3:GetObject", "arn:aws:s3:::models/llama/v10/config.json", False),
        ("weights in a folder", "s3:GetObject", "arn:aws:s3:::models/secret", False),
        ("weights in a folder", "s3:GetObject", "arn:aws:s3:::models-of-others/llama/v1/config.json", False),
        ("weights in a folder", "s3:ListBucket", "arn:aws:s3:::models", True),
        ("weights in a folder", "s3:ListBucket", "arn:aws:s3:::models-of-others", False),
        ("weights in a folder", "s3:PutObject", "arn:aws:s3:::models/llama/v1/config.json", False),
        ("weights in a bucket", "s3:GetObject", "arn:aws:s3:::models/config.json", True),
        ("weights in a bucket", "s3:GetObject", "arn:aws:s3:::models2/config.json", False),
        ("logs of the balancer", "s3:PutObject", "arn:aws:s3:::logs/AWSLogs/123456789012/x.gz", True),
        ("logs of the balancer", "s3:GetObject", "arn:aws:s3:::logs/AWSLogs/123456789012/x.gz", False),
    ],
)
def test_rights_end_at_what_they_are_for(name: str, action: str, resource: str, expected: bool) -> None:
    assert allowed(DOCUMENTS[name], action, resource) == expected


def test_logs_come_from_the_own_account_and_over_tls() -> None:
    *given, denied = statements(DOCUMENTS["logs of the balancer"])
    for statement in given:
        assert statement["Principal"] == {"Service": "delivery.logs.amazonaws.com"}
        assert statement["Condition"] == {"StringEquals": {"aws:SourceAccount": "123456789012"}}
    assert denied["Effect"] == "Deny" and denied["Principal"] == "*"
    assert denied["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    assert set(denied["Resource"]) == {"arn:aws:s3:::logs", "arn:aws:s3:::logs/*"}


def managed(name: str) -> list[dict[str, Any]]:
    """AWS's policy, as moto recorded it. Raises KeyError for one that AWS does not have."""
    return json.loads(aws_managed_policies_data)[name]["Document"]["Statement"]


ATTACHED = [*iam.CLUSTER_POLICIES, *iam.NODE_POLICIES, *iam.CNI_POLICIES]


def test_awss_own_policies_are_those_with_a_reason() -> None:
    assert sorted(ATTACHED) == sorted(f"arn:aws:iam::aws:policy/{name}" for name in MANAGED)
    assert all(MANAGED.values())


@pytest.mark.parametrize("name", MANAGED)
def test_no_attached_policy_allows_everything(name: str) -> None:
    for statement in managed(name):
        assert not any(action == "*" or action.endswith(":*") for action in listed(statement["Action"]))


def granted(arns: tuple[str, ...]) -> set[str]:
    return {action for arn in arns for s in managed(arn.rsplit("/", 1)[-1]) for action in listed(s["Action"])}


def test_a_node_can_join_pull_its_images_and_serve_pod_identity() -> None:
    """nodeadm asks for its private DNS name (amazon-eks-ami, nodeadm/internal/api/status.go) before anything else."""
    assert granted(iam.NODE_POLICIES) >= {
        "ec2:DescribeInstances", "ecr:GetAuthorizationToken", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer",
        "eks-auth:AssumeRoleForPodIdentity",
    }  # fmt: skip


def test_a_node_changes_nothing_in_ec2() -> None:
    """Interfaces and addresses are the CNI's, by Pod Identity: what runs on a node could use a node's rights."""
    changes = {a for a in granted(iam.NODE_POLICIES) if a.startswith("ec2:") and not a.startswith("ec2:Describe")}
    assert not changes
    assert "ec2:AssignPrivateIpAddresses" in granted(iam.CNI_POLICIES)
