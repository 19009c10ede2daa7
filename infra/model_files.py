"""Read what a plan must know of the model: its geometry, its identity, and that it is complete.

Reads local files only; whatever is wrong with them is a fault of the settings.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from components.hardware.geometry import GeometryUnknown, geometry
from components.serving.spec import ModelSource, ModelSpec
from infra.settings import Model, Settings, SettingsError

TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "tekken.json")
CHUNK_BYTES = 1 << 20


def read_model(settings: Settings, project: Path, where: str) -> ModelSpec:
    """The model's specification. Raises SettingsError naming the file that is missing or wrong."""
    model = settings.model
    faults: list[str] = []
    config = _config(model, project, faults)
    if model.folder:
        faults += _folder_faults(project / model.folder)
    bytes_per_token, vocabulary = _geometry(settings, config, faults) if config else (0, 0)
    if faults:
        raise SettingsError(where, faults)
    return ModelSpec(
        name=model.name,
        source=_source(model, project),
        digest=_digest(project / model.folder) if model.folder else _stated_digest(model),
        kv_bytes_per_token=bytes_per_token,
        vocabulary=vocabulary,
    )


def _config(model: Model, project: Path, faults: list[str]) -> dict[str, Any]:
    key, path = "model.folder", project / (model.folder or "") / "config.json"
    if model.volume:
        key, path = "model.volume.config", project / model.volume.config
    elif model.hugging_face:
        key, path = "model.huggingFace.config", project / model.hugging_face.config
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


def _geometry(settings: Settings, config: dict[str, Any], faults: list[str]) -> tuple[int, int]:
    stated = settings.model.kv_bytes_per_token
    try:
        found = geometry(config)
    except GeometryUnknown as error:
        if stated is None:
            faults.append(f"model: {error}, which is not computed yet; state model.kvBytesPerToken")
        return stated or 0, int(config.get("vocab_size", 0))
    longest = settings.engine.max_model_len
    if found.max_positions and longest > found.max_positions:
        faults.append(
            f"engine.maxModelLen: found {longest}, wanted at most {found.max_positions}, the model's "
            "max_position_embeddings"
        )
    return stated or found.kv_bytes_per_token(settings.engine.dtype), found.vocabulary


def _source(model: Model, project: Path) -> ModelSource:
    if model.folder:
        return ModelSource(folder=str((project / model.folder).resolve()))
    if model.volume:
        return ModelSource(claim=model.volume.claim, claim_path=model.volume.path)
    assert model.hugging_face is not None  # Model.one_source
    return ModelSource(repository=model.hugging_face.repository, revision=model.hugging_face.revision)


def _stated_digest(model: Model) -> str:
    if model.hugging_face:
        return f"{model.hugging_face.repository}@{model.hugging_face.revision}"
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
