"""A release: everything one generation serves, rendered once and never rendered again.

The id is the hash of the rendered pods and of what the gate expects of them. The ledger keeps the
rendered pods, so that the live release is declared from what was proved, not from what a newer
version of this program would render.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import Any

from components.gateway.packed import packed
from components.hardware.geometry import groups_to_json
from components.release.expectation import Expectation, whole_numbers
from components.serving.chat import chat_files
from components.serving.connectors.measurement import NOT_BETWEEN_TIERS
from components.serving.connectors.nixl import PULL
from components.serving.connectors.profiles import measurement
from components.serving.connectors.transfer_config import chosen_for
from components.serving.encoder import encoder_pod
from components.serving.engine import engine_pod
from components.serving.gateway import PROGRAM_FILE, gateway_pod
from components.serving.groups import Group, rendered_groups
from components.serving.release_files import encoded
from components.serving.render import render_pod
from components.serving.router import router_pod
from components.serving.spec import ENCODER, NOT_ENGINES, RENDER, ROUTER, TIERS, ServingSpec

ID_LENGTH = 10


@dataclass(frozen=True)
class Release:
    """`pods` maps each tier (engines, render and router) to its rendered pod specification, `files` what
    they mount from the release, base64."""

    id: str
    note: str
    expectation: Expectation
    pods: dict[str, dict[str, Any]]
    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By tier, the node generation that it was proved on; empty where the platform makes no nodes."""
    annotations: dict[str, str] = field(default_factory=dict)
    """On the pods of every tier."""
    files: dict[str, str] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)
    """By engine tier whose engines are groups of pods, what makes them so; `pods` has their leaders."""

    @property
    def engine_tiers(self) -> tuple[str, ...]:
        return tuple(tier for tier in self.pods if tier not in NOT_ENGINES)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(content: dict[str, Any]) -> Release:
        return Release(
            id=content["id"],
            note=content["note"],
            expectation=Expectation.from_json(content["expectation"]),
            pods=whole_numbers(content["pods"]),
            nodes=whole_numbers(content.get("nodes") or {}),
            annotations=content.get("annotations") or {},
            files=content.get("files") or {},
            groups=whole_numbers(content.get("groups") or {}),
        )


def build_release(serving: ServingSpec) -> Release:
    """Render every pod of a specification and give the result its id."""
    expectation = expectation_of(serving)
    pods, files = rendered_pods(serving), release_files(serving)
    groups = rendered_groups(serving, pods)
    nodes = {tier: dict(generation) for tier, generation in serving.nodes.items()}
    content = {
        "pods": pods,
        "expectation": {key: value for key, value in asdict(expectation).items() if value is not None},
        "model": serving.model.digest,
        "note": serving.note,
        **({"nodes": nodes} if nodes else {}),
        **({"files": files} if files else {}),
        **({"groups": groups} if groups else {}),
    }
    return Release(
        release_id(content), serving.note, expectation, pods, nodes, dict(serving.annotations), files, groups
    )


def expectation_of(serving: ServingSpec) -> Expectation:
    engine = serving.tiers[TIERS[serving.topology][-1]].engine
    return Expectation(
        topology=serving.topology,
        model=serving.model.name,
        engine_port=engine.port,
        router_port=serving.router.port,
        block_size=engine.block_size,
        max_model_len=engine.max_model_len,
        vocabulary=serving.model.geometry.vocabulary,
        kv_dtype=engine.dtype if engine.kv_cache_dtype == "auto" else engine.kv_cache_dtype,
        tensor_parallel=engine.tensor_parallel,
        layer_groups=groups_to_json(serving.model.geometry.groups),
        render_port=serving.render.port if serving.render else None,
        encoder=serving.encoder.connector if serving.encoder else None,
        api_key_secret=serving.render.gateway.api_key_secret if serving.render else None,
        measurement=_measurement(serving),
    )


def _measurement(serving: ServingSpec) -> dict[str, Any] | None:
    found = measurement(chosen_for(serving, TIERS[serving.topology][-1]), serving.topology)
    if found in (PULL.measurement, NOT_BETWEEN_TIERS):
        return None
    port = {"bootstrapPort": serving.tiers["prefill"].engine.side_channel_port} if found.bootstrap else {}
    return found.to_json() | port


def rendered_pods(serving: ServingSpec) -> dict[str, dict[str, Any]]:
    """By tier; with a render tier the gateway is the router."""
    engines = {tier: engine_pod(serving, tier) for tier in TIERS[serving.topology]}
    if serving.encoder:
        engines |= {ENCODER: encoder_pod(serving, serving.encoder)}
    if serving.render:
        return engines | {RENDER: render_pod(serving, serving.render), ROUTER: gateway_pod(serving, serving.render)}
    return engines | {ROUTER: router_pod(serving)}


def release_files(serving: ServingSpec) -> dict[str, str]:
    """What pods mount from the release, base64."""
    program = {PROGRAM_FILE: packed()} if serving.render else {}
    return encoded({**program, **chat_files(serving)})


def release_id(content: dict[str, Any]) -> str:
    """The first characters of the hash of the canonical JSON."""
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:ID_LENGTH]
