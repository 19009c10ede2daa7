"""A model folder that can't serve is refused before anything is created."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from infra.model_files import read_model
from infra.settings import Settings, SettingsError, load
from tests.unit.test_settings import values
from tools.localcluster import model


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(model.config()))
    (folder / "tokenizer.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    return load(values() | {"model": {"name": "tiny", "folder": "model"}}, "test")


def test_a_complete_folder_gives_geometry_and_identity(settings: Settings, tmp_path: Path) -> None:
    found = read_model(settings, tmp_path, "test")
    assert (found.kv_bytes_per_token, found.vocabulary) == (8 * 4 * 64 * 2 * 2, 2048)
    (tmp_path / "model/model.safetensors").write_bytes(b"other weights")
    assert read_model(settings, tmp_path, "test").digest != found.digest


@pytest.mark.parametrize(
    ("missing", "message"),
    [("tokenizer.json", "has no tokenizer"), ("model.safetensors", "has no weights"), ("config.json", "config.json")],
)
def test_a_missing_file_is_named(settings: Settings, tmp_path: Path, missing: str, message: str) -> None:
    (tmp_path / "model" / missing).unlink()
    with pytest.raises(SettingsError, match=message):
        read_model(settings, tmp_path, "test")


def test_a_longer_context_than_the_model_has_is_refused(settings: Settings, tmp_path: Path) -> None:
    config = model.config() | {"max_position_embeddings": 1024}
    (tmp_path / "model/config.json").write_text(json.dumps(config))
    with pytest.raises(SettingsError, match="wanted at most 1024"):
        read_model(settings, tmp_path, "test")


def test_the_made_model_is_the_same_each_time() -> None:
    first, second = model.weights(), model.weights()
    assert all((first[name] == second[name]).all() for name in first)
