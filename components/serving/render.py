"""Render the pod of the render tier: chat requests to tokens, tokens to answers, on CPUs. Pure.

`vllm launch render` takes the arguments of `vllm serve` and runs no engine (vllm 0.32
`entrypoints/launchers/render/entry.py`). It keeps no state, so any pod may go on with any stream.
"""

from __future__ import annotations

from typing import Any

from components.serving import model_mount, pod, release_files
from components.serving.chat import chat_arguments, chat_mounts
from components.serving.command_line import as_engines, words
from components.serving.engine import KILL_MARGIN_S
from components.serving.spec import RENDER, RenderSpec, ServingSpec

PRESTOP_S = 10
"""It ends at once when told to (vllm 0.32 `entrypoints/launchers/launcher.py`): time for the gateway to
forget it, and for what it has begun, which takes milliseconds."""
START_PERIOD_S = 2


def render_pod(serving: ServingSpec, render: RenderSpec) -> dict[str, Any]:
    """The pod template's `spec`."""
    container = {
        "name": "render",
        "image": render.image,
        "imagePullPolicy": "IfNotPresent",
        "command": [
            *("python3", "-m", "vllm.entrypoints.cli.main", "launch", "render"),
            model_mount.argument(serving),
        ],
        "args": render_arguments(serving, render),
        "env": [
            *pod.HOME,
            *model_mount.download_environment(serving.model.source),
            *pod.environment(render.environment),
        ],
        "ports": [{"name": "http", "containerPort": render.port}],
        "lifecycle": {"preStop": {"sleep": {"seconds": PRESTOP_S}}},
        "resources": pod.resources(render.resources),
        "securityContext": pod.SECURITY_CONTEXT,
        "volumeMounts": [*pod.SCRATCH_MOUNTS, *model_mount.mounts(serving), *chat_mounts(serving)],
        **_probes(render),
    }
    volumes = [
        *pod.scratch_volumes(render.resources.shm),
        *model_mount.volumes(serving),
        *release_files.volumes(container),
    ]
    return pod.pod_spec(serving.placement[RENDER], container, volumes, grace_s=PRESTOP_S + KILL_MARGIN_S)


def render_arguments(serving: ServingSpec, render: RenderSpec) -> list[str]:
    """The engines' own words for everything that decides what a prompt becomes."""
    arguments = as_engines(serving, render.port, {"--renderer-num-workers": str(render.workers)})
    return [*words(arguments), *chat_arguments(serving), *render.extra_args]


def _probes(render: RenderSpec) -> dict[str, Any]:
    """Its /health answers as soon as it listens, which is when tokenizer and template are loaded."""
    health = {"httpGet": {"path": "/health", "port": "http"}, "timeoutSeconds": 5}
    return {
        "startupProbe": {
            **health,
            "periodSeconds": START_PERIOD_S,
            "failureThreshold": -(-render.start_limit_s // START_PERIOD_S),
        },
        "readinessProbe": {**health, "periodSeconds": 5, "failureThreshold": 3},
        "livenessProbe": {**health, "periodSeconds": 10, "failureThreshold": 6},
    }
