"""The Job of one run: the engines' image and place, without their accelerators. Pure."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from components.bench.generator import RESULT
from components.bench.in_pod import KEY_VARIABLE
from components.serving.labels import MANAGED_BY
from components.serving.pod import HOME

LABEL = "splitserve.dev/bench-of"
"""Not the release's own label: routers and Services must never find a load generator."""
FORGET_AFTER_S = 600
"""The cluster removes the Job of a benchmark that was killed."""
RESOURCES = {
    # vLLM's imports take 1.1 GB; prompts and results of a run come on top.
    "requests": {"cpu": "100m", "memory": "1280Mi"},
    "limits": {"memory": "4Gi"},
}
PASSED_ON = ("HF_TOKEN", "HF_HOME", "HF_ENDPOINT", "VLLM_USE_MODELSCOPE")
"""What an engine's environment says of where a tokenizer is downloaded from, for a model without a folder."""
OFFLINE = [{"name": "HF_HUB_OFFLINE", "value": "1"}, {"name": "TRANSFORMERS_OFFLINE", "value": "1"}]


def selector(release_id: str) -> str:
    return f"{LABEL}={release_id}"


def job(name: str, release_id: str, engine_pod: dict[str, Any], command: list[str], limit_s: int,
        key_secret: tuple[str, str] | None = None) -> dict[str, Any]:  # fmt: skip
    """`command` is the generator's; `key_secret` names the Secret and key of the clients' API key.

    On the engines' nodes, since they have the image (ten gigabytes and more) and cores to spare.
    """
    labels = {**MANAGED_BY, "app.kubernetes.io/component": "bench", LABEL: release_id}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": limit_s,
            "ttlSecondsAfterFinished": FORGET_AFTER_S,
            "template": {"metadata": {"labels": labels}, "spec": _pod(engine_pod, command, key_secret)},
        },
    }


def _pod(engine_pod: dict[str, Any], command: list[str], key_secret: tuple[str, str] | None) -> dict[str, Any]:
    engine = engine_pod["containers"][0]
    source = Path(__file__).with_name("in_pod.py").read_text()
    mounts = [mount for mount in engine.get("volumeMounts", []) if mount["name"] in ("model", "scratch")]
    names = {mount["name"] for mount in mounts}
    container = {
        "name": "bench",
        "image": engine["image"],
        "imagePullPolicy": engine["imagePullPolicy"],
        "command": ["python3", "-I", "-S", "-c", source, RESULT, *command],
        "env": _environment(engine, command, key_secret),
        "resources": RESOURCES,
        "securityContext": _without_memory_lock(engine["securityContext"]),
        "volumeMounts": mounts,
    }
    kept = ("nodeSelector", "tolerations", "securityContext", "enableServiceLinks", "automountServiceAccountToken")
    return {
        **{key: engine_pod[key] for key in kept if key in engine_pod},
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
        "volumes": [volume for volume in engine_pod.get("volumes", []) if volume["name"] in names],
    }


def _environment(engine: dict[str, Any], command: list[str],
                 key_secret: tuple[str, str] | None) -> list[dict[str, Any]]:  # fmt: skip
    passed_on = [variable for variable in engine.get("env", []) if variable["name"] in PASSED_ON]
    in_pod = command[command.index("--tokenizer") + 1].startswith("/")
    # The generator's HTTP client obeys an image's proxy variables, and no proxy knows a Service's address.
    service = str(urlsplit(command[command.index("--base-url") + 1]).hostname)
    return [
        *HOME,
        *passed_on,
        *(OFFLINE if in_pod else []),
        *({"name": name, "value": service} for name in ("NO_PROXY", "no_proxy")),
        {"name": "VLLM_NO_USAGE_STATS", "value": "1"},
        {"name": "OMP_NUM_THREADS", "value": "1"},
        *([_key(*key_secret)] if key_secret else []),
    ]


def _key(secret: str, key: str) -> dict[str, Any]:
    """vLLM's generator sends this variable as a bearer token; the key itself is in no manifest."""
    return {"name": KEY_VARIABLE, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}


def _without_memory_lock(context: dict[str, Any]) -> dict[str, Any]:
    """An engine may be allowed to lock memory for RDMA; a load generator need not."""
    return {**context, "capabilities": {"drop": ["ALL"]}}
