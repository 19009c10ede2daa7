"""From settings to the serving specification that a release is rendered from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from components.nodes.device_claim import template_name
from components.nodes.names import EFA_RESOURCE, GPU_RESOURCE
from components.serving.labels import IMAGE_EFA
from components.serving.spec import (
    ENCODER,
    RENDER,
    ROUTER,
    TIERS,
    ChatSpec,
    DeviceClaims,
    EncoderSpec,
    EngineSpec,
    GatewaySpec,
    ModelSpec,
    RenderSpec,
    ResourceSpec,
    RouterSpec,
    ServingSpec,
    SharedFolder,
    TierSpec,
)
from infra.node_generations import node_generations, placements
from infra.plan import Plan
from infra.schema.serving import Resources
from infra.settings import Settings

CLOCKS_S = 60
"""What nodes' clocks may differ by, and the sweeper's period."""


def serving_spec(plan: Plan, model: ModelSpec, image: str, template: str | None = None) -> ServingSpec:
    """Every tier of the topology with its overrides merged; `image` is the resolved vLLM image, `template`
    the text of the chat template that the settings name."""
    settings, router = plan.settings, plan.settings.router
    return ServingSpec(
        topology=settings.topology,
        image=image,
        model=model,
        connector=settings.connector.name,
        connector_backend=plan.backend,
        connector_parts=settings.connector.chosen,
        load_failure_policy=settings.connector.load_failure_policy,
        tiers={tier: _tier(plan, tier) for tier in TIERS[settings.topology]},
        router=RouterSpec(
            image=router.image or image,
            port=router.port,
            metrics_port=router.metrics_port,
            policy=router.policy,
            resources=_resources(router.resources),
            drain_s=router.drain_s,
        ),
        placement=placements(plan),
        note=settings.note,
        chat=ChatSpec(template, settings.chat.tool_parser, settings.chat.reasoning_parser),
        render=_render(settings, image) if settings.render.replicas else None,
        encoder=_encoder(plan, image) if settings.encoder.replicas else None,
        nodes={tier: generation.to_json() for tier, generation in node_generations(plan).items()},
        annotations={IMAGE_EFA: "true"} if settings.image_contents.efa else {},
    )


def replicas(settings: Settings, found: Mapping[str, int]) -> dict[str, int]:
    """Full size of every tier there is: capacity, which is no part of a release.

    Of tiers that the settings don't have any more the live release keeps what it was `found` with, until
    the traffic has moved.
    """
    asked = {
        "prefill": settings.prefill.replicas,
        "decode": settings.decode.replicas,
        "collocated": settings.collocated.replicas,
        ROUTER: settings.router.replicas,
        RENDER: settings.render.replicas,
        ENCODER: settings.encoder.replicas,
    }
    beside = {RENDER: settings.render.replicas, ENCODER: settings.encoder.replicas}
    wanted = {*settings.tiers, ROUTER, *(tier for tier, count in beside.items() if count)}
    return {tier: count if tier in wanted else found.get(tier) or max(count, 1) for tier, count in asked.items()}


def _tier(plan: Plan, name: str) -> TierSpec:
    settings = plan.settings
    tier, engine = settings.tiers[name], settings.engine_of(name)
    return TierSpec(
        engine=EngineSpec(
            dtype=engine.dtype,
            block_size=engine.block_size,
            max_model_len=engine.max_model_len,
            gpu_blocks=engine.gpu_blocks,
            enforce_eager=engine.enforce_eager,
            port=engine.port,
            side_channel_port=engine.side_channel_port,
            kv_cache_dtype=engine.kv_cache_dtype,
            attention_backend=engine.attention_backend,
            gpu_memory_utilization=_chosen_utilization(settings),
            sse_keep_alive_s=engine.sse_keep_alive_s,
            tensor_parallel=engine.parallel.tensor,
            pipeline_parallel=engine.parallel.pipeline,
            data_parallel=engine.parallel.data,
            expert_parallel=engine.parallel.expert,
            all_to_all=engine.parallel.all_to_all,
            nodes=engine.parallel.nodes,
            master_port=engine.master_port,
            data_rpc_port=engine.data_rpc_port,
        ),
        resources=_engine_resources(settings, name),
        environment={**engine.environment, **tier.environment},
        extra_args=tuple(tier.extra_args),
        load_limit_s=plan.load_limit_s,
        drain_s=tier.drain_s,
        image=tier.image,
        connector_options={**settings.connector.options, **tier.connector_options},
        rack_label=tier.rack_label,
    )


def _render(settings: Settings, image: str) -> RenderSpec:
    render = settings.render
    return RenderSpec(
        image=render.image or image,
        port=render.port,
        workers=render.workers,
        resources=_resources(render.resources),
        environment=render.environment,
        extra_args=tuple(render.extra_args),
        start_limit_s=render.start_limit_s,
        gateway=_gateway(settings),
    )


def _encoder(plan: Plan, image: str) -> EncoderSpec:
    encoder, settings = plan.settings.encoder, plan.settings
    folder = encoder.folder
    return EncoderSpec(
        image=encoder.image or image,
        connector=encoder.connector,
        side_channel_port=encoder.side_channel_port,
        cpu_gib=encoder.cpu_gib,
        resources=_with_claims(settings, encoder.resources or settings.engine.resources),
        environment={**settings.engine.environment, **encoder.environment},
        extra_args=tuple(encoder.extra_args),
        load_limit_s=plan.load_limit_s,
        drain_s=encoder.drain_s,
        keep_s=int(encoder.reuse_s + settings.gateway.request_limit_s) + CLOCKS_S,
        folder=SharedFolder(folder.node, folder.claim) if folder else None,
    )


def _encode_arguments(settings: Settings) -> dict[str, str]:
    """The gateway's flags with an encoder tier; a folder's embeddings are each written once."""
    encoder = settings.encoder
    if not encoder.replicas:
        return {}
    reuse_s = encoder.reuse_s if encoder.connector == "folder" else 0
    return {"--encode-limit-s": f"{encoder.limit_s:g}", "--embedding-reuse-s": f"{reuse_s:g}"}


def _gateway(settings: Settings) -> GatewaySpec:
    limits = settings.gateway
    return GatewaySpec(
        arguments={
            "--model": settings.model.name,
            "--max-in-flight": str(limits.max_in_flight),
            "--max-queued": str(limits.max_queued),
            "--queue-limit-s": f"{limits.queue_limit_s:g}",
            "--body-limit-bytes": str(limits.body_limit_mib << 20),
            "--connection-limit": str(limits.connection_limit),
            "--request-limit-s": f"{limits.request_limit_s:g}",
            "--prefill-limit-s": f"{limits.prefill_limit_s:g}",
            "--prefill-policy": limits.prefill_policy,
            **_encode_arguments(settings),
        },
        api_key_secret=settings.edge.api_key_secret,
    )


def _chosen_utilization(settings: Settings) -> float | None:
    """The share of GPU memory where the stack file sets one; else vLLM's own default holds."""
    chosen = "gpu_memory_utilization" in settings.engine.model_fields_set
    return settings.engine.gpu_memory_utilization if chosen else None


def _engine_resources(settings: Settings, tier: str) -> ResourceSpec:
    """With claims in place of GPUs and EFA where DRA hands them out."""
    return _with_claims(settings, settings.resources_of(tier))


def _with_claims(settings: Settings, resources: Resources) -> ResourceSpec:
    found = _resources(resources)
    gpus, efas = (int(found.extended.get(name, 0)) for name in (GPU_RESOURCE, EFA_RESOURCE))
    if settings.platform.node_software.devices != "dra" or not gpus:
        return found
    left = {name: count for name, count in found.extended.items() if name not in (GPU_RESOURCE, EFA_RESOURCE)}
    return replace(found, extended=left, claims=DeviceClaims(template_name(efas // gpus), gpus))


def _resources(resources: Resources) -> ResourceSpec:
    return ResourceSpec(
        cpu=resources.cpu,
        memory=resources.memory,
        cpu_limit=resources.cpu_limit,
        shm=resources.shm,
        extended=resources.extended,
    )
