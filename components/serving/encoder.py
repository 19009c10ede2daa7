"""Render the pod of the encoder tier: vLLM that runs the model's vision and audio encoders alone. Pure.

Its role in `--ec-transfer-config` makes it so: no KV cache, no language model in a step (vllm 0.32 `config/vllm.py`
`_resolve_mm_encoder_only`, `v1/worker/gpu_model_runner.py` `get_kv_cache_spec`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from components.serving import model_mount, pod
from components.serving.command_line import as_engines, first_engine, words
from components.serving.encoder_connectors.folder import OWN
from components.serving.encoder_connectors.profiles import (
    encoder_arguments,
    encoder_environment,
    encoder_mounts,
    encoder_volumes,
)
from components.serving.engine import KILL_MARGIN_S, PRESTOP_S, startup_and_health
from components.serving.spec import ENCODER, EncoderSpec, ResourceSpec, ServingSpec

SWEEPER = ResourceSpec(cpu="10m", memory="64Mi")


def encoder_pod(serving: ServingSpec, encoder: EncoderSpec) -> dict[str, Any]:
    """The pod template's `spec`."""
    volumes = encoder_volumes(serving, ENCODER)
    rendered = pod.pod_spec(
        serving.placement[ENCODER],
        _container(serving, encoder),
        volumes=[*pod.scratch_volumes(encoder.resources.shm), *model_mount.volumes(serving), *volumes],
        grace_s=PRESTOP_S + encoder.drain_s + KILL_MARGIN_S,
    )
    if volumes:
        rendered["containers"].append(_sweeper(serving, encoder))
    return rendered | pod.resource_claims(encoder.resources.claims)


def encoder_vllm_arguments(serving: ServingSpec, encoder: EncoderSpec) -> list[str]:
    """vLLM's arguments: the engines' own words where an embedding depends on them; the user's come last."""
    engine = first_engine(serving)
    arguments = as_engines(serving, engine.port, {"--shutdown-timeout": str(encoder.drain_s)})
    if engine.gpu_memory_utilization:
        arguments["--gpu-memory-utilization"] = str(engine.gpu_memory_utilization)
    flags = [*(["--enforce-eager"] if engine.enforce_eager else []), "--enable-scale-out"]
    return [*words(arguments), *flags, *encoder_arguments(serving, ENCODER), *encoder.extra_args]


def _container(serving: ServingSpec, encoder: EncoderSpec) -> dict[str, Any]:
    return {
        "name": "vllm",
        "image": encoder.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-m", "vllm.entrypoints.cli.main", "serve", model_mount.argument(serving)],
        "args": encoder_vllm_arguments(serving, encoder),
        "env": [
            *encoder_environment(serving, ENCODER),
            *pod.HOME,
            *model_mount.download_environment(serving.model.source),
            *pod.environment(encoder.environment),
        ],
        "ports": [
            {"name": "http", "containerPort": first_engine(serving).port},
            {"name": "side-channel", "containerPort": encoder.side_channel_port},
        ],
        "lifecycle": {"preStop": {"sleep": {"seconds": PRESTOP_S}}},
        "resources": pod.resources(encoder.resources),
        "securityContext": pod.security_context(lock_memory=serving.placement[ENCODER].lock_memory),
        "volumeMounts": [*pod.SCRATCH_MOUNTS, *model_mount.mounts(serving), *encoder_mounts(serving, ENCODER)],
        **startup_and_health(serving, first_engine(serving).port, encoder.load_limit_s),
    }


def _sweeper(serving: ServingSpec, encoder: EncoderSpec) -> dict[str, Any]:
    source = Path(__file__).with_name("encoder_sweep.py").read_text()
    return {
        "name": "sweeper",
        "image": encoder.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-I", "-S", "-c", source, OWN, str(encoder.keep_s)],
        "resources": pod.resources(SWEEPER),
        "securityContext": pod.SECURITY_CONTEXT,
        "volumeMounts": encoder_mounts(serving, ENCODER),
    }
