"""What vLLM is told by each connector profile, on each side, and what is known of it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, get_args

import pytest

from components.hardware.geometry import Stated
from components.hardware.read_geometry import Geometry
from components.release.release import expectation_of
from components.serving.connectors.chosen import Chosen
from components.serving.connectors.environment import connector_environment, port_numbers
from components.serving.connectors.profiles import PROFILES, measurement, mover, requests, supports_hybrid
from components.serving.connectors.table import PAGE, connector_table
from components.serving.connectors.transfer_config import transfer_config
from components.serving.connectors.validated import VALIDATED
from components.serving.engine import engine_pod
from components.serving.gateway import gateway_arguments
from components.serving.spec import EngineTier, ModelSource, ModelSpec, ServingSpec
from infra.schema.serving import ConnectorName
from infra.serving_spec import serving_spec
from tests.unit.plans import changed, make_plan, stack_values

NIXL = {"kv_connector": "NixlConnector", "kv_load_failure_policy": "fail"}


def serving(*changes: tuple[str, Any], stack: str = "local") -> ServingSpec:
    """A specification from a stack file, with the connector's parts as the settings have them."""
    plan = make_plan(changed(stack_values(stack), *changes), "qwen3-0.6b")
    model = ModelSpec("tiny", ModelSource(folder="/m"), "digest", Geometry((Stated(1, 1),), 512, 0))
    return replace(serving_spec(plan, model, "image"), connector_parts=plan.settings.connector.chosen)


def told(tier: EngineTier, *changes: tuple[str, Any]) -> dict[str, Any]:
    text = transfer_config(serving(*changes), tier)
    assert text is not None
    return json.loads(text)


def test_settings_and_profiles_have_the_same_names() -> None:
    assert set(get_args(ConnectorName)) == set(PROFILES)
    assert set(VALIDATED) <= set(PROFILES)


def test_nixl_pull_is_told_what_it_was_before_there_were_profiles() -> None:
    text = transfer_config(serving(), "prefill")
    assert text == '{"kv_connector": "NixlConnector", "kv_load_failure_policy": "fail", "kv_role": "kv_producer"}'
    assert transfer_config(serving(("topology", "collocated")), "collocated") is None
    with_backend = told("decode", ("connector.backend", "LIBFABRIC"), ("connector.options", {"num_threads": 2}))
    assert with_backend["kv_connector_extra_config"] == {"backends": ["LIBFABRIC"], "num_threads": 2}
    environment = engine_pod(serving(("topology", "collocated")), "collocated")["containers"][0]["env"]
    assert [one["name"] for one in environment][:2] == ["VLLM_NIXL_SIDE_CHANNEL_HOST", "VLLM_NIXL_SIDE_CHANNEL_PORT"]


@pytest.mark.parametrize(
    ("name", "prefill", "decode"),
    [("nixl-push", "kv_producer", "kv_consumer"), ("mooncake", "kv_producer", "kv_consumer"),
     ("moriio", "kv_producer", "kv_consumer"), ("lmcache", "kv_both", "kv_both"), ("flexkv", "kv_both", "kv_both"),
     ("mooncake-store", "kv_both", "kv_consumer")],
)  # fmt: skip
def test_each_side_has_its_role(name: str, prefill: str, decode: str) -> None:
    change = ("connector.name", name)
    assert [told("prefill", change)["kv_role"], told("decode", change)["kv_role"]] == [prefill, decode]
    assert told("decode", change)["kv_connector"] == PROFILES[name].vllm_class


def test_offloading_gets_bytes_and_works_collocated() -> None:
    changes = (("topology", "collocated"), ("connector.name", "offloading"), ("connector.cpuGib", 1.5))
    found = told("collocated", *changes)
    assert found["kv_connector_extra_config"] == {"cpu_bytes_to_use": 1_610_612_736}
    assert found["kv_role"] == "kv_both"


def test_gateway_and_probe_ask_mooncakes_bootstrap_server_where_the_prefiller_is_told_to_listen() -> None:
    found = serving(("connector.name", "mooncake"), ("engine.sideChannelPort", 5700), ("render.replicas", 1))
    assert {"name": "VLLM_MOONCAKE_BOOTSTRAP_PORT", "value": "5700"} in connector_environment(found, "prefill")
    assert found.render
    assert gateway_arguments(found, found.render)[-4:] == ["--dispatch", "bootstrap", "--bootstrap-port", "5700"]
    expected = expectation_of(found).measurement
    assert expected and expected["bootstrapPort"] == 5700
    other = expectation_of(serving(("connector.name", "nixl-push"))).measurement
    assert other and "bootstrapPort" not in other


def test_lmcache_takes_its_own_unit() -> None:
    found = told("prefill", ("connector.name", "lmcache"), ("connector.cpuGib", 20))
    assert found["kv_connector_extra_config"] == {"lmcache.max_local_cpu_size": 20}


def test_moriio_is_told_its_ports_and_reads() -> None:
    found = told("prefill", ("connector.name", "moriio"))["kv_connector_extra_config"]
    assert found == {"read_mode": True, "http_port": 8000, "handshake_port": 5600, "notify_port": 5700}


def test_a_class_of_ones_own_is_named_with_its_module() -> None:
    changes = (("connector.name", "custom"), ("connector.module", "my.kv"), ("connector.className", "Mine"))
    assert told("decode", *changes) == {
        "kv_connector": "Mine", "kv_connector_module_path": "my.kv", "kv_role": "kv_consumer",
        "kv_load_failure_policy": "fail",
    }  # fmt: skip


def test_multi_holds_each_side_of_its_children_in_order() -> None:
    inner = ["nixl", {"name": "offloading", "cpuGib": 2, "options": {"eviction_policy": "arc"}}]
    changes = (("connector.name", "multi"), ("connector.inner", inner), ("connector.backend", "LIBFABRIC"),
               ("decode.connectorOptions", {"nixl": {"num_threads": 2}}))  # fmt: skip
    offloading = {
        "kv_connector": "OffloadingConnector", "kv_role": "kv_both",
        "kv_connector_extra_config": {"cpu_bytes_to_use": 2 << 30, "eviction_policy": "arc"},
    }  # fmt: skip
    backends = {"backends": ["LIBFABRIC"]}
    sides: list[tuple[EngineTier, str, dict[str, Any]]] = [
        ("prefill", "kv_producer", backends), ("decode", "kv_consumer", {**backends, "num_threads": 2}),
    ]  # fmt: skip
    for tier, role, options in sides:
        nixl = {"kv_connector": "NixlConnector", "kv_role": role, "kv_connector_extra_config": options}
        assert told(tier, *changes) == {
            "kv_connector": "MultiConnector", "kv_role": role, "kv_load_failure_policy": "fail",
            "kv_connector_extra_config": {"connectors": [nixl, offloading]},
        }  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [[("connector.name", "multi")], [("connector.name", "custom")], [("connector.name", "offloading")],
     [("topology", "collocated"), ("connector.name", "multi"),
      ("connector.inner", ["nixl", {"name": "offloading", "cpuGib": 1}])]],
)  # fmt: skip
def test_what_lacks_a_part_is_not_rendered(changes: list[tuple[str, Any]]) -> None:
    spec = serving(*changes)
    with pytest.raises(ValueError, match=r"multi|custom|offloading"):
        transfer_config(spec, "collocated" if spec.topology == "collocated" else "prefill")


def environment(*changes: tuple[str, Any]) -> list[dict[str, Any]]:
    return connector_environment(serving(*changes), "prefill")


def test_variables_are_those_of_the_connectors_in_use() -> None:
    assert [one["name"] for one in environment(("connector.name", "mooncake"))] == ["VLLM_MOONCAKE_BOOTSTRAP_PORT"]
    several = environment(("connector.name", "multi"), ("connector.inner", ["nixl", "lmcache"]))
    assert [one["name"] for one in several] == [
        "VLLM_NIXL_SIDE_CHANNEL_HOST", "VLLM_NIXL_SIDE_CHANNEL_PORT", "PYTHONHASHSEED",
    ]  # fmt: skip
    assert several[0]["valueFrom"] == {"fieldRef": {"fieldPath": "status.podIP"}}
    assert several[1]["value"] == "5600"


def test_ports_follow_the_ranks() -> None:
    engine = replace(serving().tiers["prefill"].engine, tensor_parallel=4, data_parallel=2)
    assert port_numbers(PROFILES["nixl"], engine, "decode") == [("side-channel", 5600), ("side-channel", 5601)]
    assert port_numbers(PROFILES["mooncake"], engine, "prefill") == [("bootstrap", 5600)]
    assert port_numbers(PROFILES["mooncake"], engine, "decode") == []
    assert len(port_numbers(PROFILES["moriio"], engine, "decode")) == 2 * 5


def two(*names: str) -> Chosen:
    return Chosen("multi", inner=tuple(Chosen(name) for name in names))


def test_multi_is_measured_and_dispatched_as_the_child_between_the_tiers() -> None:
    for name in ("nixl", "nixl-push", "mooncake-store"):
        chosen = two(name, "offloading")
        assert measurement(chosen, "prefill-decode") == PROFILES[name].measurement
        assert requests(chosen, "prefill-decode") == PROFILES[name].requests
    assert mover(two("mooncake-store", "nixl")) is PROFILES["nixl"]
    assert mover(two("offloading", "simple-offloading")) is None


def test_every_connector_between_tiers_has_a_proxy_that_dispatches_for_it_or_says_why_not() -> None:
    for profile in PROFILES.values():
        asked = profile.requests
        assert (asked.dispatch == "none") == (profile.moves == "to-host"), profile.name
        assert asked.router in ("nixl", "mooncake", "moriio"), "vllm-router 0.1.17 knows no other"
        assert asked.routed != "no" or len(asked.why) > 40
    gateway = {name: PROFILES[name].requests.gateway for name in ("nixl", "nixl-push", "mooncake")}
    assert gateway == {
        "nixl": (),
        "nixl-push": ("--dispatch", "concurrent"),
        "mooncake": ("--dispatch", "bootstrap", "--bootstrap-port", "$port"),
    }


def test_the_gateway_knows_the_flags_that_profiles_give_it() -> None:
    from components.gateway.settings import parser

    for profile in PROFILES.values():
        flags = ["5600" if flag == "$port" else flag for flag in profile.requests.gateway or ()]
        parser().parse_args(flags)


def test_a_connector_without_figures_says_why_and_gives_none() -> None:
    for profile in PROFILES.values():
        how = profile.measurement
        figures = {"ms", "bytes", "transfers", "failed"}
        assert figures <= how.series.keys() or how.unmeasured or profile.moves == "to-host", profile.name
        if how.unmeasured:
            assert how.unmeasured.startswith("can't be measured, because ") and not figures & how.series.keys()


def test_a_measurement_is_plain_data() -> None:
    push = measurement(Chosen("nixl-push"), "prefill-decode").to_json()
    assert json.loads(json.dumps(push)) == push
    assert push["side"] == "prefill" and push["dispatch"] == "sequential" and push["sameRequestId"]
    assert push["series"]["failed"]["sides"] == ["prefill", "decode"]
    assert push["series"]["external_tokens"]["sides"] == ["decode"]
    assert measurement(Chosen("offloading"), "collocated").to_json()["unmeasured"] is None


def test_one_child_without_the_hybrid_manager_turns_it_off() -> None:
    assert supports_hybrid(two("nixl", "offloading")) is True
    assert supports_hybrid(two("nixl", "lmcache")) is False
    assert supports_hybrid(two("nixl", "custom")) is None


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == connector_table(), "run: python -m components.serving.connectors.table"
