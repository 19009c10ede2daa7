"""What was found in a cluster that exists. Plain data; None means that it could not be asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from components.nodes.names import EFA_RESOURCE, GPU_RESOURCE

_RDMA_WORDS = ("rdma", "roce", "infiniband", "hca", "sriov", "/ib", "/efa")
_NVIDIA_GPUS = ("nvidia.com/gpu", "nvidia.com/mig-", "nvidia.com/pgpu", "nvidia.com/vgpu")


@dataclass(frozen=True)
class Taint:
    key: str
    value: str
    effect: str

    @property
    def keeps_away(self) -> bool:
        return self.effect in ("NoSchedule", "NoExecute")

    def __str__(self) -> str:
        return f"{self.key}{'=' + self.value if self.value else ''}:{self.effect}"


@dataclass(frozen=True)
class Node:
    """`allocatable` holds device resources as counts and huge pages as bytes; `used` is what running
    pods ask of them, `ours` the part of it by pods in our namespace."""

    name: str
    ready: bool
    schedulable: bool
    labels: Mapping[str, str]
    allocatable: Mapping[str, int]
    used: Mapping[str, int] | None = None
    ours: Mapping[str, int] = field(default_factory=dict)
    instance_type: str | None = None
    zone: str | None = None
    topology: Mapping[str, str] = field(default_factory=dict)
    """Rack, block or NVLink domain, by the label that says it."""
    gpu_product: str | None = None
    gpu_memory_mib: int | None = None
    taints: tuple[Taint, ...] = ()
    kernel: str = ""
    runtime: str = ""
    kubelet: str = ""
    provider: str = ""
    """The cloud's name in the provider id, such as `aws`."""

    @property
    def usable(self) -> bool:
        return self.ready and self.schedulable

    @property
    def gpus(self) -> int:
        return self.allocatable.get(GPU_RESOURCE, 0)

    @property
    def gpus_free(self) -> int | None:
        return self.free(GPU_RESOURCE)

    def free(self, resource: str) -> int | None:
        """What no running pod asks for; None where pods could not be listed."""
        if self.used is None:
            return None
        return max(0, self.allocatable.get(resource, 0) - self.used.get(resource, 0))

    @property
    def rdma(self) -> dict[str, int]:
        return {name: count for name, count in self.allocatable.items() if is_rdma(name) and count}

    @property
    def hugepages(self) -> dict[str, int]:
        return {name: count for name, count in self.allocatable.items() if name.startswith("hugepages-") and count}


@dataclass(frozen=True)
class Installed:
    """A DaemonSet that serves devices or their metrics. `owner` is the splitserve stack that made it."""

    plugin: str
    namespace: str
    name: str
    image: str
    owner: str | None = None
    wanted: int = 0
    ready: int = 0

    @property
    def whose(self) -> str:
        return f"{self.namespace}/{self.name}" + (f", stack {self.owner}" if self.owner else "")


@dataclass(frozen=True)
class StorageClass:
    name: str
    provisioner: str
    default: bool


@dataclass(frozen=True)
class VolumeClaim:
    """A PersistentVolumeClaim in our namespace."""

    name: str
    phase: str


@dataclass(frozen=True)
class LoadBalancer:
    """Whether a Service of type LoadBalancer gets an address, and what says so."""

    able: bool
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class Driver:
    """A DRA driver, by the ResourceSlices that it publishes."""

    name: str
    devices: Mapping[str, int]
    """By node."""


@dataclass(frozen=True)
class Dra:
    """Dynamic Resource Allocation: the API version served, the classes, the drivers."""

    api: str
    device_classes: tuple[str, ...]
    drivers: tuple[Driver, ...]


@dataclass(frozen=True)
class LeaderWorkerSets:
    """The kind that engines over several nodes are made of: whether the cluster serves it (None: could not be
    asked), and the Deployment of its controller (None: none was found, or Deployments could not be listed)."""

    served: bool | None
    controller: str | None = None
    owner: str | None = None
    """The splitserve stack that made the controller."""

    def whose(self, owner: str) -> str | None:
        """Who makes groups here beside this stack; None: nobody."""
        if self.controller is None or self.owner == owner:
            return None
        return self.controller + (f", stack {self.owner}" if self.owner else "")


@dataclass(frozen=True)
class Right:
    """One thing that the deploying user needs to do, and whether it may; None: could not be asked."""

    verb: str
    resource: str
    group: str = ""
    namespace: str | None = None
    allowed: bool | None = None

    def __str__(self) -> str:
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource}{'.' + self.group if self.group else ''}{where}"


@dataclass(frozen=True)
class Found:
    """Everything. `unknown` has a line for each question that the cluster did not answer."""

    kubernetes_version: str
    nodes: tuple[Node, ...]
    storage_classes: tuple[StorageClass, ...] | None
    claims: tuple[VolumeClaim, ...] | None
    load_balancer: LoadBalancer
    installed: tuple[Installed, ...] | None
    dra: Dra | None
    rights: tuple[Right, ...]
    unknown: tuple[str, ...] = ()
    leader_worker_sets: LeaderWorkerSets = LeaderWorkerSets(None)
    operator_kinds: tuple[str, ...] | None = None
    """The Prometheus operator's kinds that are served, such as `podmonitors`."""

    @property
    def rdma_resources(self) -> tuple[str, ...]:
        """Every RDMA resource name that some usable node has."""
        return tuple(sorted({name for node in self.nodes if node.usable for name in node.rdma}))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def is_rdma(resource: str) -> bool:
    """Whether a resource is a way to RDMA hardware.

    There is no naming rule: `rdma/ib`, `rdma/hca_shared_devices_a`, `vpc.amazonaws.com/efa`,
    `vke.volcengine.com/rdma`, GKE's `networking.gke.io.networks/rdma-0` (whose `.IP` twin counts
    addresses), and pools of the SR-IOV device plugin with a prefix and a name of anybody's choice, of
    which NVIDIA's network operator uses `nvidia.com/`.
    """
    if resource.endswith(".IP") or resource.startswith("hugepages-"):
        return False
    if resource.startswith("nvidia.com/"):
        return not resource.startswith(_NVIDIA_GPUS) and resource.rsplit("/", 1)[1].islower()
    return resource == EFA_RESOURCE or any(word in resource.lower() for word in _RDMA_WORDS)
