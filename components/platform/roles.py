"""IAM roles: who may take one on, and what it may do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from components.platform.iam import Statement, policy, trust


@dataclass(frozen=True)
class RoleArgs:
    """`service` takes the role on; `managed` are ARNs of AWS's policies, `own` statements of ours."""

    service: str
    managed: Sequence[str] = ()
    own: Sequence[Statement] = ()


class Role(pulumi.ComponentResource):
    """One role with its policies. `ready` stands for all of them: rights come after the role."""

    arn: pulumi.Output[str]
    ready: list[pulumi.Resource]

    def __init__(self, name: str, args: RoleArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("splitserve:platform:Role", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        role = aws.iam.Role(name, name_prefix=f"{name}-"[:38], assume_role_policy=trust(args.service), opts=child)
        attached = [
            aws.iam.RolePolicyAttachment(f"{name}-{arn.rsplit('/', 1)[-1]}", role=role.name, policy_arn=arn, opts=child)
            for arn in args.managed
        ]
        own = (
            [aws.iam.RolePolicy(f"{name}-own", role=role.name, policy=policy(list(args.own)), opts=child)]
            if args.own
            else []
        )
        self.arn = role.arn
        self.ready = [*attached, *own]
        self.register_outputs({"arn": self.arn})


def pod_identity(name: str, cluster: pulumi.Input[str], account: tuple[str, str], role: Role,
                 opts: pulumi.ResourceOptions) -> aws.eks.PodIdentityAssociation:  # fmt: skip
    """Give a role to the pods of a service account, (namespace, name), once the role has its rights."""
    after = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=role.ready))
    return aws.eks.PodIdentityAssociation(
        name, cluster_name=cluster, namespace=account[0], service_account=account[1], role_arn=role.arn, opts=after
    )
