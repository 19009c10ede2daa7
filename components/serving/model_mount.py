"""Where a pod finds the model: what vLLM is told, the volumes, and the variables of a download. Pure."""

from __future__ import annotations

from typing import Any

from components.serving.spec import ModelSource, ServingSpec

MODEL_MOUNT = "/models"
CACHE_MOUNT = "/cache"


def argument(serving: ServingSpec) -> str:
    """What vLLM is told to load: a folder in the pod or a Hugging Face name.

    Both tiers get the same words: NIXL's handshake compares them (vllm 0.32 NIXL `metadata.py`).
    """
    source = serving.model.source
    if source.repository:
        return source.repository
    if source.folder:
        return f"{MODEL_MOUNT}/{serving.model.name}"
    return f"{MODEL_MOUNT}/{source.claim_path}".rstrip("/")


def download_environment(source: ModelSource) -> list[dict[str, Any]]:
    """huggingface_hub's own variables: the token for gated models, the folder of its cache."""
    token = {"secretKeyRef": {"name": source.token_secret, "key": "token"}}
    return [
        *([{"name": "HF_TOKEN", "valueFrom": token}] if source.token_secret else []),
        *([{"name": "HF_HOME", "value": CACHE_MOUNT}] if source.cache else []),
    ]


def volumes(serving: ServingSpec) -> list[dict[str, Any]]:
    source = serving.model.source
    if source.folder:
        return [{"name": "model", "hostPath": {"path": source.folder, "type": "Directory"}}]
    if source.claim:
        return [{"name": "model", "persistentVolumeClaim": {"claimName": source.claim, "readOnly": True}}]
    if source.cache:
        return [{"name": "model", "hostPath": {"path": source.cache, "type": "DirectoryOrCreate"}}]
    return []


def mounts(serving: ServingSpec) -> list[dict[str, Any]]:
    source = serving.model.source
    if source.folder:
        return [{"name": "model", "mountPath": f"{MODEL_MOUNT}/{serving.model.name}", "readOnly": True}]
    if source.claim:
        return [{"name": "model", "mountPath": MODEL_MOUNT, "readOnly": True}]
    if source.cache:
        return [{"name": "model", "mountPath": CACHE_MOUNT}]
    return []
