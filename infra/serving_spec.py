"""From settings to the serving specification that a release is rendered from."""

from __future__ import annotations

from components.serving.spec import (
    TIERS,
    EngineSpec,
    ModelSpec,
    PodPlacement,
    ResourceSpec,
    RouterSpec,
    ServingSpec,
    TierSpec,
)
from infra.settings import Resources, Settings


def serving_spec(settings: Settings, model: ModelSpec, image: str) -> ServingSpec:
    """Every tier of the topology with its overrides merged; `image` is the resolved vLLM image."""
    router = settings.router
    return ServingSpec(
        topology=settings.topology,
        image=image,
        model=model,
        connector=settings.connector.name,
        connector_backend=settings.connector.backend,
        tiers={tier: _tier(settings, tier) for tier in TIERS[settings.topology]},
        router=RouterSpec(
            image=router.image or image,
            port=router.port,
            metrics_port=router.metrics_port,
            policy=router.policy,
            resources=_resources(router.resources),
            drain_s=router.drain_s,
        ),
        placement=PodPlacement(settings.platform.node_selector, settings.run_as_user),
        note=settings.note,
    )


def replicas(settings: Settings) -> dict[str, int]:
    """Full size of every tier there is: capacity, which is no part of a release.

    All of them, since the live release may have another topology than the configured one.
    """
    return {
        "prefill": settings.prefill.replicas,
        "decode": settings.decode.replicas,
        "collocated": settings.collocated.replicas,
        "router": settings.router.replicas,
    }


def _tier(settings: Settings, name: str) -> TierSpec:
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
        ),
        resources=_resources(tier.resources or engine.resources),
        environment={**engine.environment, **tier.environment},
        extra_args=tuple(tier.extra_args),
        load_limit_s=engine.load_limit_s,
        drain_s=tier.drain_s,
    )


def _resources(resources: Resources) -> ResourceSpec:
    return ResourceSpec(
        cpu=resources.cpu,
        memory=resources.memory,
        cpu_limit=resources.cpu_limit,
        shm=resources.shm,
        extended=resources.extended,
    )
