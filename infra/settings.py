"""The stack file's settings: what may be written, its defaults, and every fault in one message.

Pure: reads a mapping and local files, calls no network and no Pulumi. Keys are camelCase, as in the
stack file. `load` gathers the faults of all keys before it raises.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from components.serving.connector import BACKENDS, CONNECTORS

Port = Annotated[int, Field(ge=1, le=65535)]
Positive = Annotated[int, Field(ge=1)]
NonNegative = Annotated[int, Field(ge=0)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")]


class SettingsError(ValueError):
    """One or more settings are wrong; `faults` has a line for each."""

    def __init__(self, where: str, faults: list[str]) -> None:
        self.faults = faults
        lines = "\n".join(f"  - {fault}" for fault in faults)
        super().__init__(f"{where}: {len(faults)} fault(s), nothing was changed:\n{lines}")


class Section(BaseModel):
    """A group of settings: camelCase keys, unknown ones refused."""

    model_config = ConfigDict(
        alias_generator=to_camel, extra="forbid", frozen=True, strict=True, populate_by_name=False
    )


class Platform(Section):
    """Where to deploy. `local` is the one-node cluster that `make up` starts."""

    kind: Literal["local", "existing"]
    kubeconfig: str | None = None
    context: str | None = None
    namespace: Name = "splitserve"
    node_selector: dict[str, str] = {}


class Volume(Section):
    """A PersistentVolumeClaim in the namespace; `path` is the model's folder inside it."""

    claim: str
    path: str = ""
    config: str
    """A copy of the model's `config.json`, relative to the project."""


class HuggingFace(Section):
    """A model that vLLM downloads. `config` is a copy of its `config.json` in the project."""

    repository: str
    revision: Annotated[str, Field(min_length=1)]
    config: str


class Model(Section):
    """The served model: exactly one of `folder`, `volume` and `huggingFace`."""

    name: Annotated[str, Field(min_length=1)]
    folder: str | None = None
    volume: Volume | None = None
    hugging_face: HuggingFace | None = None
    kv_bytes_per_token: Positive | None = None

    @model_validator(mode="after")
    def one_source(self) -> Model:
        given = [s for s in (self.folder, self.volume, self.hugging_face) if s is not None]
        if len(given) != 1:
            raise ValueError(f"give exactly one of folder, volume, huggingFace; found {len(given)}")
        return self


class Resources(Section):
    cpu: str = "4"
    cpu_limit: str | None = None
    memory: str = "32Gi"
    shm: str = "8Gi"
    extended: dict[str, Positive] = {}


class RouterResources(Resources):
    cpu: str = "1"
    memory: str = "2Gi"
    shm: str = "64Mi"


class Engine(Section):
    """vLLM's arguments, equal in both tiers unless a tier overrides them."""

    dtype: Literal["bfloat16", "float16", "float32"] = "bfloat16"
    block_size: Positive = 128
    max_model_len: Positive = 8192
    gpu_blocks: Positive | None = None
    enforce_eager: bool = False
    port: Port = 8000
    side_channel_port: Port = 5600
    load_limit_s: Positive = 600
    resources: Resources = Resources()
    environment: dict[str, str] = {}


class EngineOverride(Section):
    """What one tier sets differently; parity is checked after merging."""

    dtype: Literal["bfloat16", "float16", "float32"] | None = None
    block_size: Positive | None = None
    max_model_len: Positive | None = None
    gpu_blocks: Positive | None = None


class Tier(Section):
    """An engine tier."""

    replicas: Positive = 1
    resources: Resources | None = None
    """In place of `engine.resources`."""
    engine: EngineOverride = EngineOverride()
    environment: dict[str, str] = {}
    """Added to `engine.environment`."""
    extra_args: list[str] = []
    drain_s: Positive = 45


class Router(Section):
    replicas: Positive = 1
    image: str | None = None
    port: Port = 8080
    metrics_port: Port = 29000
    policy: Literal["cache_aware", "random", "round_robin", "power_of_two"] = "round_robin"
    resources: RouterResources = RouterResources()
    drain_s: NonNegative = 45


class Connector(Section):
    name: str = "nixl"
    backend: str = "auto"

    @model_validator(mode="after")
    def known(self) -> Connector:
        for key, value, allowed in (
            ("name", self.name, CONNECTORS),
            ("backend", self.backend, BACKENDS),
        ):
            if value not in allowed:
                raise ValueError(f"{key}: found '{value}', allowed: {', '.join(allowed)}")
        return self


class Gate(Section):
    """The check after each deploy. `age`: auto, off, or a limit in seconds."""

    limit_ms: Annotated[float, Field(gt=0, strict=False)] = 100.0
    samples: Annotated[int, Field(ge=1, le=100)] = 5
    prompt_tokens: Positive = 1024
    answer_tokens: Positive = 8
    age: Literal["auto", "off"] | Positive = "auto"
    ready_limit_s: Positive = 900
    probe_limit_s: Positive = 300
    on_first_failure: Literal["scale-to-zero", "keep"] = "scale-to-zero"
    retry: NonNegative = 0


class Rollout(Section):
    """`canary` puts the candidate beside the live release; `swap` stops the live one first."""

    strategy: Literal["canary", "swap"] = "canary"
    drain_limit_s: NonNegative = 60


class Edge(Section):
    """The front door: the one address that clients use."""

    port: Port = 80
    service_type: Literal["ClusterIP", "NodePort", "LoadBalancer"] = "ClusterIP"


class Settings(Section):
    """Everything under `splitserve:` in a stack file."""

    platform: Platform
    topology: Literal["prefill-decode", "collocated"] = "prefill-decode"
    image: str | None = None
    model: Model
    engine: Engine = Engine()
    prefill: Tier = Tier()
    decode: Tier = Tier()
    collocated: Tier = Tier()
    router: Router = Router()
    connector: Connector = Connector()
    gate: Gate = Gate()
    rollout: Rollout = Rollout()
    edge: Edge = Edge()
    run_as_user: Positive = 65534
    note: str = ""

    @property
    def tiers(self) -> dict[str, Tier]:
        if self.topology == "collocated":
            return {"collocated": self.collocated}
        return {"prefill": self.prefill, "decode": self.decode}

    def engine_of(self, tier: str) -> Engine:
        """The engine's settings with the tier's overrides in place."""
        override = self.tiers[tier].engine.model_dump(exclude_none=True)
        return self.engine.model_copy(update=override)


def load(values: Mapping[str, Any], where: str) -> Settings:
    """Settings from the stack file's keys (without `splitserve:`).

    Raises SettingsError with one line per fault: the key, what was found, what is allowed.
    """
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        raise SettingsError(where, [_fault(detail) for detail in error.errors()]) from None
    if faults := plan_faults(settings):
        raise SettingsError(where, faults)
    return settings


def plan_faults(settings: Settings) -> list[str]:
    """What is wrong between settings that are each right by themselves."""
    return [
        *_image_faults(settings),
        *_port_faults(settings),
        *_parity_faults(settings),
        *_cache_faults(settings),
        *_probe_faults(settings),
    ]


def _image_faults(settings: Settings) -> list[str]:
    if settings.image is None and settings.platform.kind != "local":
        return ["image: missing; wanted the vLLM image's name, by digest (only `platform.kind: local` has a default)"]
    return []


def _port_faults(settings: Settings) -> list[str]:
    """Every listener of a release has a port of its own.

    Two engines that share a host or its network namespace with equal ports never start
    (https://github.com/vllm-project/vllm/issues/20965), and one NetworkPolicy can't tell two tiers
    apart by port.
    """
    ports = {
        "engine.port": settings.engine.port,
        "engine.sideChannelPort": settings.engine.side_channel_port,
        "router.port": settings.router.port,
        "router.metricsPort": settings.router.metrics_port,
    }
    seen: dict[int, str] = {}
    faults = []
    for key, port in ports.items():
        if port in seen:
            faults.append(f"{key}: found {port}, which is {seen[port]}'s too; give each a port of its own")
        seen.setdefault(port, key)
    return faults


def _parity_faults(settings: Settings) -> list[str]:
    """What NIXL compares in its handshake must be equal in both tiers (vllm 0.32 NIXL `metadata.py`)."""
    if settings.topology != "prefill-decode":
        return []
    prefill, decode = settings.engine_of("prefill"), settings.engine_of("decode")
    faults = []
    for field in ("dtype", "block_size", "max_model_len"):
        left, right = getattr(prefill, field), getattr(decode, field)
        if left != right:
            key = to_camel(field)
            faults.append(
                f"prefill.engine.{key} and decode.engine.{key}: found {left} and {right}, wanted the "
                f"same in both; set it once as engine.{key}"
            )
    return faults


def _cache_faults(settings: Settings) -> list[str]:
    """vLLM needs one block beyond those of the longest prompt, or refuses to start."""
    faults = []
    for tier in settings.tiers:
        engine = settings.engine_of(tier)
        least = -(-engine.max_model_len // engine.block_size) + 1
        if engine.gpu_blocks is not None and engine.gpu_blocks < least:
            faults.append(
                f"engine.gpuBlocks ({tier}): found {engine.gpu_blocks}, wanted at least {least} for "
                f"engine.maxModelLen {engine.max_model_len} in blocks of {engine.block_size}"
            )
    return faults


def _probe_faults(settings: Settings) -> list[str]:
    """The probe's prompt must fill a block, or nothing is transferred, and must fit the model."""
    tokens, answer = settings.gate.prompt_tokens, settings.gate.answer_tokens
    faults = []
    for tier in settings.tiers:
        engine = settings.engine_of(tier)
        if tokens <= engine.block_size:
            faults.append(
                f"gate.promptTokens: found {tokens}, wanted more than one KV block "
                f"(engine.blockSize {engine.block_size}): a shorter prompt moves nothing"
            )
        if tokens + answer > engine.max_model_len:
            faults.append(
                f"gate.promptTokens: found {tokens} (+ {answer} for the answer), wanted at most "
                f"{engine.max_model_len - answer} (engine.maxModelLen {engine.max_model_len})"
            )
    return list(dict.fromkeys(faults))


def _fault(detail: ErrorDetails) -> str:
    """One pydantic error as: key: found, wanted."""
    path = [str(part) for part in detail["loc"] if str(part) not in ("literal['auto','off']", "constrained-int")]
    key = ".".join(path)
    kind, found = detail["type"], detail["input"]
    if kind == "extra_forbidden":
        return f"{key}: no such setting{_nearest(path)}"
    if kind == "missing":
        return f"{key}: missing; it has no default"
    message = detail["msg"].removeprefix("Value error, ")
    if kind == "value_error":
        return f"{key}: {message}"
    return f"{key}: found {found!r}; {message[0].lower()}{message[1:]}"


def _nearest(path: list[str]) -> str:
    """The known keys beside a misspelt one, the nearest first."""
    section: type[BaseModel] = Settings
    for part in path[:-1]:
        field = next((f for f in section.model_fields.values() if f.alias == part), None)
        found = field and _section_of(field.annotation)
        if not found:
            return ""
        section = found
    known = [field.alias or name for name, field in section.model_fields.items()]
    close = difflib.get_close_matches(path[-1], known, n=1, cutoff=0.5)
    return f"; did you mean `{close[0]}`?" if close else f"; known here: {', '.join(known)}"


def _section_of(annotation: Any) -> type[BaseModel] | None:
    for candidate in (annotation, *get_args(annotation)):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None
