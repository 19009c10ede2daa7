"""Every bad setting has its message: the key, what was found, what is allowed; all of them at once."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.settings import SettingsError, load

ROOT = Path(__file__).resolve().parents[2]


def values() -> dict[str, Any]:
    content = yaml.safe_load((ROOT / "stacks/Pulumi.local.yaml").read_text())
    return {key.removeprefix("splitserve:"): value for key, value in content["config"].items()}


def changed(path: str, value: Any) -> dict[str, Any]:
    """The local stack's settings with one key set."""
    settings = copy.deepcopy(values())
    section, *keys = path.split(".")
    if not keys:
        return settings | {section: value}
    inner = settings.setdefault(section, {})
    for key in keys[:-1]:
        inner = inner.setdefault(key, {})
    inner[keys[-1]] = value
    return settings


def test_the_local_stack_file_is_right() -> None:
    settings = load(values(), "splitserve/local")
    assert settings.engine_of("decode").block_size == 32


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("gaet", {}, "gaet: no such setting; did you mean `gate`?"),
        ("engine.blocksize", 16, "engine.blocksize: no such setting; did you mean `blockSize`?"),
        ("decode.engine.dtyp", "float16", "decode.engine.dtyp: no such setting; did you mean `dtype`?"),
        ("engine.blockSize", "16", "engine.blockSize: found '16'; input should be a valid integer"),
        ("engine.dtype", "int3", "engine.dtype: found 'int3'; input should be 'bfloat16'"),
        ("prefill.replicas", 0, "prefill.replicas: found 0; input should be greater than or equal to 1"),
        ("gate.limitMs", 0, "gate.limitMs: found 0; input should be greater than 0"),
        ("gate.limitMs", -5, "gate.limitMs: found -5; input should be greater than 0"),
        ("gate.promptTokens", 32, "gate.promptTokens: found 32, wanted more than one KV block"),
        ("gate.promptTokens", 2048, "gate.promptTokens: found 2048 (+ 8 for the answer), wanted at most 2040"),
        ("connector.name", "nixel", "connector: name: found 'nixel', allowed: nixl"),
        ("decode.engine.blockSize", 64, "prefill.engine.blockSize and decode.engine.blockSize: found 32 and 64"),
        ("decode.engine.dtype", "float16", "prefill.engine.dtype and decode.engine.dtype: found bfloat16 and float16"),
        ("router.port", 8000, "router.port: found 8000, which is engine.port's too"),
        ("engine.sideChannelPort", 8000, "engine.sideChannelPort: found 8000, which is engine.port's too"),
        ("engine.gpuBlocks", 64, "engine.gpuBlocks (prefill): found 64, wanted at least 65"),
        ("model.folder", None, "model: give exactly one of folder, volume, huggingFace; found 0"),
        ("platform.kind", "mars", "platform.kind: found 'mars'; input should be 'local' or 'existing'"),
        ("platform.kind", "existing", "image: missing"),
        ("platform.namespace", "Not_A_Name", "platform.namespace: found 'Not_A_Name'"),
    ],
)
def test_a_bad_setting_is_named_with_what_is_allowed(path: str, value: Any, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(changed(path, value), "splitserve/local")
    assert any(fault.startswith(message) for fault in caught.value.faults), caught.value.faults
    assert "nothing was changed" in str(caught.value)


def test_all_faults_come_in_one_message() -> None:
    bad = changed("gate.limitMs", 0) | {"topologie": "collocated", "prefill": {"replicas": 0}}
    with pytest.raises(SettingsError) as caught:
        load(bad, "splitserve/local")
    assert len(caught.value.faults) == 3
