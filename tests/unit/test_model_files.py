"""A model folder that can't serve is refused before anything is created."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from infra.model_files import read_model_files
from infra.read_plan import read_plan
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
    found = read_model_files(settings, tmp_path)
    assert found.faults == () and found.config == model.config()
    (tmp_path / "model/model.safetensors").write_bytes(b"other weights")
    assert read_model_files(settings, tmp_path).digest != found.digest


@pytest.mark.parametrize(
    ("missing", "message"),
    [("tokenizer.json", "has no tokenizer"), ("model.safetensors", "has no weights"), ("config.json", "config.json")],
)
def test_a_missing_file_is_named(settings: Settings, tmp_path: Path, missing: str, message: str) -> None:
    (tmp_path / "model" / missing).unlink()
    assert any(message in fault for fault in read_model_files(settings, tmp_path).faults)


def test_faults_of_files_and_of_the_plan_come_in_one_message(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(model.config() | {"max_position_embeddings": 1024}))
    bad = values() | {"model": {"name": "tiny", "folder": "model"}}
    with pytest.raises(SettingsError) as caught:
        read_plan(bad, tmp_path, "test")
    text = str(caught.value)
    assert "has no tokenizer" in text and "has no weights" in text
    assert "engine.maxModelLen: found 2048, wanted at most 1024" in text


def test_the_made_model_is_the_same_each_time() -> None:
    first, second = model.weights(), model.weights()
    assert all((first[name] == second[name]).all() for name in first)
