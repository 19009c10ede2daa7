"""Faults in the choice of a connector: the plan that has one is refused, or warned of, with its message."""

from __future__ import annotations

from typing import Any

import pytest

from infra.rules import connector
from infra.rules.all_rules import check, of_subject
from tests.unit.plans import changed, found, make_plan, prod, stack_values

Change = tuple[str, Any]
MULTI: list[Change] = [("connector.name", "multi")]
NIXL_AND_HOST: list[Change] = [
    *MULTI, ("connector.inner", ["nixl", {"name": "offloading", "cpuGib": 32}]),
]  # fmt: skip
STORE: list[Change] = [
    ("connector.name", "mooncake-store"), ("engine.environment", {"MOONCAKE_CONFIG_PATH": "/etc/mooncake.json"}),
]  # fmt: skip

# name of the fault: (rule, changes to the right plan, words of the message)
FAULTS: dict[str, tuple[str, list[Change], str]] = {
    "a_connector_that_no_router_dispatches": (
        "connector-built", [("connector.name", "mooncake")], "found mooncake, wanted one of: nixl, nixl-push"),
    "a_connector_that_no_router_dispatches_inside_another": (
        "connector-built", [*MULTI, ("connector.inner", ["mooncake"])], "found mooncake, wanted one of"),
    "amds_engine_behind_vllm_router": (
        "connector-built", [("connector.name", "moriio")], "found moriio, wanted one of: nixl, nixl-push"),
    "a_transfer_that_leaves_no_figure": (
        "connector-measured", [("connector.name", "lmcache"), ("connector.options", {"lmcache.remote_url": "redis://r"})],
        "can't be measured, because vLLM exports nothing"),
    "a_connector_that_nobody_proved": (
        "connector-unproven", [("connector.name", "flexkv")], "connector.name: found flexkv, wanted one of: nixl"),
    "a_child_that_nobody_proved": (
        "connector-unproven", [*MULTI, ("connector.inner", ["nixl", "moriio"])], "connector.inner: found moriio"),
    "nothing_inside": ("connector-parts", MULTI, "connector.inner: found nothing, wanted the connectors inside"),
    "something_inside_of_nixl": (
        "connector-parts", [("connector.inner", ["offloading"])], "found 1 connectors, with nixl, wanted none"),
    "one_connector_twice": (
        "connector-parts", [*MULTI, ("connector.inner", ["nixl", "nixl"])], "found nixl twice"),
    "a_class_without_its_module": (
        "connector-parts", [("connector.name", "custom"), ("connector.className", "Mine")],
        "found None and Mine, wanted the Python module"),
    "a_module_of_nixl": ("connector-parts", [("connector.module", "my.module")], "found my.module, with nixl"),
    "offloading_without_a_size": (
        "connector-parts", [*MULTI, ("connector.inner", ["nixl", "offloading"])],
        "connector.inner.offloading.cpuGib: found not set, wanted the host memory"),
    "a_size_that_nixl_has_no_use_for": ("connector-parts", [("connector.cpuGib", 4)], "found 4, with nixl"),
    "options_of_multi_that_belong_to_nobody": (
        "connector-parts", [*NIXL_AND_HOST, ("connector.options", {"kv_lease_duration": 60})],
        "wanted options by the name of a connector inside"),
    "options_for_a_connector_that_is_not_inside": (
        "connector-parts", [*NIXL_AND_HOST, ("decode.connectorOptions", {"mooncake-store": {}})],
        "decode.connectorOptions.mooncake-store: found {}"),
    "offloading_alone_moves_nothing": (
        "connector-moves", [("connector.name", "offloading"), ("connector.cpuGib", 32)],
        "connector.name: found offloading, wanted a connector between the tiers"),
    "two_kinds_of_offloading_move_nothing": (
        "connector-moves", [*MULTI, ("connector.inner", [{"name": name, "cpuGib": 4} for name in connector.OFFLOADING])],
        "found offloading, simple-offloading, wanted"),
    "a_host_hit_that_keeps_nixl_from_loading": (
        "multi-order", [*MULTI, ("connector.inner", [{"name": "offloading", "cpuGib": 32}, "nixl"])],
        "found offloading, nixl, wanted nixl first"),
    "mooncake_statistics_end_the_output_loop": (
        "multi-children", [*MULTI, ("connector.inner", ["mooncake"])], "found mooncake, wanted a connector with Prom"),
    "two_layouts_of_one_cache": (
        "multi-children", [*MULTI, ("connector.inner", ["nixl", {"name": "offloading", "cpuGib": 32,
                                                                 "options": {"canonical_layout": True}}])],
        "found true, wanted false"),
    "nixl_without_another_side": (
        "collocated-connector", [("topology", "collocated"), ("connector.name", "nixl-push")],
        "found nixl-push, with topology collocated"),
    "nixl_inside_without_another_side": (
        "collocated-children", [("topology", "collocated"), *NIXL_AND_HOST], "connector.inner: found nixl, with topology"),
    "an_image_without_lmcache": (
        "connector-package", [("connector.name", "lmcache"), ("imageContents.packages", ["mooncake_transfer_engine"])],
        "found mooncake_transfer_engine, wanted lmcache, for `import lmcache`"),
    "an_image_that_nobody_described": (
        "connector-package-unknown", [("connector.name", "lmcache")], "found not set, wanted lmcache among them"),
    "verbs_over_efa": (
        "mooncake-protocol", [("connector.name", "mooncake")], "mooncake_protocol: found rdma, wanted efa or tcp"),
    "amds_engine_on_nvidia": (
        "moriio-hardware", [("connector.name", "moriio")], "found moriio, with H100 (prefill), wanted AMD GPUs"),
    "push_with_context_parallelism": (
        "push-context-parallel",
        [("connector.name", "nixl-push"), ("decode.extraArgs", ["--decode-context-parallel-size", "2"])],
        "decode.extraArgs: found --decode-context-parallel-size 2, wanted 1"),
    "push_to_a_rank_that_is_not_chosen_yet": (
        "concurrent-data-parallel",
        [("connector.name", "nixl-push"), ("prefill.engine.parallel", {"tensor": 4, "data": 2})],
        "prefill.engine.parallel.data: found 2, wanted 1"),
    "a_store_that_nobody_named": (
        "store-shared", [("connector.name", "mooncake-store")], "wanted one of MOONCAKE_CONFIG_PATH"),
    "lmcache_that_keeps_to_itself": (
        "store-shared", [("connector.name", "lmcache")], "lmcache (decode): found no store named"),
    "more_host_cache_than_shared_memory": (
        "offload-fits", [*MULTI, ("connector.inner", ["nixl", {"name": "offloading", "cpuGib": 64}])],
        "prefill.resources.shm: found 64Gi, wanted more than 64Gi"),
    "more_host_cache_than_memory": (
        "offload-fits", [*MULTI, ("connector.inner", ["nixl", {"name": "simple-offloading", "cpuGib": 1000}])],
        "prefill.resources.memory: found 1000Gi"),
    "an_option_that_nobody_reads": (
        "options-known", [("connector.options", {"kv_leese_duration": 60})],
        "connector.options.kv_leese_duration: found an option of nixl"),
    "a_top_level_key_inside_of_a_child": (
        "options-at-top-level",
        [*MULTI, ("connector.inner", [{"name": "nixl", "options": {"kv_load_failure_policy": "fail"}}])],
        "connector.inner.nixl.options.kv_load_failure_policy"),
    "ucx_on_efa_inside_of_another": (
        "efa-backend", [*MULTI, ("connector.inner", ["nixl"]), ("connector.backend", "UCX")], "wanted LIBFABRIC on EFA"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_with_its_message(fault: str) -> None:
    rule, changes, words = FAULTS[fault]
    messages = [str(finding) for finding in found(prod(*changes), rule)]
    assert any(words in message for message in messages), (rule, messages, [str(f) for f in check(prod(*changes))])


# name: (changes, the warnings that remain)
RIGHT: dict[str, tuple[list[Change], set[str]]] = {
    "push": ([("connector.name", "nixl-push")], set()),
    "nixl_and_host_memory": (NIXL_AND_HOST, set()),
    "nixl_and_a_store": (
        [*STORE, *MULTI, ("connector.inner", ["nixl", "mooncake-store"]),
         ("imageContents.packages", ["mooncake-transfer-engine==0.3.13"]),
         ("decode.connectorOptions", {"mooncake-store": {"save_decode_cache": True}})], {"connector-unproven"}),
    "a_store_between_the_tiers": ([*STORE, ("imageContents.packages", ["mooncake_transfer_engine"])],
                                  {"connector-unproven"}),
    "nothing_named_and_collocated": ([("topology", "collocated")], set()),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_choice_has_no_fault(name: str) -> None:
    changes, warned = RIGHT[name]
    # What prod has of two tiers is not about the connector.
    mine = {rule.id for rule in of_subject(connector)}
    assert {finding.rule for finding in check(prod(*changes)) if finding.rule in mine} == warned


def test_what_the_gate_can_not_measure_is_refused_until_it_is_accepted() -> None:
    assert found(prod(("connector.name", "lmcache")), "connector-measured")
    accepted = prod(("connector.name", "lmcache"), ("gate.unmeasured", "accept-content-only"))
    assert not found(accepted, "connector-measured")


@pytest.mark.parametrize("name", ["moriio", "mooncake"])
def test_the_gateway_dispatches_for_what_the_router_does_not(name: str) -> None:
    assert not found(prod(("connector.name", name), ("render.replicas", 1)), "connector-built")


HYBRID = "qwen3-next-80b-a3b"
WINDOWED = "gpt-oss-120b"


def test_a_model_with_states_needs_the_hybrid_cache_manager() -> None:
    values = changed(stack_values("prod"), ("connector.name", "lmcache"))
    assert "the engine would not start" in str(found(make_plan(values, HYBRID), "connector-hybrid")[0])
    assert not found(make_plan(values, WINDOWED), "connector-hybrid")
    assert found(make_plan(values, WINDOWED), "connector-window-memory")
    assert not found(make_plan(stack_values("prod"), HYBRID), "connector-hybrid")


def test_moriio_writes_only_full_attention() -> None:
    written = changed(stack_values("prod"), ("connector.name", "moriio"), ("connector.options", {"read_mode": False}))
    assert "wanted true for this model" in str(found(make_plan(written, WINDOWED), "connector-hybrid")[0])
    assert not found(make_plan(written, "llama-3.1-70b"), "connector-hybrid")


@pytest.mark.parametrize(("gpu", "right"), [("MI300X", True), ("AMD Instinct MI355X", True), ("H100", False)])
def test_moriio_is_for_amd(gpu: str, right: bool) -> None:
    values = changed(stack_values("onprem"), ("connector.name", "moriio"), ("platform.hardware.gpu", gpu))
    assert bool(found(make_plan(values, "qwen3-32b"), "moriio-hardware")) != right


def test_mooncake_on_verbs_may_use_them_and_without_may_not() -> None:
    verbs = changed(stack_values("onprem"), ("connector.name", "mooncake"))
    assert not found(make_plan(verbs, "qwen3-32b"), "mooncake-protocol")
    local = changed(stack_values("local"), ("connector.name", "mooncake"))
    assert "found rdma, wanted tcp" in str(found(make_plan(local, "qwen3-0.6b"), "mooncake-protocol")[0])
    tcp = changed(local, ("decode.connectorOptions", {"mooncake_protocol": "tcp"}))
    tiers = found(make_plan(tcp, "qwen3-0.6b"), "mooncake-protocol")
    assert tiers, "the prefill tier still has none"
