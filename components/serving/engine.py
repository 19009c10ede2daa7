"""Render the pod of a vLLM engine: prefill, decode or collocated. Pure; no Pulumi.

The release's id is no part of the pod: containers read it from their own labels, so that the id can
be the hash of what is rendered here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from components.serving import model_mount, pod, release_files
from components.serving.chat import chat_arguments, chat_mounts
from components.serving.command_line import words
from components.serving.connectors.environment import connector_environment
from components.serving.connectors.transfer_config import transfer_config
from components.serving.encoder_connectors.profiles import (
    encoder_arguments,
    encoder_environment,
    encoder_mounts,
    encoder_volumes,
)
from components.serving.group_nodes import node_arguments, node_environment, node_ports
from components.serving.spec import EngineSpec, EngineTier, ServingSpec

STARTUP_PERIOD_S = 2
WARM_UP_MARGIN_S = 65
"""For the last request, begun just before the limit."""
PRESTOP_S = 5
"""Time for endpoints to forget a pod before it is told to stop."""
KILL_MARGIN_S = 15
"""What a drained vLLM still needs to end (worker shutdown 5 s, vllm 0.32 `envs.py`)."""


def engine_pod(serving: ServingSpec, tier: EngineTier) -> dict[str, Any]:
    """The pod template's `spec` for one engine tier."""
    spec = serving.tiers[tier]
    container = {
        "name": "vllm",
        "image": spec.image or serving.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-m", "vllm.entrypoints.cli.main", "serve", model_mount.argument(serving)],
        "args": engine_arguments(serving, tier),
        "env": _environment(serving, tier),
        "ports": [
            {"name": "http", "containerPort": spec.engine.port},
            {"name": "side-channel", "containerPort": spec.engine.side_channel_port},
            *node_ports(spec.engine),
        ],
        "lifecycle": {"preStop": {"sleep": {"seconds": PRESTOP_S}}},
        "resources": pod.resources(spec.resources),
        "securityContext": pod.security_context(lock_memory=serving.placement[tier].lock_memory),
        "volumeMounts": [
            *pod.SCRATCH_MOUNTS,
            *model_mount.mounts(serving),
            *chat_mounts(serving),
            *encoder_mounts(serving, tier),
        ],
        **startup_and_health(serving, spec.engine.port, spec.load_limit_s),
    }
    rendered = pod.pod_spec(
        serving.placement[tier],
        container,
        volumes=[
            *pod.scratch_volumes(spec.resources.shm),
            *model_mount.volumes(serving),
            *release_files.volumes(container),
            *encoder_volumes(serving, tier),
        ],
        grace_s=PRESTOP_S + spec.drain_s + KILL_MARGIN_S,
    )
    return rendered | pod.resource_claims(spec.resources.claims)


def engine_arguments(serving: ServingSpec, tier: EngineTier) -> list[str]:
    """vLLM's command-line arguments; the user's own come last and so win."""
    spec = serving.tiers[tier]
    engine = spec.engine
    arguments = {
        "--served-model-name": serving.model.name,
        "--port": str(engine.port),
        "--dtype": engine.dtype,
        "--block-size": str(engine.block_size),
        "--max-model-len": str(engine.max_model_len),
        # vLLM's default of 0 kills a prefiller at once, with KV that nobody has read yet.
        "--shutdown-timeout": str(spec.drain_s),
    }
    arguments |= {flag: value for flag, value in _chosen_arguments(serving, engine).items() if value}
    if config := transfer_config(serving, tier):
        arguments["--kv-transfer-config"] = config
    arguments |= node_arguments(engine)
    flags = ["--enforce-eager"] if engine.enforce_eager else []
    if engine.expert_parallel:
        flags.append("--enable-expert-parallel")
    if serving.render:
        # Requests and answers as tokens, which are refused without it.
        flags.append("--enable-scale-out")
    return [*words(arguments), *flags, *encoder_arguments(serving, tier), *chat_arguments(serving), *spec.extra_args]


def _chosen_arguments(serving: ServingSpec, engine: EngineSpec) -> dict[str, str]:
    """Arguments that are left out where vLLM's own choice is wanted: empty then."""

    def more_than_one(count: int) -> str:
        return str(count) if count > 1 else ""

    return {
        "--num-gpu-blocks-override": str(engine.gpu_blocks or ""),
        "--revision": serving.model.source.revision or "",
        "--kv-cache-dtype": "" if engine.kv_cache_dtype == "auto" else engine.kv_cache_dtype,
        "--attention-backend": engine.attention_backend or "",
        "--gpu-memory-utilization": str(engine.gpu_memory_utilization or ""),
        "--sse-keep-alive-interval": str(engine.sse_keep_alive_s or ""),
        "--tensor-parallel-size": more_than_one(engine.tensor_parallel),
        "--pipeline-parallel-size": more_than_one(engine.pipeline_parallel),
        "--data-parallel-size": more_than_one(engine.data_parallel),
        "--all2all-backend": engine.all_to_all or "",
    }


def _environment(serving: ServingSpec, tier: EngineTier) -> list[dict[str, Any]]:
    own = [
        *connector_environment(serving, tier),
        *encoder_environment(serving, tier),
        *node_environment(serving.tiers[tier].engine),
        *pod.HOME,
        *model_mount.download_environment(serving.model.source),
    ]
    return [*own, *pod.environment(serving.tiers[tier].environment)]


def startup_and_health(serving: ServingSpec, port: int, limit_s: int) -> dict[str, Any]:
    """Started: one request was answered. Ready and alive: vLLM's own /health, which it serves from then on."""
    health = {"httpGet": {"path": "/health", "port": "http"}, "timeoutSeconds": 5}
    source = Path(__file__).with_name("warm_up.py").read_text()
    return {
        # One try that waits by itself.
        "startupProbe": {
            "exec": {"command": ["python3", "-I", "-S", "-c", source, str(port), serving.model.name, str(limit_s)]},
            "timeoutSeconds": limit_s + WARM_UP_MARGIN_S,
            "periodSeconds": STARTUP_PERIOD_S,
            "failureThreshold": 1,
        },
        "readinessProbe": {**health, "periodSeconds": 5, "failureThreshold": 3},
        # A minute of misses: a long prefill on few cores delays answers, and a restart loses its KV.
        "livenessProbe": {**health, "periodSeconds": 10, "failureThreshold": 6},
    }
