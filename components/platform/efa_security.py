"""The security group of EFA interfaces: everything from and to itself, and the cluster's own traffic."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

ALL = "-1"


@dataclass(frozen=True)
class EfaSecurityArgs:
    vpc_id: pulumi.Input[str]


class EfaSecurity(pulumi.ComponentResource):
    """Ingress and egress name the group itself: EFA addresses are no IP addresses, so that 0.0.0.0/0 does
    not cover them (gardener-extension-provider-aws issue 1832, libfabric error 4126)."""

    id: pulumi.Output[str]

    def __init__(self, name: str, args: EfaSecurityArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("splitserve:platform:EfaSecurity", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        group = aws.ec2.SecurityGroup(name, vpc_id=args.vpc_id, description="KV transfer over EFA", opts=child)
        aws.vpc.SecurityGroupIngressRule(
            f"{name}-from-itself", security_group_id=group.id, referenced_security_group_id=group.id, ip_protocol=ALL,
            opts=child,
        )  # fmt: skip
        aws.vpc.SecurityGroupEgressRule(
            f"{name}-to-itself", security_group_id=group.id, referenced_security_group_id=group.id, ip_protocol=ALL,
            opts=child,
        )  # fmt: skip
        self.id = group.id
        self.register_outputs({"id": self.id})
