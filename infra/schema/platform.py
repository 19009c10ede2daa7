"""Where to deploy: the local cluster, one that exists, or one that is built on AWS."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from components.hardware.interfaces import AddressUse
from components.platform.node_generation import AmiFamily, Capacity
from infra.schema.section import Name, Positive, PositiveNumber, Section, Text

LogType = Literal["api", "audit", "authenticator", "controllerManager", "scheduler"]
Link = Literal["nvlink", "pcie-p2p", "ib-ndr", "ib-hdr", "roce-400", "roce-200", "roce-100", "tcp"]


class Hardware(Section):
    """What the GPU nodes of an existing cluster are, so that a plan can be held against them."""

    gpu: Text
    gpu_memory_gib: PositiveNumber
    gpus_per_node: Positive
    nodes: Positive
    link: Link
    """The path between a prefill and a decode GPU."""
    rdma_resource: str | None = None
    """The device plugin's resource name: `rdma/ib`, `rdma/hca_shared_devices_a`, …"""
    memory_lock: Literal["ipc-lock", "unlimited"] = "ipc-lock"
    """How pods may lock memory for RDMA: by capability, or the nodes set no limit."""


class NodeGroup(Section):
    """One EKS node group; a prefill and a decode group lie in one zone."""

    instance: Text
    """An EC2 instance type."""
    nodes: Positive = 1
    max_nodes: Positive | None = None
    """The group's maximum size, a guard against cost; default `nodes`."""
    zone: str | None = None
    """In place of `aws.zone`."""
    capacity: Capacity = "on-demand"
    reservation: str | None = None
    """The id of a capacity reservation or capacity block."""
    placement_group: Text = "own"
    """`own` is made by the stack, `none`, or the name of one that exists."""
    addresses: AddressUse = "save"
    """One IP interface a node, or as many as the type needs for its full IP bandwidth."""
    disk_gib: Positive | None = None
    """The root volume's size; default 200 on GPU nodes, 50 elsewhere."""
    ami: AmiFamily = "al2023"
    ami_release: str | None = None
    """The AMI's release version, so that other nodes are another release; default EKS's newest."""
    launch_template: str | None = None
    """The id of a launch template of your own, taken as it is."""
    security_group: str | None = None
    """The id of a security group that exists, in place of one that the stack makes."""
    spread_tiers: bool = True
    """Prefill and decode pods on different nodes, which EFA needs."""
    repair: bool = True
    """Whether EKS replaces nodes whose GPU, network or kubelet has failed."""


class NodeGroups(Section):
    """The GPU node groups by tier, and the CPU pools. Routers run on `router`, or on `system`."""

    prefill: NodeGroup | None = None
    decode: NodeGroup | None = None
    collocated: NodeGroup | None = None
    render: NodeGroup | None = None
    router: NodeGroup | None = None
    system: NodeGroup | None = None


class Network(Section):
    """The VPC of the cluster."""

    cidr: Text = "10.64.0.0/16"
    """Its IPv4 range; must overlap no network that it is to reach."""
    nat: Literal["one", "each-zone", "none"] = "one"
    """NAT gateways: without any, images and models must come through the VPC endpoints."""
    public_subnets: bool = False
    """Public subnets for balancers of serving stacks that face the internet; a stack's own always has them."""
    endpoints: bool = True
    """VPC endpoints for S3, ECR, EC2, EKS, STS, logs and load balancing."""


class ClusterSettings(Section):
    """The EKS control plane."""

    public_cidrs: list[Text] = []
    """Who reaches the API from outside the VPC; none by default, so that `pulumi` must run inside it."""
    admins: list[Text] = []
    """ARNs of IAM roles and users that administer the cluster, beside whoever made it."""
    log_types: list[LogType] = ["api", "audit", "authenticator"]
    log_days: Positive = 30
    deletion_protection: bool = False
    addons: dict[str, Text] = {}
    """Versions in place of the pinned ones, by add-on."""


class NodeSoftware(Section):
    """What is installed on GPU nodes, where the cluster has it not."""

    devices: Literal["plugin", "dra", "none"] = "plugin"
    """Device plugins, dynamic resource allocation (Kubernetes 1.34 or newer), or nothing."""
    gpu_metrics: bool = True
    """NVIDIA's DCGM exporter."""
    rdma_metrics: bool = True
    """The counters of RDMA devices: EFA, InfiniBand, RoCE."""
    rdma_shared: bool = False
    """The RDMA shared device plugin, for InfiniBand and RoCE."""
    leader_worker_sets: Literal["auto", "always", "none"] = "auto"
    """The controller of engines over several nodes: where a tier has such engines and the cluster has it not;
    for other stacks to use, too; or never."""
    leader_worker_sets_image: str | None = None
    """The controller's image in place of upstream's."""


class Aws(Section):
    """An EKS cluster with EFA node groups."""

    region: Text
    zone: Text
    """Of all GPU nodes: EFA crosses no zone."""
    kubernetes_version: str = "1.34"
    node_groups: NodeGroups
    load_balancer_zones: list[Text] = []
    """The zones of the load balancer's subnets; default the GPU zone alone."""
    second_zone: str | None = None
    """EKS wants its control plane in two zones; default the region's zone a, or b beside a."""
    network: Network = Network()
    cluster: ClusterSettings = ClusterSettings()
    tags: dict[str, str] = {}
    """On everything that can carry tags, beside `splitserve:stack`."""
    cluster_stack: str | None = None
    """With `layers: serving`: the stack (organization/project/stack) that made the cluster."""


class Platform(Section):
    """`local` is the one-node cluster of `make up`, `existing` any cluster of yours, `aws` a new one."""

    kind: Literal["local", "existing", "aws"]
    kubeconfig: str | None = None
    """The path of a kubeconfig; default `.local/kubeconfig` on local, `~/.kube/config` elsewhere."""
    context: str | None = None
    """A context of that kubeconfig; default its current one."""
    namespace: Name = "splitserve"
    """Created by the stack; another owner's is refused."""
    node_selector: dict[str, str] = {}
    """Labels of the nodes that may serve."""
    layers: Literal["all", "cluster", "serving"] = "all"
    """Both layers in one stack, or the cluster and what it serves in two: see docs/how-to/layers.md."""
    hardware: Hardware | None = None
    node_software: NodeSoftware = NodeSoftware()
    aws: Aws | None = None

    @model_validator(mode="after")
    def parts_fit(self) -> Platform:
        if (self.kind == "aws") != (self.aws is not None):
            raise ValueError("`aws` belongs to kind `aws`, which needs it")
        if self.kind == "aws" and self.hardware is not None:
            raise ValueError("`hardware` describes existing clusters; on aws the instance types say it")
        return self
