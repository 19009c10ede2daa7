"""Faults of an encoder tier: each is refused with its message, the right plan passes."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from infra.plan import Plan
from infra.rules.all_rules import check
from infra.rules.encoder import has_encoder
from infra.settings import SettingsError, load
from tests.unit.plans import changed, model_config, stack_values
from tools.localcluster.vision_model import config

Change = tuple[str, Any]
RIGHT: list[Change] = [
    ("topology", "collocated"), ("render.replicas", 1),
    ("encoder", {"replicas": 1, "connector": "folder", "folder": {"node": "/tmp"}}),
]  # fmt: skip
EXISTING: Change = ("platform", {"kind": "existing", "kubeconfig": "k", "namespace": "n"})
NIXL: list[Change] = [
    *RIGHT,
    ("encoder", {"replicas": 1, "cpuGib": 0.125}),
    EXISTING,
    ("image", "vllm@sha256:" + "a" * 64),
]


def plan(*changes: Change, model: dict[str, Any] | None = None) -> Plan:
    return Plan(load(changed(stack_values("local"), *copy.deepcopy(changes)), "test"), model or config())


FAULTS: dict[str, tuple[str, list[Change], str]] = {
    "no_gateway": (
        "encoder-needs-gateway", [*RIGHT, ("render.replicas", 0)],
        "render.replicas: found 0, with an encoder tier, wanted 1 or more; a render tier brings the gateway"),
    "settings_of_no_tier": (
        "encoder-settings-used", [*RIGHT, ("encoder.replicas", 0)], "encoder: found settings, with 0 replicas"),
    "a_setting_of_the_other_connector": (
        "encoder-settings-used", [*RIGHT, ("encoder.cpuGib", 4)], "encoder.cpuGib: found set, with connector folder"),
    "a_folder_with_nixl": (
        "encoder-settings-used", [*NIXL, ("encoder.folder", {"claim": "c"})], "encoder.folder: found set, with connector nixl"),
    "no_folder": (
        "encoder-folder", [*RIGHT, ("encoder", {"replicas": 1, "connector": "folder"})],
        "encoder.folder: found nothing, with connector folder, wanted claim or node; name a ReadWriteMany claim"),
    "a_relative_folder": (
        "encoder-folder", [*RIGHT, ("encoder.folder.node", "tmp")], "wanted an absolute path of the node"),
    "nixl_on_cpus": (
        "encoder-connector-runs", [*RIGHT, ("encoder", {"replicas": 1, "cpuGib": 0.125})],
        "encoder.connector: found nixl on CPUs, wanted folder"),
    "a_region_that_fills_shm": (
        "encoder-shm", [*NIXL, ("encoder.cpuGib", 0.25)], "encoder.resources.shm: found 256Mi, wanted more than 0.25Gi"),
    "another_image": ("encoder-image", [*RIGHT, ("encoder.image", "vllm:other")], "encoder.image: found vllm:other"),
    "its_own_connector_argument": (
        "encoder-config-holds", [*RIGHT, ("collocated.extraArgs", ["--ec_transfer_config={}"])],
        "collocated.extraArgs: found `--ec-transfer-config` beside an encoder tier, wanted one of the two"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_plan_with_the_fault_is_told_so(fault: str) -> None:
    rule, changes, words = FAULTS[fault]
    messages = [str(finding) for finding in check(plan(*changes)) if finding.rule == rule]
    assert any(words in message for message in messages), messages


@pytest.mark.parametrize(
    "changes", [RIGHT, NIXL, [*RIGHT, ("topology", "prefill-decode")]], ids=["folder", "nixl", "split"]
)
def test_a_right_plan_passes(changes: list[Change]) -> None:
    assert [str(finding) for finding in check(plan(*changes)) if finding.severity == "error"] == []


def test_a_text_model_is_refused() -> None:
    found = [
        str(f) for f in check(plan(*RIGHT, model=model_config("llama-3.1-70b"))) if f.rule == "encoder-for-the-model"
    ]
    assert found and "found 1, with a text model (llama), wanted a config.json with one of vision_config" in found[0]
    encoder_decoder = config() | {"is_encoder_decoder": True}
    found = [str(f) for f in check(plan(*RIGHT, model=encoder_decoder)) if f.rule == "encoder-for-the-model"]
    assert "an encoder-decoder model (qwen2_vl)" in found[0]


def test_which_models_have_an_encoder() -> None:
    assert has_encoder({"vision_config": {}}) and has_encoder({"thinker_config": {"audio_config": {}}})
    assert not has_encoder({"vision_config": None}) and not has_encoder({})


def test_a_folder_is_in_one_place() -> None:
    with pytest.raises(SettingsError, match="give exactly one of claim, node; found 2"):
        plan(*RIGHT, ("encoder.folder", {"claim": "a", "node": "/b"}))


@pytest.mark.parametrize(
    ("encoder", "words"),
    [
        ({"replicas": 1}, "encoder.resources.extended.nvidia.com/gpu: found 2, wanted 1; set encoder.resources"),
        ({"replicas": 5}, "encoder.replicas: found 5 beside engines on 12 of 16 GPUs, wanted at most 4"),
        ({"replicas": 4}, None),
    ],
)
def test_an_encoder_takes_one_gpu_and_finds_it(encoder: dict[str, Any], words: str | None) -> None:
    own = {"resources": {"extended": {"nvidia.com/gpu": 1}}} if encoder["replicas"] > 1 else {}
    values = changed(stack_values("onprem"), ("render", {"replicas": 1}), ("encoder", encoder | own))
    messages = [str(f) for f in check(Plan(load(values, "test"), config())) if f.rule == "encoder-gpus"]
    assert len(messages) == (words is not None) and all((words or "") in message for message in messages)
