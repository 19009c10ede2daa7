"""The EKS control plane: private, encrypted, logged, and open to those who are named."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from components.platform.addons import BEFORE_NODES
from components.platform.addresses import SERVICE_RANGE
from components.platform.iam import CLUSTER_POLICIES, CNI_POLICIES, EKS, PODS
from components.platform.roles import Role, RoleArgs, pod_identity

ADMIN = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
KEY_DELETION_DAYS = 30
CNI_ACCOUNT = ("kube-system", "aws-node")
CNI_CONFIGURATION = json.dumps({"enableNetworkPolicy": "true", "env": {"WARM_ENI_TARGET": "1"}})
"""Network policies bind (EKS user guide, "Limit Pod traffic"); one spare interface, as addresses.py counts."""


@dataclass(frozen=True)
class ClusterArgs:
    """`subnets` lie in two zones at least; `addons` maps names to versions; `security_group` is one more
    for the control plane's interfaces."""

    name: str
    version: str
    subnets: Sequence[pulumi.Input[str]]
    public_cidrs: Sequence[str]
    admins: Sequence[str]
    log_types: Sequence[str]
    log_days: int
    deletion_protection: bool
    addons: Mapping[str, str]


class Cluster(pulumi.ComponentResource):
    """`before_nodes` is what nodes need to become ready; `early` and late add-ons differ in that."""

    name: pulumi.Output[str]
    arn: pulumi.Output[str]
    endpoint: pulumi.Output[str]
    certificate_authority: pulumi.Output[str]
    security_group: pulumi.Output[str]
    """EKS's own: nodes and control plane reach each other through it."""
    before_nodes: list[pulumi.Resource]

    def __init__(self, name: str, args: ClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("splitserve:platform:Cluster", name, None, opts)
        self._args, self._child = args, pulumi.ResourceOptions(parent=self)
        role = Role(f"{name}-cluster", RoleArgs(EKS, CLUSTER_POLICIES), self._child)
        key, logs = self._key(), self._logs()
        self.cluster = self._cluster(role, key, logs)
        self.name, self.arn, self.endpoint = self.cluster.name, self.cluster.arn, self.cluster.endpoint
        self.certificate_authority = self.cluster.certificate_authority.apply(lambda ca: ca.data or "")
        self.security_group = self.cluster.vpc_config.apply(lambda vpc: vpc.cluster_security_group_id or "")
        access, identity = self._access(), self._cni_identity()
        self.before_nodes = [*access, identity, *(self._addon(n, [identity]) for n in BEFORE_NODES if n in args.addons)]
        self.register_outputs({"name": self.name, "arn": self.arn, "endpoint": self.endpoint})

    def _key(self) -> aws.kms.Key:
        key = aws.kms.Key(
            "secrets", description=f"Kubernetes secrets of {self._args.name}", enable_key_rotation=True,
            deletion_window_in_days=KEY_DELETION_DAYS, opts=self._child,
        )  # fmt: skip
        aws.kms.Alias("secrets", name=f"alias/{self._args.name}-secrets", target_key_id=key.key_id, opts=self._child)
        return key

    def _logs(self) -> aws.cloudwatch.LogGroup:
        """Made before the cluster, which would make it without an end to its logs."""
        return aws.cloudwatch.LogGroup(
            "control-plane", name=f"/aws/eks/{self._args.name}/cluster", retention_in_days=self._args.log_days,
            opts=self._child,
        )  # fmt: skip

    def _cluster(self, role: Role, key: aws.kms.Key, logs: aws.cloudwatch.LogGroup) -> aws.eks.Cluster:
        args = self._args
        return aws.eks.Cluster(
            args.name,
            name=args.name,
            version=args.version,
            role_arn=role.arn,
            vpc_config={
                "subnet_ids": args.subnets,
                "endpoint_private_access": True,
                "endpoint_public_access": bool(args.public_cidrs),
                "public_access_cidrs": list(args.public_cidrs) or None,
            },
            kubernetes_network_config={"service_ipv4_cidr": SERVICE_RANGE, "ip_family": "ipv4"},
            access_config={"authentication_mode": "API", "bootstrap_cluster_creator_admin_permissions": True},
            bootstrap_self_managed_addons=False,
            encryption_config={"provider": {"key_arn": key.arn}, "resources": ["secrets"]},
            enabled_cluster_log_types=list(args.log_types),
            deletion_protection=args.deletion_protection,
            opts=pulumi.ResourceOptions(parent=self, depends_on=[*role.ready, logs]),
        )

    def _access(self) -> list[pulumi.Resource]:
        made: list[pulumi.Resource] = []
        for arn in self._args.admins:
            name = f"admin-{'-'.join(arn.split(':')[4:]).replace('/', '-')}"  # two accounts may have a role of one name
            entry = aws.eks.AccessEntry(name, cluster_name=self.name, principal_arn=arn, opts=self._child)
            right = aws.eks.AccessPolicyAssociation(
                name, cluster_name=self.name, principal_arn=entry.principal_arn, policy_arn=ADMIN,
                access_scope={"type": "cluster"}, opts=self._child,
            )  # fmt: skip
            made += [entry, right]
        return made

    def _cni_identity(self) -> pulumi.Resource:
        role = Role("vpc-cni", RoleArgs(PODS, CNI_POLICIES), self._child)
        return pod_identity("vpc-cni", self.name, CNI_ACCOUNT, role, self._child)

    def _addon(self, name: str, after: Sequence[pulumi.Resource]) -> aws.eks.Addon:
        configuration = CNI_CONFIGURATION if name == "vpc-cni" else None
        return aws.eks.Addon(
            name, cluster_name=self.name, addon_name=name, addon_version=self._args.addons[name],
            configuration_values=configuration, resolve_conflicts_on_create="OVERWRITE",
            resolve_conflicts_on_update="OVERWRITE", opts=pulumi.ResourceOptions(parent=self, depends_on=list(after)),
        )  # fmt: skip

    def later_addons(self, after: Sequence[pulumi.Resource]) -> list[aws.eks.Addon]:
        """Those whose pods need a node to run on."""
        return [self._addon(name, after) for name in self._args.addons if name not in BEFORE_NODES]
