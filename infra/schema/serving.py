"""What is served, and by which tiers: model, chat, engine, prefill, decode, router, render, encoder, gateway,
connector."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from components.serving.connectors.chosen import Chosen
from infra.schema.section import NonNegative, Port, Positive, PositiveNumber, Quantity, Section, Text

DOWNLOAD_GB_PER_S = 0.25
"""A download over the internet, an assumption."""
S3_GB_PER_S = 1.0
"""One pod reading through Mountpoint for S3 inside the region, an assumption."""

AllToAll = Literal[
    "allgather_reducescatter", "deepep_high_throughput", "deepep_low_latency", "deepep_v2",
    "flashinfer_nvlink_two_sided", "flashinfer_nvlink_one_sided", "mori_high_throughput", "mori_low_latency", "nixl_ep",
]  # fmt: skip
"""Of vllm 0.32 `config/parallel.py` All2AllBackend, without its aliases and what it keeps for tests."""
Dtype = Literal["bfloat16", "float16", "float32"]
KvCacheDtype = Literal["auto", "fp8", "fp8_e4m3", "fp8_e5m2"]
InnerName = Literal[
    "nixl", "nixl-push", "mooncake", "moriio", "mooncake-store", "lmcache", "lmcache-mp", "flexkv", "offloading",
    "simple-offloading", "custom",
]  # fmt: skip
ConnectorName = Literal[InnerName, "multi"]


class Volume(Section):
    """A PersistentVolumeClaim in the namespace; `path` is the model's folder inside it."""

    claim: Text
    """The claim's name."""
    path: str = ""
    config: Text
    """A copy of the model's `config.json`, relative to the project."""


class HuggingFace(Section):
    """A model that vLLM downloads."""

    repository: Text
    """Its name on Hugging Face."""
    revision: Text
    """A commit, so that the release stays what was proved."""
    config: Text
    """A copy of its `config.json` in the project."""
    token_secret: str | None = None
    """A Secret of the namespace whose key `token` opens gated models."""
    node_cache: bool = False
    """Keep what was downloaded on the node's NVMe disks, so that a restarted pod doesn't load it again."""


class S3Weights(Section):
    """A model in a bucket, mounted read-only by the Mountpoint CSI driver. Only on AWS."""

    bucket: Text
    prefix: str = ""
    """The model's folder, without a slash at either end."""
    config: Text
    """A copy of its `config.json` in the project."""


class LustreWeights(Section):
    """A model on an FSx for Lustre file system that the stack makes. Only on AWS."""

    capacity_gib: Positive = 1200
    mb_per_s_per_tib: Literal[125, 250, 500, 1000] = 250
    path: str = ""
    """The model's folder on it."""
    config: Text
    """A copy of its `config.json` in the project."""


class Model(Section):
    """The served model: exactly one of `folder`, `volume`, `huggingFace`, `s3` and `lustre`."""

    name: Text
    """The served name."""
    folder: str | None = None
    """A folder of the project with config, tokenizer and weights, on the node itself."""
    volume: Volume | None = None
    hugging_face: HuggingFace | None = None
    s3: S3Weights | None = None
    lustre: LustreWeights | None = None
    kv_bytes_per_token: Positive | None = None
    """For architectures that are not computed from `config.json`."""
    weights_gib: PositiveNumber | None = None
    """In place of what `config.json` says of the weights' size."""
    load_gb_per_s: PositiveNumber | None = None
    """How fast the weights arrive, 10^9 bytes per second; default an assumption by source until you have
    measured it: 0.25, S3 1, Lustre what the file system is sized for."""

    @model_validator(mode="after")
    def one_source(self) -> Model:
        given = [s for s in (self.folder, self.volume, self.hugging_face, self.s3, self.lustre) if s is not None]
        if len(given) != 1:
            raise ValueError(f"give exactly one of folder, volume, huggingFace, s3, lustre; found {len(given)}")
        return self

    @property
    def arrival_gb_per_s(self) -> float:
        """How fast weights arrive: as stated, or assumed by source."""
        if self.load_gb_per_s:
            return self.load_gb_per_s
        if self.lustre:
            return self.lustre.capacity_gib / 1024 * self.lustre.mb_per_s_per_tib / 1000
        return S3_GB_PER_S if self.s3 else DOWNLOAD_GB_PER_S


class Resources(Section):
    cpu: str = "4"
    """Requested CPUs."""
    cpu_limit: str | None = None
    memory: str = "32Gi"
    """Requested memory, and its limit."""
    shm: str = "8Gi"
    """The size of /dev/shm, over which workers exchange tensors."""
    extended: dict[str, Positive | Quantity] = {}
    """Device resources by name: `nvidia.com/gpu`, `vpc.amazonaws.com/efa`, `rdma/ib`, `hugepages-2Mi`."""


class RouterResources(Resources):
    cpu: str = "1"
    memory: str = "2Gi"
    shm: str = "64Mi"


class Parallel(Section):
    """GPUs of one engine: tensor, pipeline and data parallelism, and the nodes that they are spread over."""

    tensor: Positive = 1
    pipeline: Positive = 1
    data: Positive = 1
    expert: bool = False
    """Give each GPU whole experts of a mixture-of-experts model, in place of a slice of every expert."""
    all_to_all: AllToAll | None = None
    """With `expert` and `data`: what moves tokens between experts; default vLLM's own choice."""
    nodes: Positive = 1
    """Nodes of one engine, a pod on each: more than one makes a LeaderWorkerSet. `resources` are those of one pod."""

    @property
    def gpus(self) -> int:
        """Of one engine."""
        return self.tensor * self.pipeline * self.data

    @property
    def gpus_per_pod(self) -> int:
        return self.gpus // self.nodes


class Engine(Section):
    """vLLM's arguments, equal in both tiers unless a tier overrides them."""

    dtype: Dtype = "bfloat16"
    kv_cache_dtype: KvCacheDtype = "auto"
    block_size: Positive = 128
    """Tokens a KV block: larger blocks move in fewer pieces."""
    max_model_len: Positive = 8192
    """The longest prompt with its answer, in tokens."""
    gpu_blocks: Positive | None = None
    """KV blocks in place of vLLM's own choice."""
    gpu_memory_utilization: float = Field(default=0.92, gt=0, le=1, allow_inf_nan=False, strict=False)
    attention_backend: str | None = None
    """vLLM's attention backend; needed where the tiers have different GPUs."""
    enforce_eager: bool = False
    parallel: Parallel = Parallel()
    port: Port = 8000
    side_channel_port: Port = 5600
    """NIXL's handshake port, one more for each further data-parallel rank."""
    master_port: Port = 29501
    """On an engine's first node: where its other nodes' ranks find it."""
    data_rpc_port: Port = 29550
    """On an engine's first node: where data-parallel ranks of other nodes register."""
    load_limit_s: Positive | None = None
    """How long loading the model may take before a pod is restarted; default twice what its size and
    `model.loadGbPerS` make, at least 600."""
    sse_keep_alive_s: NonNegative = 0
    """Seconds of silence after which a stream gets a comment line; 0 is off."""
    resources: Resources = Resources()
    environment: dict[str, str] = {}
    """Variables of every engine pod."""


class EngineOverride(Section):
    """What one tier sets differently; parity is checked after merging."""

    dtype: Dtype | None = None
    kv_cache_dtype: KvCacheDtype | None = None
    block_size: Positive | None = None
    max_model_len: Positive | None = None
    gpu_blocks: Positive | None = None
    attention_backend: str | None = None
    parallel: Parallel | None = None


class Tier(Section):
    """An engine tier."""

    replicas: Positive = 1
    image: str | None = None
    """In place of `image`; prefill and decode must run the same."""
    resources: Resources | None = None
    """In place of `engine.resources`."""
    engine: EngineOverride = EngineOverride()
    environment: dict[str, str] = {}
    """Added to `engine.environment`."""
    extra_args: list[str] = []
    """Arguments for vLLM, after all others, so that they win."""
    connector_options: dict[str, Any] = {}
    """Added to `connector.options`, on this side alone."""
    drain_s: Positive = 45
    """How long running requests may go on when a pod is stopped."""
    rack_label: str | None = None
    """A node label: an engine over several nodes takes nodes of one value, which no other such engine has."""


class Router(Section):
    replicas: Positive = 1
    image: str | None = None
    port: Port = 8080
    metrics_port: Port = 29000
    policy: Literal["cache_aware", "random", "round_robin", "power_of_two"] = "round_robin"
    resources: RouterResources = RouterResources()
    drain_s: NonNegative = 45


class Chat(Section):
    """How chats become prompts and answers are parsed: the same in every tier."""

    template: str | None = None
    """A Jinja file of the project in place of the model's own chat template."""
    tool_parser: str | None = None
    """vLLM's parser of tool calls; setting it lets the model choose tools by itself."""
    reasoning_parser: str | None = None
    """vLLM's parser that parts reasoning from the answer."""


class RenderResources(Resources):
    cpu: str = "2"
    memory: str = "4Gi"
    shm: str = "64Mi"


class Render(Section):
    """A CPU tier that renders prompts and parses answers; 0 replicas: the engines do it."""

    replicas: NonNegative = 0
    image: str | None = None
    """In place of `image`; it must hold the same vLLM."""
    port: Port = 8001
    workers: Positive = 1
    """Threads that tokenize in one pod; more pods scale further."""
    resources: RenderResources = RenderResources()
    environment: dict[str, str] = {}
    extra_args: list[str] = []
    """Arguments for `vllm launch render`, after all others, so that they win."""
    start_limit_s: Positive = 300
    """How long loading tokenizer and template may take before a pod is restarted."""


class EncoderFolder(Section):
    """A folder that the encoder's and the engines' pods share: exactly one of the two."""

    claim: str | None = None
    """A PersistentVolumeClaim of the namespace that many pods may write (ReadWriteMany)."""
    node: str | None = None
    """A folder of the node, where there is only one; the pods' user must be able to write to it."""

    @model_validator(mode="after")
    def one_place(self) -> EncoderFolder:
        given = [place for place in (self.claim, self.node) if place is not None]
        if len(given) != 1:
            raise ValueError(f"give exactly one of claim, node; found {len(given)}")
        return self


class Encoder(Section):
    """A tier that runs the model's vision and audio encoders alone; 0 replicas: the engines do it."""

    replicas: NonNegative = 0
    image: str | None = None
    """In place of `image`; it must hold the same vLLM."""
    connector: Literal["nixl", "folder"] = "nixl"
    """How embeddings reach the engines: read from the encoder's host memory, or through a shared folder."""
    cpu_gib: PositiveNumber = 2.0
    """With `nixl`: host memory for embeddings, GiB in each encoder and each engine; it lies in /dev/shm."""
    side_channel_port: Port = 5601
    """With `nixl`: where encoders answer engines."""
    folder: EncoderFolder | None = None
    """With `folder`: where it lies."""
    reuse_s: Positive = 600
    """With `folder`: how long an embedding may be used again, in seconds; then it is cleared away."""
    limit_s: PositiveNumber = 60.0
    """How long encoding one image, video or sound may take."""
    resources: Resources | None = None
    """In place of `engine.resources`."""
    environment: dict[str, str] = {}
    """Added to `engine.environment`."""
    extra_args: list[str] = []
    """Arguments for vLLM, after all others, so that they win."""
    drain_s: Positive = 45
    """How long what it encodes may go on when a pod is stopped."""


class Gateway(Section):
    """Limits of the gateway, which takes the router's place where there is a render tier."""

    max_in_flight: Positive = 512
    """Requests that one gateway has in the tiers at a time."""
    max_queued: NonNegative = 512
    """Requests that wait for one of those to end; more are refused with 429."""
    queue_limit_s: PositiveNumber = 30.0
    """How long a request may wait before it is refused with 429."""
    body_limit_mib: Positive = 16
    connection_limit: Positive = 4096
    """Open connections of one gateway."""
    request_limit_s: PositiveNumber = 1800.0
    """How long an answer may take in all."""
    prefill_limit_s: PositiveNumber = 300.0
    """How long a prompt may wait for its prefill and take there."""
    prefill_policy: Literal["least_loaded", "prefix_aware"] = "least_loaded"
    """`prefix_aware` sends prompts that begin alike to the same prefiller, whose cache has the beginning."""


class InnerConnector(Section):
    """A connector inside `multi`; its name alone will do where it needs no more."""

    name: InnerName
    options: dict[str, Any] = {}
    """Its own `kv_connector_extra_config`."""
    cpu_gib: PositiveNumber | None = None
    """Host memory that it may fill with KV cache, GiB for one engine with all of its ranks."""
    module: str | None = None
    """With `custom`: the Python module that has the class."""
    class_name: str | None = None

    @property
    def chosen(self) -> Chosen:
        return Chosen(self.name, self.options, self.cpu_gib, self.module, self.class_name)


def _named(inner: Any) -> Any:
    """A list of connectors in which a plain name stands for a connector without settings."""
    return [{"name": one} if isinstance(one, str) else one for one in inner] if isinstance(inner, list) else inner


class Connector(Section):
    """What moves the KV cache."""

    name: ConnectorName = "nixl"
    backend: Literal["auto", "UCX", "LIBFABRIC"] = "auto"
    """NIXL's transport; `auto`: LIBFABRIC on EFA, vLLM's default (UCX) elsewhere."""
    load_failure_policy: Literal["fail", "recompute"] = "fail"
    """What becomes of a request whose KV did not arrive: an error, or a slow answer."""
    options: dict[str, Any] = {}
    """`kv_connector_extra_config`, on both sides; with `multi` each connector inside has its own."""
    cpu_gib: PositiveNumber | None = None
    """Host memory that offloading may fill with KV cache, GiB for one engine with all of its ranks."""
    inner: Annotated[
        list[InnerConnector], BeforeValidator(_named, json_schema_input_type=list[InnerName | InnerConnector])
    ] = []
    """With `multi`: the connectors inside, in order; the one between the tiers first."""
    module: str | None = None
    """With `custom`: the Python module of a connector of your own, which the image must hold."""
    class_name: str | None = None
    """With `custom`: the connector's class in it."""

    @property
    def chosen(self) -> Chosen:
        """As components know it, without the options of a tier."""
        return Chosen(self.name, self.options, self.cpu_gib, self.module, self.class_name,
                      tuple(one.chosen for one in self.inner))  # fmt: skip


class ImageContents(Section):
    """What the image holds, as far as you know; rules about versions need it."""

    vllm: str | None = None
    nixl: str | None = None
    libfabric: str | None = None
    efa: bool | None = None
    """Whether it holds the EFA installer's libfabric; vLLM's own image doesn't."""
    packages: list[str] | None = None
    """Python packages beside vLLM's own that connectors need, such as `lmcache`."""
