"""What a release serves: the typed specification from which every pod is rendered.

Immutable and free of Pulumi. Replica counts are no part of it: they are capacity, not release.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from components.hardware.geometry import Geometry
from components.serving.connectors.chosen import Chosen

Topology = Literal["prefill-decode", "collocated"]
EngineTier = Literal["prefill", "decode", "collocated"]

ROUTER = "router"
RENDER = "render"
ENCODER = "encoder"
TIERS: dict[Topology, tuple[EngineTier, ...]] = {
    "prefill-decode": ("prefill", "decode"),
    "collocated": ("collocated",),
}
"""The engine tiers of each topology; a router stands in front of them in every one, and a render tier may."""
NOT_ENGINES = (ROUTER, RENDER, ENCODER)


@dataclass(frozen=True)
class ModelSource:
    """Where pods find the model: exactly one of the three is set.

    `folder` is a folder of the node, `claim` a PersistentVolumeClaim with the model at `claim_path`
    inside, `repository` a Hugging Face name at `revision`, opened by the Secret `token_secret` and kept
    in the node's folder `cache`.
    """

    folder: str | None = None
    claim: str | None = None
    claim_path: str = ""
    repository: str | None = None
    revision: str | None = None
    token_secret: str | None = None
    cache: str | None = None


@dataclass(frozen=True)
class ModelSpec:
    """The served model. `digest` identifies a folder's content, so that new files are a release."""

    name: str
    source: ModelSource
    digest: str
    geometry: Geometry


@dataclass(frozen=True)
class EngineSpec:
    """vLLM's arguments that decide memory layout and speed; they must match between tiers."""

    dtype: str
    block_size: int
    max_model_len: int
    gpu_blocks: int | None
    enforce_eager: bool
    port: int
    side_channel_port: int
    kv_cache_dtype: str = "auto"
    attention_backend: str | None = None
    gpu_memory_utilization: float | None = None
    sse_keep_alive_s: int = 0
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    data_parallel: int = 1
    expert_parallel: bool = False
    all_to_all: str | None = None
    """What moves tokens between experts, in vLLM's words; None: vLLM's own choice."""
    nodes: int = 1
    """Pods that one engine is made of."""
    master_port: int = 29501
    """Where the ranks of an engine over several nodes find each other (vllm 0.32 `config/parallel.py`)."""
    data_rpc_port: int = 29550
    """Where data-parallel ranks on other nodes register (vllm 0.32 `config/parallel.py`)."""


@dataclass(frozen=True)
class DeviceClaims:
    """So many claims made from one ResourceClaimTemplate of the namespace: one for each GPU."""

    template: str
    count: int

    @property
    def names(self) -> list[str]:
        return [f"gpu-{index}" for index in range(self.count)]


@dataclass(frozen=True)
class ResourceSpec:
    """Requests and limits of one container; `extended` are device resources by name."""

    cpu: str
    memory: str
    cpu_limit: str | None = None
    shm: str = "1Gi"
    extended: Mapping[str, int | str] = field(default_factory=dict)
    claims: DeviceClaims | None = None
    """In place of device resources, where Dynamic Resource Allocation hands out the devices."""


@dataclass(frozen=True)
class TierSpec:
    """One engine tier."""

    engine: EngineSpec
    resources: ResourceSpec
    environment: Mapping[str, str]
    extra_args: tuple[str, ...]
    load_limit_s: int
    """How long loading the model may take before the start-up probe gives up."""
    drain_s: int
    """vLLM's `--shutdown-timeout`: how long running requests may go on after SIGTERM."""
    image: str | None = None
    """In place of the release's image."""
    connector_options: Mapping[str, Any] = field(default_factory=dict)
    """The connector's extra config on this side."""
    rack_label: str | None = None
    """A node label whose value all nodes of one engine share, and no other engine over several nodes has."""


@dataclass(frozen=True)
class RouterSpec:
    image: str
    port: int
    metrics_port: int
    policy: str
    resources: ResourceSpec
    drain_s: int


@dataclass(frozen=True)
class ChatSpec:
    """How prompts are rendered and answers parsed: engines and the render tier are told the same.

    `template` is the text of a Jinja template in place of the model's own.
    """

    template: str | None = None
    tool_parser: str | None = None
    reasoning_parser: str | None = None


@dataclass(frozen=True)
class GatewaySpec:
    """The limits of the gateway, which routes where there is a render tier. `arguments` are its flags."""

    arguments: Mapping[str, str]
    api_key_secret: str | None = None
    """A Secret of the namespace whose key `api-key` holds the clients' keys, one a line."""


@dataclass(frozen=True)
class RenderSpec:
    """The CPU tier: `workers` are the threads that tokenize in one pod. The gateway stands in front of it."""

    image: str
    port: int
    workers: int
    resources: ResourceSpec
    environment: Mapping[str, str]
    extra_args: tuple[str, ...]
    start_limit_s: int
    gateway: GatewaySpec


@dataclass(frozen=True)
class SharedFolder:
    """Exactly one of the two: a folder of the one node there is, or a PersistentVolumeClaim of many writers."""

    node: str | None = None
    claim: str | None = None


@dataclass(frozen=True)
class EncoderSpec:
    """The tier that runs the model's vision and audio encoders alone, and hands the embeddings over."""

    image: str
    connector: str
    side_channel_port: int
    cpu_gib: float
    """Host memory for embeddings on each side, GiB, where the connector keeps them there."""
    resources: ResourceSpec
    environment: Mapping[str, str]
    extra_args: tuple[str, ...]
    load_limit_s: int
    drain_s: int
    keep_s: int
    """How long an embedding lies in the shared folder."""
    folder: SharedFolder | None = None


@dataclass(frozen=True)
class PodPlacement:
    """Where the pods may run and as whom."""

    node_selector: Mapping[str, str]
    run_as_user: int
    lock_memory: bool = False
    """Whether engines get IPC_LOCK, to register memory for RDMA where nodes limit it."""
    tolerations: tuple[Mapping[str, str], ...] = ()


@dataclass(frozen=True)
class ServingSpec:
    """Everything that is the same for one release."""

    topology: Topology
    image: str
    model: ModelSpec
    connector: str
    connector_backend: str
    load_failure_policy: str
    tiers: Mapping[str, TierSpec]
    router: RouterSpec
    placement: Mapping[str, PodPlacement]
    """By tier, the router's and the render tier's among them."""
    note: str
    chat: ChatSpec = ChatSpec()
    render: RenderSpec | None = None
    encoder: EncoderSpec | None = None
    nodes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By tier, the node generation that the platform makes for it, where it makes nodes."""
    connector_parts: Chosen | None = None
    """What the connector is made of beyond its name; the tiers hold its options."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """On every pod: what is known of the image."""
