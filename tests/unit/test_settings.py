"""Every bad setting has its message: the key, what was found, what is allowed; all of them at once."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from infra.settings import Settings, SettingsError, json_schema, load
from tests.unit.plans import changed as change
from tests.unit.plans import stack_values


def values() -> dict[str, Any]:
    return stack_values("local")


def changed(path: str, value: Any) -> dict[str, Any]:
    """The local stack's settings with one key set."""
    return change(values(), (path, value))


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
        ("model.folder", None, "model: give exactly one of folder, volume, huggingFace, s3, lustre; found 0"),
        ("platform.kind", "mars", "platform.kind: found 'mars'; input should be 'local', 'existing' or 'aws'"),
        ("platform.kind", "aws", "platform: `aws` belongs to kind `aws`, which needs it"),
        ("connector.name", "nixel", "connector.name: found 'nixel'; input should be 'nixl'"),
        ("gate.limitMs", float("nan"), "gate.limitMs: found nan"),
        ("gate.limitMs", 10**12, "gate.limitMs: found 1000000000000"),
        ("engine.parallel", {"tensor": 0}, "engine.parallel.tensor: found 0"),
        ("traffic", {"promptTokens": 8}, "traffic.outputTokens: missing"),
        ("platform.namespace", "Not_A_Name", "platform.namespace: found 'Not_A_Name'"),
        ("observability.labels", {"team": "on call"}, "observability.labels.team: found 'on call'"),
        (
            "observability.idleProbe.shedule",
            "@hourly",
            "observability.idleProbe.shedule: no such setting; did you mean `schedule`?",
        ),
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


PLATFORMS = {"local": "qwen3-0.6b", "dev": "qwen3-32b", "prod": "llama-3.1-70b", "onprem": "qwen3-32b"}


@pytest.mark.parametrize("stack", PLATFORMS)
def test_settings_survive_dump_and_load(stack: str) -> None:
    settings = load(stack_values(stack), "test")
    assert load(settings.model_dump(by_alias=True, exclude_none=True), "test") == settings


@given(st.integers(1, 10**6), st.integers(1, 4096), st.sampled_from(["auto", "off", 30]), st.integers(0, 9))
def test_any_gate_survives_dump_and_load(limit: int, tokens: int, age: Any, retry: int) -> None:
    gate = {"limitMs": limit, "promptTokens": tokens, "age": age, "retry": retry}
    settings = load(values() | {"gate": gate}, "test")
    assert load(settings.model_dump(by_alias=True, exclude_none=True), "test") == settings


@pytest.mark.parametrize("stack", PLATFORMS)
def test_the_json_schema_takes_each_example_and_refuses_a_misspelt_key(stack: str) -> None:
    prefixed = {f"splitserve:{key}": value for key, value in stack_values(stack).items()}
    validator = Draft202012Validator(json_schema())
    assert [error.message for error in validator.iter_errors({"config": prefixed})] == []
    assert not validator.is_valid({"config": prefixed | {"splitserve:topologie": "collocated"}})
    assert not validator.is_valid({"config": prefixed | {"splitserve:gate": {"limitMs": "fast"}}})


def test_every_setting_has_a_default_or_is_required_by_name() -> None:
    with pytest.raises(SettingsError) as caught:
        load({}, "test")
    assert caught.value.faults == [
        "platform: missing; it has no default",
        "model: missing; it has no default",
    ]
    assert set(Settings.model_fields) >= {"platform", "model", "gate"}


def test_importing_settings_and_rules_loads_no_pulumi_and_no_boto3() -> None:
    code = (
        "import sys, infra.settings, infra.rules.all_rules, infra.plan_summary, infra.plan_report\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('pulumi', 'pulumi_aws', 'pulumi_kubernetes', 'boto3')])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
