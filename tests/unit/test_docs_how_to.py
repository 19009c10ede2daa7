"""What the how-tos say to do is done, as they say it: a new instance type, a new connector, a way back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import yaml

from components.hardware import catalogue as catalogue_file
from components.hardware.catalogue import UnknownInstance, catalogue, instance
from components.hardware.interfaces import layout
from components.release.ledger import Ledger, Quarantined, plan_update
from components.serving.connectors import table
from components.serving.connectors.chosen import Chosen
from components.serving.connectors.environment import connector_environment, port_numbers
from components.serving.connectors.profile import ConnectorProfile, Place
from components.serving.connectors.profiles import PROFILES, mover
from components.serving.connectors.transfer_config import connector_json
from infra.rules.all_rules import check
from tests.unit.documents import fences
from tests.unit.plans import changed, make_plan, prod, stack_values
from tests.unit.test_connectors import serving
from tests.unit.test_ledger import FAIL, GATE, PASS, after, live_id, release

TYPE = "p9.48xlarge"


@pytest.fixture
def entry(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The page's entry, in a copy of the catalogue."""
    [block] = [fence.content for fence in fences("docs/how-to/add-an-instance-type.md") if fence.language == "json"]
    content = json.loads(catalogue_file.FILE.read_text())
    content["instances"] |= json.loads(block)
    file = tmp_path / "instances.json"
    file.write_text(json.dumps(content))
    monkeypatch.setattr(catalogue_file, "FILE", file)
    _forget()
    yield json.loads(block)[TYPE]
    monkeypatch.undo()
    _forget()


def _forget() -> None:
    for cached in (catalogue_file.catalogue, catalogue_file._content):
        cached.cache_clear()


def test_an_instance_type_that_is_added_as_the_page_says_can_be_planned_with(entry: dict[str, Any]) -> None:
    found = instance(TYPE)
    assert (found.efa_interfaces, found.gbit_per_s_per_gpu, len(found.cards)) == (16, 800, 16)
    assert {**found.to_json(), "name": None} == {**entry, "name": None}, "it is written as it is read"
    interfaces = layout(found)
    assert sum(one.carries_efa for one in interfaces) == 16 and interfaces[0].kind == "interface"
    groups = "platform.aws.nodeGroups"
    plan = prod(
        ("platform.aws.region", "us-west-2"), ("platform.aws.zone", "us-west-2a"),
        ("platform.aws.loadBalancerZones", ["us-west-2a", "us-west-2b"]),
        (f"{groups}.prefill.instance", TYPE), (f"{groups}.decode.instance", TYPE),
        ("engine.resources.extended", {"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 16}),
    )  # fmt: skip
    assert [str(finding) for finding in check(plan) if finding.severity == "error"] == []
    expected = plan.expected(8192)
    assert expected and expected.fresh_ms < 8, "twice as fast as p5.48xlarge"


def test_without_the_entry_it_is_unknown() -> None:
    assert TYPE not in catalogue()
    with pytest.raises(UnknownInstance):
        instance(TYPE)


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> ConnectorProfile:
    """The page's profile, among the others."""
    [block] = [fence.content for fence in fences("docs/how-to/add-a-connector.md") if fence.language == "python"]
    made: dict[str, Any] = {}
    exec(compile(block, "add-a-connector.md", "exec"), made)
    profile: ConnectorProfile = made["EXAMPLE"]
    monkeypatch.setitem(PROFILES, profile.name, profile)
    return profile


def test_a_connector_that_is_added_as_the_page_says_is_rendered_and_measured(example: ConnectorProfile) -> None:
    chosen, plan = Chosen(example.name, options={"fetch_threads": 4}), serving()
    engine = plan.tiers["prefill"].engine
    told = connector_json(chosen, Place("decode", engine, "UCX"))
    assert told == {"kv_connector": "ExampleKvConnector", "kv_role": "kv_consumer",
                    "kv_connector_extra_config": {"fetch_threads": 4}}  # fmt: skip
    assert mover(chosen) is example and example.measurement.unmeasured is None
    assert port_numbers(example, engine, "prefill") == [("fetch", engine.side_channel_port)]
    page = table.connector_table()
    assert "## example" in page and "vllm:example_fetch_seconds_sum" in page and "equal tensor-parallel sizes" in page


def test_its_variables_reach_the_pods(example: ConnectorProfile) -> None:
    plan = replace(serving(), connector=example.name, connector_parts=None)
    variables = {one["name"]: one for one in connector_environment(plan, "prefill")}
    assert variables["EXAMPLE_PORT"]["value"] == str(plan.tiers["prefill"].engine.side_channel_port)
    assert variables["EXAMPLE_HOST"]["valueFrom"]["fieldRef"]["fieldPath"] == "status.podIP"


def test_a_class_of_ones_own_needs_no_code_and_passes_only_if_it_may() -> None:
    blocks = [fence.content for fence in fences("docs/how-to/add-a-connector.md") if fence.language == "yaml"]
    settings = {key.removeprefix("splitserve:"): value for key, value in yaml.safe_load(blocks[0]).items()}
    changes = [(f"{section}.{key}", value) for section, values in settings.items() for key, value in values.items()]
    plan = make_plan(changed(stack_values("onprem"), *changes), "qwen3-32b")
    assert [str(finding) for finding in check(plan) if finding.severity == "error"] == []
    refused = [change for change in changes if change[0] != "gate.unmeasured"]
    plan = make_plan(changed(stack_values("onprem"), *refused), "qwen3-32b")
    assert "connector-measured" in {finding.rule for finding in check(plan) if finding.severity == "error"}


@pytest.mark.parametrize(
    ("page", "number"), [("use-your-own-cluster", 0), ("use-your-own-cluster", 1), ("use-an-infiniband-cluster", 0)]
)
def test_the_pages_on_clusters_of_ones_own_show_plans_without_a_fault(page: str, number: int) -> None:
    """Image and model, where a block leaves them out, are the InfiniBand example's."""
    block = [fence.content for fence in fences(f"docs/how-to/{page}.md") if fence.language == "yaml"][number]
    config = yaml.safe_load(block.replace("…", "0" * 64))["config"]
    example = {key: stack_values("onprem")[key] for key in ("image", "model")}
    values = example | {key.removeprefix("splitserve:"): value for key, value in config.items()}
    plan = make_plan(values, "qwen3-0.6b" if "splitserve:model" in config else "qwen3-32b")
    assert [str(finding) for finding in check(plan) if finding.severity == "error"] == []


def test_the_earlier_settings_are_a_candidate_again_and_live_once_they_pass() -> None:
    ledger = after(after(Ledger(), "good", PASS), "bad", PASS)
    assert live_id(ledger) == "bad"
    plan = plan_update(ledger, release("good"), GATE["retry"])
    assert plan.candidate == release("good") and plan.live == ledger.live, "measured beside the live one"
    back = after(ledger, "good", PASS)
    assert live_id(back) == "good" and [entry["id"] for entry in back.history] == ["good", "bad", "good"]
    assert live_id(after(ledger, "good", FAIL)) == "bad", "the live one keeps the traffic"


def test_a_quarantined_release_is_measured_again_by_one_retry_more() -> None:
    ledger = after(after(after(Ledger(), "good", PASS), "slow", FAIL), "good", PASS)
    with pytest.raises(Quarantined, match=r"set gate\.retry to 1"):
        plan_update(ledger, release("slow"), 0)
    assert plan_update(ledger, release("slow"), 1).candidate == release("slow")
