"""The encoder tier's pods, what engines are told of embeddings, and how old ones are cleared away."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from components.release.release import Release, build_release
from components.serving.encoder_sweep import sweep
from components.serving.spec import ModelSource, ModelSpec
from infra.missing import wanted
from infra.plan import Plan
from infra.serving_spec import replicas, serving_spec
from infra.settings import load
from tests.unit.plans import changed, stack_values
from tests.unit.test_nodes import wrong_fields
from tools.localcluster.vision_model import config

FOLDER = {"replicas": 2, "connector": "folder", "folder": {"claim": "shared"}}
NIXL = {"replicas": 2, "cpuGib": 0.125, "sideChannelPort": 5700}


def plan(encoder: dict[str, Any], topology: str = "collocated", **more: Any) -> Plan:
    values = changed(stack_values("local"), ("topology", topology), ("render", {"replicas": 1}), ("encoder", encoder))
    return Plan(load(values | more, "test"), config())


def build(encoder: dict[str, Any], topology: str = "collocated", **more: Any) -> Release:
    made = plan(encoder, topology, **more)
    assert made.geometry is not None
    return build_release(serving_spec(made, ModelSpec("v", ModelSource(folder="/m"), "d", made.geometry), "image"))


def told(release: Release, tier: str) -> dict[str, Any] | None:
    """A tier's `--ec-transfer-config`."""
    arguments = release.pods[tier]["containers"][0]["args"]
    return (
        json.loads(arguments[arguments.index("--ec-transfer-config") + 1])
        if "--ec-transfer-config" in arguments
        else None
    )


def variables(release: Release, tier: str) -> dict[str, Any]:
    return {one["name"]: one.get("value") or one["valueFrom"] for one in release.pods[tier]["containers"][0]["env"]}


@pytest.mark.parametrize(("topology", "consumer"), [("collocated", "collocated"), ("prefill-decode", "prefill")])
def test_the_first_tier_loads_what_encoders_make(topology: str, consumer: str) -> None:
    release = build(NIXL, topology)
    options = {"ec_cpu_bytes": 2**27, "ec_enable_nixl": True}
    assert told(release, "encoder") == {
        "ec_connector": "ECCPUConnector", "ec_role": "ec_producer", "ec_connector_extra_config": options,
    }  # fmt: skip
    assert told(release, consumer) == {
        "ec_connector": "ECCPUConnector", "ec_role": "ec_consumer", "ec_connector_extra_config": options,
    }  # fmt: skip
    assert variables(release, "encoder")["VLLM_EC_SIDE_CHANNEL_PORT"] == "5700"
    assert variables(release, "encoder")["VLLM_EC_SIDE_CHANNEL_HOST"] == {"fieldRef": {"fieldPath": "status.podIP"}}
    assert variables(release, consumer)["VLLM_USE_V2_MODEL_RUNNER"] == "1"
    if topology == "prefill-decode":
        assert told(release, "decode") is None
    assert "sweeper" not in str(release.pods)


def test_a_shared_folder_is_mounted_where_the_connector_looks_and_each_release_has_its_own() -> None:
    release = build(FOLDER, "prefill-decode")
    for tier in ("encoder", "prefill"):
        config, pod = told(release, tier), release.pods[tier]
        assert config is not None
        path = config["ec_connector_extra_config"]["shared_storage_path"]
        mounts = {mount["name"]: mount for mount in pod["containers"][0]["volumeMounts"]}
        assert path.startswith(mounts["embeddings"]["mountPath"] + "/") and path.endswith("/$(RELEASE)")
        assert "readOnly" not in mounts["embeddings"]
        assert (
            variables(release, tier)["RELEASE"]["fieldRef"]["fieldPath"] == "metadata.labels['splitserve.dev/release']"
        )
        assert {"name": "embeddings", "persistentVolumeClaim": {"claimName": "shared"}} in pod["volumes"]
        assert list(wrong_fields(pod, "V1PodSpec")) == []
    assert "embeddings" not in str(release.pods["decode"]["volumes"])


def test_the_sweeper_keeps_what_may_still_be_asked_for() -> None:
    sweeper = build(FOLDER | {"reuseS": 100}, gateway={"requestLimitS": 50})
    container = sweeper.pods["encoder"]["containers"][1]
    folder, keep_s = container["command"][-2:]
    config = told(sweeper, "encoder")
    assert config is not None
    assert config["ec_connector_extra_config"]["shared_storage_path"] == f"{folder}/$(RELEASE)"
    assert int(keep_s) >= 100 + 50
    gateway = sweeper.pods["router"]["containers"][0]["args"]
    assert gateway[gateway.index("--embedding-reuse-s") + 1] == "100"


def test_the_gateway_is_told_of_the_tier_and_asks_nixl_s_encoders_each_time() -> None:
    gateway = build(NIXL | {"limitS": 9}).pods["router"]["containers"][0]["args"]
    flags = dict(zip(gateway[::2], gateway[1::2], strict=True))
    assert (flags["--encoder-tier"], flags["--encode-limit-s"], flags["--embedding-reuse-s"]) == ("yes", "9", "0")
    assert "--encoder-tier" not in build({}).pods["router"]["containers"][0]["args"]


def test_an_encoder_is_no_engine_and_its_replicas_are_capacity() -> None:
    release = build(NIXL)
    assert release.engine_tiers == ("collocated",) and release.expectation.encoder == "nixl"
    assert build(NIXL | {"replicas": 7}).id == release.id
    assert build(NIXL | {"limitS": 9}).id != release.id
    assert replicas(plan(NIXL).settings, {})["encoder"] == 2
    assert Release.from_json(json.loads(json.dumps(release.to_json()))) == release


def test_without_one_nothing_of_it_is_left() -> None:
    release = build({})
    assert "encoder" not in release.pods and "ec-transfer" not in json.dumps(release.pods)
    assert release.expectation.encoder is None


def test_encoders_get_the_engines_words_and_their_own_last() -> None:
    more = {"extraArgs": ["--limit-mm-per-prompt", "{}"], "environment": {"A": "b"}}
    encoder = build(NIXL | more).pods["encoder"]["containers"][0]
    assert encoder["args"][-2:] == ["--limit-mm-per-prompt", "{}"]
    assert {"--dtype", "--max-model-len", "--enable-scale-out", "--enforce-eager"} <= set(encoder["args"])
    assert "--kv-transfer-config" not in encoder["args"]
    assert {"A", "OMP_NUM_THREADS"} <= {one["name"] for one in encoder["env"]}


def test_a_cluster_is_asked_for_the_encoders_devices_too() -> None:
    gpu = {"resources": {"extended": {"nvidia.com/gpu": 1}}}
    needs = {need.tier: (need.replicas, dict(need.extended)) for need in wanted(plan(NIXL | gpu).settings, "").tiers}
    assert needs["encoder"] == (2, {"nvidia.com/gpu": 1})


def item(folder: Path, release: str, name: str, age_s: float, now: float) -> Path:
    path = folder / release / name
    path.mkdir(parents=True)
    (path / "encoder_cache.safetensors").write_text("x")
    for one in (path / "encoder_cache.safetensors", path):
        os.utime(one, (now - age_s, now - age_s))
    return path


def test_only_items_without_a_reader_are_swept(tmp_path: Path) -> None:
    now = 1e9
    old, young = item(tmp_path, "a", "old", 101, now), item(tmp_path, "a", "young", 99, now)
    other = item(tmp_path, "b", "old", 500, now)
    rewritten = item(tmp_path, "b", "rewritten", 500, now)
    os.utime(rewritten / "encoder_cache.safetensors", (now, now))
    (tmp_path / "a file").write_text("somebody's")
    assert sweep(str(tmp_path), 100, now) == 2
    assert (old.exists(), other.exists()) == (False, False)
    assert young.exists() and rewritten.exists() and (tmp_path / "a file").exists()


def test_a_missing_folder_is_nothing_to_sweep(tmp_path: Path) -> None:
    assert sweep(str(tmp_path / "none"), 1, 1e9) == 0
