"""The package's schema is the stack file's own, and what it adds to a program's resources."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from pulumi.output import UNKNOWN
from pulumi.runtime import rpc

from components.release import ledger_record
from components.release.ledger import Ledger
from infra.naming import owner, owner_of
from infra.package.admission import AdmissionProvider
from infra.package.hosted import PROVIDERS
from infra.package.provider import Package
from infra.package.schema import sections
from infra.package.servicer import _provider
from infra.package.serving import unknown
from infra.settings import Settings

SECTIONS = sections(Settings)
LABEL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    return json.loads(Package().schema or "")


def described(schema: dict[str, Any], section: str) -> tuple[dict[str, Any], set[str]]:
    """Properties and required ones; the settings themselves are the component's inputs."""
    if section == "Settings":
        serving = schema["resources"]["splitserve:index:Serving"]
        return serving["inputProperties"], set(serving["requiredInputs"])
    found = schema["types"][f"splitserve:index:{section}"]
    return found["properties"], set(found.get("required") or [])


@pytest.mark.parametrize("name", SECTIONS)
def test_a_section_has_the_stack_files_keys_requirements_and_words(schema: dict[str, Any], name: str) -> None:
    properties, required = described(schema, name)
    fields = SECTIONS[name].model_fields
    assert set(properties) == {field.alias for field in fields.values()}
    assert required == {field.alias for field in fields.values() if field.is_required()}
    for field in fields.values():
        told = " ".join((field.description or "").split())
        assert properties[field.alias or ""].get("description", "").startswith(told)


def test_only_free_form_options_may_be_anything(schema: dict[str, Any]) -> None:
    """Everything else has a type that a compiler can hold a program against."""
    free = {
        f"{name}.{key}" for name in SECTIONS for key, value in described(schema, name)[0].items()
        if "pulumi.json#/Any" in json.dumps(value)
    }  # fmt: skip
    assert free == {"Tier.connectorOptions", "Connector.options", "InnerConnector.options"}


def test_a_default_is_told_where_it_is_a_plain_value(schema: dict[str, Any]) -> None:
    gate, _ = described(schema, "Gate")
    assert gate["samples"]["description"].endswith("Default: 5.")
    engine, _ = described(schema, "Engine")
    assert engine["enforceEager"]["description"] == "Default: false."
    assert "Default" not in described(schema, "Volume")[0]["claim"]["description"]


def test_choices_have_a_name_for_each_word(schema: dict[str, Any]) -> None:
    for token, found in schema["types"].items():
        names = [value["name"] for value in found.get("enum") or []]
        assert len(names) == len(set(names)) and all(name.isidentifier() for name in names), token


def test_a_refusal_fails_the_engines_check_and_nothing_else_does() -> None:
    (failure,) = AdmissionProvider().check({}, {"refusal": "slow-link"}).failures
    assert failure.reason == "slow-link"
    for passing in ("", None, rpc.UNKNOWN, UNKNOWN):
        assert AdmissionProvider().check({}, {"refusal": passing}).failures == []


@pytest.mark.parametrize("name", ["KvGate", "FleetCheck", "Drain"])
def test_a_hosted_resource_does_what_the_dynamic_one_does(name: str) -> None:
    chain = f"splitserve:index:Serving$splitserve:serving:chat$splitserve:release:{name}"
    found = _provider(f"urn:pulumi:prod::team::{chain}::{name}-r1")
    assert found is PROVIDERS[f"splitserve:release:{name}"] and type(found).__name__ == f"{name}Provider"


def test_the_ledger_is_written_whole_and_again_only_when_it_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[str, Any] = {}

    class FakeCluster:
        def __init__(self, access: Any) -> None:
            assert (access.kubeconfig, access.context, access.namespace) == ("k", None, "team")

        def record(self, name: str, content: dict[str, Any]) -> None:
            kept[name] = content

        def remove_record(self, name: str) -> None:
            del kept[name]

    monkeypatch.setattr(ledger_record, "Cluster", FakeCluster)
    provider = ledger_record.LedgerRecordProvider()
    ledger = Ledger(quarantined={"r1": {"cause": "slow-link", "fix": "", "retry": 0.0, "gate": {}}}).to_json()
    props = {"kubeconfig": "k", "namespace": "team", "ledger": ledger}
    made = provider.create(props)
    assert kept == {ledger_record.NAME: ledger} and made.id == f"team/{ledger_record.NAME}"
    assert not provider.diff(made.id, props, {**props, "kubeconfig": "elsewhere"}).changes
    assert provider.diff(made.id, props, {**props, "ledger": {}}).changes
    assert provider.diff(made.id, props, {**props, "namespace": "other"}).replaces == ["namespace"]
    provider.delete(made.id, props)
    assert kept == {}


def test_unknown_settings_are_named_by_their_paths() -> None:
    values = {
        "note": UNKNOWN,
        "engine": {"port": 8000, "environment": {"A": UNKNOWN}},
        "decode": {"extraArgs": ["", UNKNOWN]},
    }
    assert unknown(values) == ["note", "engine.environment.A", "decode.extraArgs[1]"]
    assert unknown({"note": "known"}) == []


def test_a_components_owner_is_its_own_however_long_its_names_are() -> None:
    assert owner_of("org", "chat", "prod", "llm") == "org.chat.prod.llm"
    long = [owner_of("organization", "a-project-of-a-long-name", "production-europe", f"serving-{n}") for n in "ab"]
    assert long[0] != long[1] and all(LABEL.fullmatch(one) for one in long)
    assert owner("organization", "prod") == "organization.splitserve.prod"
