"""The one address from outside: a load balancer before the routers' node port.

Targets are the nodes of the routers' pool, by their auto scaling group; kube-proxy takes a request from
there to the live release's router. So traffic is moved by the Service's selector alone, and no
controller in the cluster has to be trusted with AWS.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import pulumi
import pulumi_aws as aws

from components.platform.iam import deliver_logs

TLS_POLICY = "ELBSecurityPolicy-TLS13-1-2-2021-06"
"""TLS 1.3, with 1.2 for older clients (Elastic Load Balancing, "Security policies")."""
LOG_SERVICE = {
    "network": "delivery.logs.amazonaws.com",
    "application": "logdelivery.elasticloadbalancing.amazonaws.com",
}
LOG_DAYS = 90
HEALTH_PATH = "/health"


@dataclass(frozen=True)
class LoadBalancerArgs:
    """`subnets` is by zone; `drain_s` is how long a node may finish its requests after it was taken off."""

    kind: Literal["network", "application"]
    vpc_id: pulumi.Input[str]
    account: pulumi.Input[str]
    subnets: Mapping[str, pulumi.Input[str]]
    internet_facing: bool
    client_cidrs: Sequence[str]
    node_security_group: pulumi.Input[str]
    autoscaling_group: pulumi.Input[str]
    node_port: int
    port: int
    certificate: str | None
    idle_timeout_s: int | None
    cross_zone: bool
    drain_s: int
    access_logs: bool
    deletion_protection: bool


class LoadBalancer(pulumi.ComponentResource):
    """Balancer, target group, listener, and the bucket of its access logs."""

    endpoint: pulumi.Output[str]

    def __init__(self, name: str, args: LoadBalancerArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("splitserve:platform:LoadBalancer", name, None, opts)
        self._args, self._child = args, pulumi.ResourceOptions(parent=self)
        balancer = self._balancer(name, self._security(name), self._logs(name) if args.access_logs else None)
        target = self._target(name)
        self._listener(name, balancer, target)
        aws.autoscaling.Attachment(
            name, autoscaling_group_name=args.autoscaling_group, lb_target_group_arn=target.arn, opts=self._child
        )
        self.endpoint = balancer.dns_name.apply(self._url)
        self.register_outputs({"endpoint": self.endpoint})

    def _url(self, host: str) -> str:
        scheme, usual = ("https", 443) if self._args.certificate else ("http", 80)
        return f"{scheme}://{host}" + ("" if self._args.port == usual else f":{self._args.port}")

    def _security(self, name: str) -> aws.ec2.SecurityGroup:
        args = self._args
        group = aws.ec2.SecurityGroup(name, vpc_id=args.vpc_id, description="Clients of splitserve", opts=self._child)
        for cidr in args.client_cidrs:
            aws.vpc.SecurityGroupIngressRule(
                f"{name}-from-{cidr}", security_group_id=group.id, ip_protocol="tcp", from_port=args.port,
                to_port=args.port, cidr_ipv4=cidr, opts=self._child,
            )  # fmt: skip
        aws.vpc.SecurityGroupEgressRule(
            f"{name}-to-nodes", security_group_id=group.id, ip_protocol="tcp", from_port=args.node_port,
            to_port=args.node_port, referenced_security_group_id=args.node_security_group, opts=self._child,
        )  # fmt: skip
        aws.vpc.SecurityGroupIngressRule(
            f"{name}-nodes-admit", security_group_id=args.node_security_group, ip_protocol="tcp",
            from_port=args.node_port, to_port=args.node_port, referenced_security_group_id=group.id, opts=self._child,
        )  # fmt: skip
        return group

    def _balancer(self, name: str, group: aws.ec2.SecurityGroup, logs: LogBucket | None) -> aws.lb.LoadBalancer:
        args, application = self._args, self._args.kind == "application"
        return aws.lb.LoadBalancer(
            name,
            load_balancer_type=args.kind,
            internal=not args.internet_facing,
            subnets=list(args.subnets.values()),
            security_groups=[group.id],
            # An application balancer always crosses zones and has no such setting of its own.
            enable_cross_zone_load_balancing=None if application else args.cross_zone,
            idle_timeout=args.idle_timeout_s if application else None,
            enable_deletion_protection=args.deletion_protection,
            access_logs={"bucket": logs.name, "enabled": True} if logs else None,
            opts=pulumi.ResourceOptions(parent=self, depends_on=logs.ready if logs else None),
        )

    def _target(self, name: str) -> aws.lb.TargetGroup:
        args, application = self._args, self._args.kind == "application"
        return aws.lb.TargetGroup(
            name,
            vpc_id=args.vpc_id,
            port=args.node_port,
            protocol="HTTP" if application else "TCP",
            target_type="instance",
            deregistration_delay=args.drain_s,
            health_check={
                "protocol": "HTTP", "path": HEALTH_PATH, "port": "traffic-port", "interval": 10, "timeout": 6,
                "healthy_threshold": 2, "unhealthy_threshold": 3, "matcher": "200",
            },
            opts=self._child,
        )  # fmt: skip

    def _listener(self, name: str, balancer: aws.lb.LoadBalancer, target: aws.lb.TargetGroup) -> None:
        args, application = self._args, self._args.kind == "application"
        plain, secure = ("HTTP", "HTTPS") if application else ("TCP", "TLS")
        aws.lb.Listener(
            name,
            load_balancer_arn=balancer.arn,
            port=args.port,
            protocol=secure if args.certificate else plain,
            certificate_arn=args.certificate,
            ssl_policy=TLS_POLICY if args.certificate else None,
            # EC2 takes the timeout of plain TCP alone; a TLS listener has a fixed one of 350 s.
            tcp_idle_timeout_seconds=None if application or args.certificate else args.idle_timeout_s,
            default_actions=[{"type": "forward", "target_group_arn": target.arn}],
            opts=self._child,
        )

    def _logs(self, name: str) -> LogBucket:
        return LogBucket(f"{name}-logs", LOG_SERVICE[self._args.kind], self._args.account, self._child)


class LogBucket(pulumi.ComponentResource):
    """A private bucket for access logs, which go after a time."""

    name: pulumi.Output[str]
    ready: list[pulumi.Resource]

    def __init__(self, name: str, service: str, account: pulumi.Input[str],
                 opts: pulumi.ResourceOptions | None = None) -> None:  # fmt: skip
        super().__init__("splitserve:platform:LogBucket", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        bucket = aws.s3.Bucket(name, bucket_prefix=f"{name}-", force_destroy=True, opts=child)
        aws.s3.BucketPublicAccessBlock(
            name, bucket=bucket.id, block_public_acls=True, block_public_policy=True, ignore_public_acls=True,
            restrict_public_buckets=True, opts=child,
        )  # fmt: skip
        # Load balancers write to buckets with S3's own keys alone ("Access logs", bucket requirements).
        aws.s3.BucketServerSideEncryptionConfiguration(
            name, bucket=bucket.id, opts=child,
            rules=[{"apply_server_side_encryption_by_default": {"sse_algorithm": "AES256"}}],
        )  # fmt: skip
        aws.s3.BucketLifecycleConfiguration(
            name, bucket=bucket.id, opts=child,
            rules=[{"id": "forget", "status": "Enabled", "filter": {"prefix": ""}, "expiration": {"days": LOG_DAYS}}],
        )  # fmt: skip
        document = pulumi.Output.all(bucket.arn, account).apply(lambda both: deliver_logs(both[0], both[1], service))
        policy = aws.s3.BucketPolicy(name, bucket=bucket.id, policy=document, opts=child)
        self.name, self.ready = bucket.bucket, [policy]
        self.register_outputs({"name": self.name})
