"""Render the pod of a vLLM engine: prefill, decode or collocated. Pure; no Pulumi.

The release's id is no part of the pod: containers read it from their own labels, so that the id can
be the hash of what is rendered here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from components.serving import pod
from components.serving.connector import transfer_config
from components.serving.spec import EngineSpec, EngineTier, ModelSource, ServingSpec, TierSpec

STARTUP_PERIOD_S = 2
WARM_UP_MARGIN_S = 65
"""For the last request, begun just before the limit."""
MODEL_MOUNT = "/models"
CACHE_MOUNT = "/cache"
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
        "command": ["python3", "-m", "vllm.entrypoints.cli.main", "serve", model_argument(serving)],
        "args": engine_arguments(serving, tier),
        "env": _environment(spec, serving.model.source),
        "ports": [
            {"name": "http", "containerPort": spec.engine.port},
            {"name": "side-channel", "containerPort": spec.engine.side_channel_port},
        ],
        "lifecycle": {"preStop": {"sleep": {"seconds": PRESTOP_S}}},
        "resources": pod.resources(spec.resources),
        "securityContext": pod.security_context(lock_memory=serving.placement[tier].lock_memory),
        "volumeMounts": [*pod.SCRATCH_MOUNTS, *_model_mounts(serving)],
        **_probes(serving, spec),
    }
    rendered = pod.pod_spec(
        serving.placement[tier],
        container,
        volumes=[*pod.scratch_volumes(spec.resources.shm), *_model_volumes(serving)],
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
    flags = ["--enforce-eager"] if engine.enforce_eager else []
    return [*(part for pair in arguments.items() for part in pair), *flags, *spec.extra_args]


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
    }


def model_argument(serving: ServingSpec) -> str:
    """What vLLM is told to load: a folder in the pod or a Hugging Face name.

    Both tiers get the same words: NIXL's handshake compares them (vllm 0.32 NIXL `metadata.py`).
    """
    source = serving.model.source
    if source.repository:
        return source.repository
    if source.folder:
        return f"{MODEL_MOUNT}/{serving.model.name}"
    return f"{MODEL_MOUNT}/{source.claim_path}".rstrip("/")


def _environment(spec: TierSpec, source: ModelSource) -> list[dict[str, Any]]:
    own = [
        # Both the address that is bound and the one that is advertised to peers.
        {"name": "VLLM_NIXL_SIDE_CHANNEL_HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "VLLM_NIXL_SIDE_CHANNEL_PORT", "value": str(spec.engine.side_channel_port)},
        *pod.HOME,
        *_download_environment(source),
    ]
    return [*own, *({"name": name, "value": value} for name, value in sorted(spec.environment.items()))]


def _download_environment(source: ModelSource) -> list[dict[str, Any]]:
    """huggingface_hub's own variables: the token for gated models, the folder of its cache."""
    token = {"secretKeyRef": {"name": source.token_secret, "key": "token"}}
    return [
        *([{"name": "HF_TOKEN", "valueFrom": token}] if source.token_secret else []),
        *([{"name": "HF_HOME", "value": CACHE_MOUNT}] if source.cache else []),
    ]


def _probes(serving: ServingSpec, spec: TierSpec) -> dict[str, Any]:
    """Started: one request was answered. Ready and alive: vLLM's own /health, which it serves from then on."""
    health = {"httpGet": {"path": "/health", "port": "http"}, "timeoutSeconds": 5}
    source = Path(__file__).with_name("warm_up.py").read_text()
    port, limit_s = str(spec.engine.port), spec.load_limit_s
    return {
        # One try that waits by itself.
        "startupProbe": {
            "exec": {"command": ["python3", "-I", "-S", "-c", source, port, serving.model.name, str(limit_s)]},
            "timeoutSeconds": limit_s + WARM_UP_MARGIN_S,
            "periodSeconds": STARTUP_PERIOD_S,
            "failureThreshold": 1,
        },
        "readinessProbe": {**health, "periodSeconds": 5, "failureThreshold": 3},
        # A minute of misses: a long prefill on few cores delays answers, and a restart loses its KV.
        "livenessProbe": {**health, "periodSeconds": 10, "failureThreshold": 6},
    }


def _model_volumes(serving: ServingSpec) -> list[dict[str, Any]]:
    source = serving.model.source
    if source.folder:
        return [{"name": "model", "hostPath": {"path": source.folder, "type": "Directory"}}]
    if source.claim:
        return [{"name": "model", "persistentVolumeClaim": {"claimName": source.claim, "readOnly": True}}]
    if source.cache:
        return [{"name": "model", "hostPath": {"path": source.cache, "type": "DirectoryOrCreate"}}]
    return []


def _model_mounts(serving: ServingSpec) -> list[dict[str, Any]]:
    source = serving.model.source
    if source.folder:
        return [{"name": "model", "mountPath": f"{MODEL_MOUNT}/{serving.model.name}", "readOnly": True}]
    if source.claim:
        return [{"name": "model", "mountPath": MODEL_MOUNT, "readOnly": True}]
    if source.cache:
        return [{"name": "model", "mountPath": CACHE_MOUNT}]
    return []
