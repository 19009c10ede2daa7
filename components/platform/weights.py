"""Where the model's weights lie on AWS: a bucket mounted by Mountpoint, or a Lustre file system.

Both end as a PersistentVolumeClaim of the namespace, which the engines' pods mount read-only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as k8s

from components.platform.iam import PODS, read_bucket
from components.platform.roles import Role, RoleArgs, pod_identity
from components.serving.labels import MANAGED_BY

S3_ACCOUNT = ("kube-system", "s3-csi-driver-sa")
"""awslabs/mountpoint-s3-csi-driver docs/install.md."""
S3_SIZE = "1Ti"
"""Ignored by Mountpoint, and required by Kubernetes."""
LUSTRE_PORTS = ((988, 988), (1018, 1023))
"""FSx for Lustre user guide, "File system access control with Amazon VPC"."""


@dataclass(frozen=True)
class BucketWeights:
    bucket: str
    prefix: str
    region: str


@dataclass(frozen=True)
class LustreWeights:
    vpc_id: pulumi.Input[str]
    subnet: pulumi.Input[str]
    node_security_groups: Sequence[pulumi.Input[str]]
    capacity_gib: int
    mb_per_s_per_tib: int


class LustreFileSystem(pulumi.ComponentResource):
    """A persistent, encrypted file system in the GPU nodes' subnet."""

    volume: pulumi.Output[dict[str, Any]]
    """The CSI part of a PersistentVolume."""

    def __init__(self, name: str, args: LustreWeights, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("splitserve:platform:LustreFileSystem", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        group = aws.ec2.SecurityGroup(name, vpc_id=args.vpc_id, description="Model weights on Lustre", opts=child)
        sources = {"itself": group.id, **{f"nodes-{i}": found for i, found in enumerate(args.node_security_groups)}}
        for source, (low, high) in ((s, ports) for s in sources for ports in LUSTRE_PORTS):
            aws.vpc.SecurityGroupIngressRule(
                f"{name}-{low}-from-{source}", security_group_id=group.id, ip_protocol="tcp", from_port=low,
                to_port=high, referenced_security_group_id=sources[source], opts=child,
            )  # fmt: skip
        aws.vpc.SecurityGroupEgressRule(
            f"{name}-to-itself", security_group_id=group.id, ip_protocol="-1", referenced_security_group_id=group.id,
            opts=child,
        )  # fmt: skip
        system = aws.fsx.LustreFileSystem(
            name, deployment_type="PERSISTENT_2", storage_capacity=args.capacity_gib, storage_type="SSD",
            per_unit_storage_throughput=args.mb_per_s_per_tib, subnet_ids=args.subnet, security_group_ids=[group.id],
            opts=child,
        )  # fmt: skip
        self.volume = pulumi.Output.all(system.id, system.dns_name, system.mount_name).apply(
            lambda found: {
                "driver": "fsx.csi.aws.com", "volumeHandle": found[0], "readOnly": True,
                "volumeAttributes": {"dnsname": found[1], "mountname": found[2]},
            }
        )  # fmt: skip
        self.register_outputs({"volume": self.volume})


def bucket_volume(
    cluster: pulumi.Input[str], weights: BucketWeights, opts: pulumi.ResourceOptions
) -> tuple[Any, list[str]]:
    """Let the CSI driver read the model's folder; returns the CSI part and the mount options."""
    role = Role("weights", RoleArgs(PODS, own=read_bucket(weights.bucket, weights.prefix)), opts)
    pod_identity("weights", cluster, S3_ACCOUNT, role, opts)
    options = ["read-only", f"region {weights.region}"]
    folder = [f"prefix {weights.prefix}/"] if weights.prefix else []
    csi = {"driver": "s3.csi.aws.com", "volumeHandle": f"splitserve-{weights.bucket}-{weights.prefix}".rstrip("-"),
           "volumeAttributes": {"bucketName": weights.bucket}}  # fmt: skip
    return csi, [*options, *folder]


@dataclass(frozen=True)
class WeightsClaimArgs:
    """`csi` is the volume's driver part; `volume` a name that no other stack in the cluster uses."""

    volume: str
    claim: str
    namespace: pulumi.Input[str]
    csi: Any
    mount_options: Sequence[str]
    size: str


class WeightsClaim(pulumi.ComponentResource):
    """A volume that exists already, and the claim by which pods of the namespace mount it."""

    def __init__(self, name: str, args: WeightsClaimArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("splitserve:platform:WeightsClaim", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        spec: Any = {
            "capacity": {"storage": args.size}, "accessModes": ["ReadOnlyMany"], "storageClassName": "",
            "persistentVolumeReclaimPolicy": "Retain", "mountOptions": list(args.mount_options), "csi": args.csi,
            "claimRef": {"namespace": args.namespace, "name": args.claim},
        }  # fmt: skip
        volume = k8s.core.v1.PersistentVolume(
            name, metadata={"name": args.volume, "labels": MANAGED_BY}, spec=spec, opts=child
        )
        wanted: Any = {
            "accessModes": ["ReadOnlyMany"], "storageClassName": "", "volumeName": args.volume,
            "resources": {"requests": {"storage": args.size}},
        }  # fmt: skip
        k8s.core.v1.PersistentVolumeClaim(
            name, metadata={"name": args.claim, "namespace": args.namespace, "labels": MANAGED_BY}, spec=wanted,
            opts=pulumi.ResourceOptions(parent=self, depends_on=[volume]),
        )  # fmt: skip
        self.register_outputs({})
