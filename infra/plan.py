"""What one stack file means: settings, the model's facts, the hardware of each tier, expected times.

Pure. Everything that rules and the preview's summary need is computed here once; what can't be known
is None, never a guess.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from components.hardware.catalogue import UnknownInstance, instance
from components.hardware.expected import Expected, expected
from components.hardware.geometry import Geometry, GeometryFault, Stated
from components.hardware.instance import Instance
from components.hardware.links import PROFILES, Link, efa_link
from components.hardware.memory import Fit, fit, load_s
from components.hardware.model_config import ModelConfig, ModelUnknown
from components.hardware.read_geometry import read_geometry
from components.hardware.weights import weights_bytes
from infra.schema.serving import Engine
from infra.settings import Settings

GIB = 1 << 30
START_S = 60
"""What an engine needs beside loading: compiling and profiling, an assumption."""
POD_START_S = 300
"""Pulling an image of about 10 GB and mounting volumes, an assumption."""
SHORTEST_LOAD_LIMIT_S = 600
SHORTEST_READY_LIMIT_S = 900


@dataclass(frozen=True)
class TierHardware:
    """The nodes that a tier runs on. `instance` is None off AWS."""

    gpu: str
    gpu_memory_mib: int | None
    gpus_per_node: int
    nodes: int
    instance: Instance | None = None

    @property
    def gpus(self) -> int:
        return self.gpus_per_node * self.nodes


@dataclass(frozen=True)
class Plan:
    """`config` is the model's config.json; `security_groups` are EC2's answers by node group, where
    somebody asked for them."""

    settings: Settings
    config: Mapping[str, Any]
    security_groups: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @cached_property
    def geometry(self) -> Geometry | None:
        """None when config.json doesn't tell; `geometry_faults` says why."""
        stated = self.settings.model.kv_bytes_per_token
        try:
            return read_geometry(self.config)
        except ModelUnknown:
            return _stated_geometry(stated, self.config) if stated else None

    @cached_property
    def geometry_faults(self) -> list[str]:
        try:
            read_geometry(self.config)
        except ModelUnknown as error:
            return error.faults
        return []

    @cached_property
    def weights_bytes(self) -> int | None:
        if self.settings.model.weights_gib:
            return int(self.settings.model.weights_gib * GIB)
        try:
            return weights_bytes(self.config)
        except ModelUnknown:
            return None

    @cached_property
    def load_limit_s(self) -> int:
        """How long a pod may load: as set, or twice what the weights' size and rate make."""
        if self.settings.engine.load_limit_s:
            return self.settings.engine.load_limit_s
        if self.weights_bytes is None or self.settings.platform.kind == "local":
            return SHORTEST_LOAD_LIMIT_S
        needed = load_s(self.weights_bytes, self.settings.model.arrival_gb_per_s) + START_S
        return max(SHORTEST_LOAD_LIMIT_S, int(2 * needed))

    @property
    def ready_limit_s(self) -> int:
        """How long the gate waits for pods: as set, or the loading limit and what starting a pod takes."""
        return self.settings.gate.ready_limit_s or max(SHORTEST_READY_LIMIT_S, self.load_limit_s + POD_START_S)

    @cached_property
    def hardware(self) -> dict[str, TierHardware | None]:
        """By engine tier; None where it isn't stated or the type is unknown."""
        return {tier: self._hardware(tier) for tier in self.settings.tiers}

    def _hardware(self, tier: str) -> TierHardware | None:
        group, stated = self.settings.node_group(tier), self.settings.hardware
        if stated:
            memory = int(stated.gpu_memory_gib * 1024)
            return TierHardware(stated.gpu, memory, stated.gpus_per_node, stated.nodes)
        if group is None:
            return None
        try:
            found = instance(group.instance)
        except UnknownInstance:
            return None
        return TierHardware(found.gpu, found.gpu_memory_mib, found.gpus, group.nodes, found)

    @property
    def on_efa(self) -> bool:
        """Whether prefill and decode both have EFA interfaces."""
        found = [self.hardware.get(tier) for tier in ("prefill", "decode")]
        return all(h is not None and h.instance is not None and h.instance.efa_interfaces for h in found)

    @property
    def backend(self) -> str:
        """NIXL's backend with `auto` resolved: vLLM's default, UCX, reaches no GPU memory over EFA."""
        given = self.settings.connector.backend
        return given if given != "auto" else "LIBFABRIC" if self.on_efa else "UCX"

    @cached_property
    def link(self) -> Link | None:
        """The slower side of the path between the tiers; None where it is unknown."""
        if self.settings.topology != "prefill-decode":
            return None
        if self.settings.hardware:
            return PROFILES[self.settings.hardware.link]
        sides = [h.instance for h in self.hardware.values() if h and h.instance]
        if len(sides) < 2:
            return None
        if not self.on_efa:
            return PROFILES["tcp"]
        return min((efa_link(side, self.backend) for side in sides), key=lambda link: link.effective_gb_per_s)

    def kv_dtype(self, engine: Engine) -> str:
        return engine.dtype if engine.kv_cache_dtype == "auto" else engine.kv_cache_dtype

    def expected(self, tokens: int) -> Expected | None:
        """The transfer of a prompt of `tokens`; None where link or geometry is unknown."""
        if self.link is None or self.geometry is None:
            return None
        engine = self.settings.engine_of("decode")
        try:
            return expected(
                self.geometry, self.link, tokens, engine.block_size, self.kv_dtype(engine), engine.parallel.tensor
            )
        except GeometryFault:
            return None

    def fit(self, tier: str) -> Fit | None:
        """How the model lies in a tier's GPUs; None where something is unknown."""
        hardware, engine = self.hardware[tier], self.settings.engine_of(tier)
        tp = engine.parallel.tensor
        known = hardware and hardware.gpu_memory_mib and self.geometry and self.weights_bytes
        if not known or hardware is None or self.geometry is None or self.geometry.tp_faults(tp):
            return None
        return fit(
            (self.weights_bytes or 0) // engine.parallel.pipeline, self.geometry, hardware.gpu_memory_mib or 0, tp,
            self.kv_dtype(engine), ModelConfig(self.config).integer("hidden_size", 0, least=0), engine.gpu_memory_utilization,
        )  # fmt: skip


def _stated_geometry(bytes_per_token: int, config: Mapping[str, Any]) -> Geometry:
    """A geometry that holds what the stack file states."""

    def number(key: str, default: int) -> int:
        value = config.get(key)
        return value if isinstance(value, int) and value > 0 else default

    group = Stated(number("num_hidden_layers", 1), bytes_per_token)
    return Geometry((group,), number("vocab_size", 0), number("max_position_embeddings", 0))
