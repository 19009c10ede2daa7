"""A release's id follows from what is served, and from nothing else."""

from __future__ import annotations

import base64
import copy
import io
import json
import zipfile
from typing import Any

import pytest

from components.hardware.read_geometry import read_geometry
from components.release.measure import probe_pod
from components.release.release import Release, build_release
from components.serving.spec import ModelSource, ModelSpec
from components.serving.workloads import deployment_spec
from infra.plan import Plan
from infra.serving_spec import replicas, serving_spec
from infra.settings import load
from tests.unit.test_settings import changed, values
from tools.localcluster.model import config as tiny_config

GEOMETRY = read_geometry(tiny_config())
PROVED = {"platform": {"kind": "local"}, "model": {"name": "tiny-qwen3", "folder": "x"}}
PROVED_ID = "c31c24507a"
MODEL = ModelSpec("tiny", ModelSource(folder="/models/tiny"), "digest", GEOMETRY)


def build(settings: dict[str, Any] | None = None, model: ModelSpec = MODEL, template: str | None = None) -> Release:
    plan = Plan(load(settings or values(), "test"), tiny_config())
    return build_release(serving_spec(plan, model, "image:1", template))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("decode.replicas", 3),
        ("router.replicas", 2),
        ("gate.limitMs", 50.0),
        ("rollout.strategy", "swap"),
        ("edge.port", 8000),
        ("platform.context", "another"),
    ],
)
def test_capacity_gate_and_edge_are_no_part_of_a_release(path: str, value: Any) -> None:
    assert build(changed(path, value)).id == build().id


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("note", "again"),
        ("engine.blockSize", 64),
        ("decode.extraArgs", ["--seed", "1"]),
        ("prefill.environment", {"A": "b"}),
        ("router.policy", "random"),
        ("topology", "collocated"),
    ],
)
def test_what_is_served_makes_another_release(path: str, value: Any) -> None:
    assert build(changed(path, value)).id != build().id


def test_other_weights_make_another_release() -> None:
    other = ModelSpec("tiny", MODEL.source, "another digest", GEOMETRY)
    assert build(model=other).id != build().id


def test_a_release_survives_json() -> None:
    release = build()
    assert Release.from_json(copy.deepcopy(release.to_json())) == release


def test_the_users_arguments_come_last_so_that_they_win() -> None:
    release = build(changed("decode.extraArgs", ["--kv-transfer-config", "{}"]))
    assert release.pods["decode"]["containers"][0]["args"][-2:] == ["--kv-transfer-config", "{}"]


@pytest.mark.parametrize("tier", ["prefill", "decode", "router"])
def test_no_pod_may_gain_privileges(tier: str) -> None:
    pod = build().pods[tier]
    security = pod["containers"][0]["securityContext"]
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert pod["securityContext"]["runAsNonRoot"] is True


@pytest.mark.parametrize("tier", ["prefill", "decode"])
def test_an_engine_may_drain_before_it_is_killed(tier: str) -> None:
    pod = build().pods[tier]
    arguments = pod["containers"][0]["args"]
    drain_s = int(arguments[arguments.index("--shutdown-timeout") + 1])
    assert (
        pod["terminationGracePeriodSeconds"]
        > drain_s + pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    )


def test_both_engines_are_told_the_same_model_words() -> None:
    pods = build().pods
    assert pods["prefill"]["containers"][0]["command"] == pods["decode"]["containers"][0]["command"]


@pytest.mark.parametrize(
    ("path", "value", "flag"),
    [
        ("engine.parallel", {"tensor": 2}, "--tensor-parallel-size 2"),
        ("engine.kvCacheDtype", "fp8", "--kv-cache-dtype fp8"),
        ("engine.attentionBackend", "FLASH_ATTN", "--attention-backend FLASH_ATTN"),
        ("engine.gpuMemoryUtilization", 0.8, "--gpu-memory-utilization 0.8"),
        ("engine.sseKeepAliveS", 15, "--sse-keep-alive-interval 15"),
        ("connector.backend", "LIBFABRIC", '"backends": ["LIBFABRIC"]'),
        ("connector.options", {"kv_lease_duration": 60}, '"kv_lease_duration": 60'),
        ("connector.loadFailurePolicy", "recompute", '"kv_load_failure_policy": "recompute"'),
    ],
)
def test_a_setting_reaches_the_engine(path: str, value: Any, flag: str) -> None:
    arguments = build(changed(path, value)).pods["decode"]["containers"][0]["args"]
    assert flag in " ".join(arguments)
    assert flag not in " ".join(build().pods["decode"]["containers"][0]["args"])


def test_a_change_of_one_tier_makes_both_tiers_new() -> None:
    """A decoder that is connected to a restarted prefiller may fail for an hour (vllm issue 49238, nixl
    issue 795): prefill, decode and router always are of one generation."""
    before, after = build(), build(changed("prefill.environment", {"A": "b"}))
    assert before.id != after.id and set(after.pods) == {"prefill", "decode", "router"}


def test_nothing_waits_for_a_gpu_that_it_holds_itself() -> None:
    """maxSurge 1 with one replica and no spare GPU never ends, and neither does its revert."""
    strategy = deployment_spec("a", "decode", build().pods["decode"])["strategy"]
    assert strategy["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}


class TestRenderTier:
    """A release with a render tier: the gateway is its router, and the program comes with the release."""

    @staticmethod
    def with_render(**more: Any) -> dict[str, Any]:
        return changed("render", {"replicas": 2}) | more

    @pytest.mark.parametrize("topology", ["prefill-decode", "collocated"])
    def test_the_gateway_stands_in_the_routers_place(self, topology: str) -> None:
        release = build(self.with_render(topology=topology))
        assert set(release.pods) - set(release.engine_tiers) == {"render", "router"}
        router = release.pods["router"]["containers"][0]
        assert router["command"] == ["python3", "/opt/splitserve/gateway.pyz"]
        assert f"--topology {topology}" in " ".join(router["args"])
        assert zipfile.is_zipfile(io.BytesIO(base64.b64decode(release.files["gateway.pyz"])))
        engines = [release.pods[tier]["containers"][0]["args"] for tier in release.engine_tiers]
        assert all("--enable-scale-out" in arguments for arguments in engines)

    def test_without_one_nothing_of_it_is_left(self) -> None:
        release = build()
        assert release.files == {} and "render" not in release.pods
        assert "--enable-scale-out" not in release.pods["decode"]["containers"][0]["args"]

    def test_a_release_without_render_and_chat_settings_keeps_the_id_that_it_had(self) -> None:
        """Ids are the hash of what was proved: a new version must not make every live release another."""
        assert build(PROVED).id == PROVED_ID

    def test_it_survives_json_and_mounts_its_own_files(self) -> None:
        release = build(self.with_render())
        assert Release.from_json(json.loads(json.dumps(release.to_json()))) == release
        assert release.id not in json.dumps(release.pods)
        spec = deployment_spec(release.id, "router", release.pods["router"])["template"]["spec"]
        assert {"name": "release-files", "configMap": {"name": f"files-{release.id}"}} in spec["volumes"]

    def test_its_replicas_are_capacity_and_its_limits_are_not(self) -> None:
        base = build(self.with_render())
        assert build(self.with_render(render={"replicas": 5})).id == base.id
        assert build(self.with_render(gateway={"maxQueued": 1})).id != base.id

    def test_a_template_and_parsers_reach_every_tier_that_makes_prompts(self) -> None:
        chat = {"template": "chat.jinja", "toolParser": "hermes", "reasoningParser": "qwen3"}
        release = build(self.with_render(chat=chat), template="{{ messages }}")
        for tier in ("prefill", "decode", "render"):
            container = release.pods[tier]["containers"][0]
            assert "--chat-template /opt/splitserve/chat-template.jinja" in " ".join(container["args"])
            assert "--enable-auto-tool-choice --tool-call-parser hermes" in " ".join(container["args"])
            assert "--reasoning-parser qwen3" in " ".join(container["args"])
            assert "/opt/splitserve" in [mount["mountPath"] for mount in container["volumeMounts"]]
        assert base64.b64decode(release.files["chat-template.jinja"]).decode() == "{{ messages }}"

    def test_the_keys_lie_in_a_file_of_the_gateway_and_open_the_way_to_the_probe(self) -> None:
        release = build(self.with_render(edge={"apiKeySecret": "keys"}))
        router = release.pods["router"]
        assert {"name": "api-keys", "secret": {"secretName": "keys"}} in router["volumes"]
        assert "--api-key-file /etc/splitserve/api-keys/api-key" in " ".join(router["containers"][0]["args"])
        env = probe_pod(release)["containers"][0]["env"]
        assert env == [{"name": "ROUTER_API_KEY", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "api-key"}}}]

    def test_tiers_that_the_settings_lost_keep_the_size_they_were_found_with(self) -> None:
        settings = load(values(), "test")
        assert replicas(settings, {"render": 3})["render"] == 3
        assert replicas(settings, {})["render"] == 1
        assert replicas(load(self.with_render(), "test"), {"render": 3})["render"] == 2
