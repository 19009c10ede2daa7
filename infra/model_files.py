"""Read what a plan must know of the model: its geometry, its identity, and that it is complete.

Reads local files only.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.serving.spec import ModelSource, ModelSpec
from infra.plan import Plan
from infra.schema.serving import Model
from infra.settings import Settings

TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "tekken.json")
CHUNK_BYTES = 1 << 20
WEIGHTS_CLAIM = "splitserve-weights"
"""The claim that the stack makes for weights in S3 or on Lustre."""
NODE_CACHE = "/mnt/k8s-disks/0/splitserve-models"
"""Below the RAID0 array of local NVMe disks, as nodeadm mounts it (awslabs/amazon-eks-ami
nodeadm/internal/system/local_disk.go)."""


@dataclass(frozen=True)
class ModelFiles:
    """A model's config.json, what identifies its content, and the text of the stack's own chat template;
    `faults` is what is wrong with the files."""

    config: dict[str, Any]
    digest: str
    faults: tuple[str, ...] = ()
    chat_template: str | None = None


def read_model_files(settings: Settings, project: Path) -> ModelFiles:
    """Read config.json and, of a local folder, everything that makes it complete."""
    model = settings.model
    faults: list[str] = []
    config = _config(model, project, faults)
    template = _chat_template(settings.chat.template, project, faults)
    if not model.folder:
        return ModelFiles(config, _stated_digest(model), tuple(faults), template)
    faults += _folder_faults(project / model.folder)
    digest = "" if faults else _digest(project / model.folder)
    return ModelFiles(config, digest, tuple(faults), template)


def _chat_template(name: str | None, project: Path, faults: list[str]) -> str | None:
    if name is None:
        return None
    try:
        return (project / name).read_text()
    except (OSError, UnicodeDecodeError) as error:
        faults.append(f"chat.template: {project / name} can't be read: {error}; wanted a Jinja file of the project")
        return None


def model_spec(plan: Plan, files: ModelFiles, project: Path) -> ModelSpec:
    """The model's specification; the plan's rules have found its geometry known."""
    assert plan.geometry is not None  # rule geometry-known
    return ModelSpec(plan.settings.model.name, model_source(plan.settings.model, project), files.digest, plan.geometry)


def _config(model: Model, project: Path, faults: list[str]) -> dict[str, Any]:
    key, path = "model.folder", project / (model.folder or "") / "config.json"
    if model.volume:
        key, path = "model.volume.config", project / model.volume.config
    elif model.hugging_face:
        key, path = "model.huggingFace.config", project / model.hugging_face.config
    elif model.s3:
        key, path = "model.s3.config", project / model.s3.config
    elif model.lustre:
        key, path = "model.lustre.config", project / model.lustre.config
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        faults.append(f"{key}: found no file {path}; wanted the model's config.json")
    except (OSError, ValueError) as error:
        faults.append(f"{key}: {path} can't be read: {error}")
    return {}


def _folder_faults(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []  # reported with its config.json
    faults = []
    if not any((folder / name).exists() for name in TOKENIZERS):
        faults.append(f"model.folder: {folder} has no tokenizer; wanted one of {', '.join(TOKENIZERS)}")
    if not any(folder.glob("*.safetensors")) and not any(folder.glob("*.bin")):
        faults.append(f"model.folder: {folder} has no weights; wanted *.safetensors or *.bin")
    return faults


def model_source(model: Model, project: Path) -> ModelSource:
    if model.folder:
        return ModelSource(folder=str((project / model.folder).resolve()))
    if model.volume:
        return ModelSource(claim=model.volume.claim, claim_path=model.volume.path)
    if model.s3:
        return ModelSource(claim=WEIGHTS_CLAIM, claim_path="")
    if model.lustre:
        return ModelSource(claim=WEIGHTS_CLAIM, claim_path=model.lustre.path)
    named = model.hugging_face
    assert named is not None  # Model.one_source
    cache = NODE_CACHE if named.node_cache else None
    return ModelSource(
        repository=named.repository, revision=named.revision, token_secret=named.token_secret, cache=cache
    )


def _stated_digest(model: Model) -> str:
    if model.hugging_face:
        return f"{model.hugging_face.repository}@{model.hugging_face.revision}"
    if model.s3:
        return f"s3://{model.s3.bucket}/{model.s3.prefix}"
    if model.lustre:
        return f"lustre/{model.lustre.path}"
    assert model.volume is not None  # Model.one_source
    return f"{model.volume.claim}/{model.volume.path}"


def _digest(folder: Path) -> str:
    """A hash of every file's name and content: other weights are another release."""
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        digest.update(str(path.relative_to(folder)).encode())
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                digest.update(chunk)
    return digest.hexdigest()
