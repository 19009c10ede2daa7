"""Every rule of the policy pack by cases: what violates it, what satisfies it, what a preview can't decide.

The cases are in `test_policies_*.py` by subject, as `CASES`. They run as the engine runs a rule: through
protobuf (so that numbers are floats) and behind the proxy that raises on unknown values.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format, struct_pb2
from pulumi_policy import (
    EnforcementLevel,
    Policy,
    PolicyProviderResource,
    PolicyResource,
    PolicyResourceOptions,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    StackValidationArgs,
    StackValidationPolicy,
)
from pulumi_policy.deserialize import deserialize_properties
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE, UnknownValueError, unknown_checking_proxy

from components.hardware.catalogue import catalogue
from policies.all_rules import rules
from policies.cost import BILLED
from policies.gpu_groups import NODES_LABEL, is_gpu_type
from policies.stacks import is_production
from policies.table import policy_table

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
UNKNOWN = UNKNOWN_STRING_VALUE
OPTIONS = PolicyResourceOptions(False, [], False, [], None, [], None)  # type: ignore[arg-type]
VIOLATES, SATISFIES, UNDECIDED = "violates", "satisfies", "undecided"


@dataclass(frozen=True)
class Made:
    """One resource. `depends` names the resources that a property comes from."""

    kind: str
    props: Mapping[str, Any]
    name: str = "it"
    depends: Mapping[str, Sequence[Made]] = field(default_factory=dict)
    default_tags: Any = None

    def urn(self, stack: str) -> str:
        return f"urn:pulumi:{stack}::splitserve::{self.kind}::{self.name}"


@dataclass(frozen=True)
class Case:
    """Resources that a rule judges, and the words that its findings must hold."""

    rule: str
    outcome: str
    title: str
    resources: Sequence[Made]
    words: Sequence[str] = ()
    stack: str = "dev"
    settings: Mapping[str, Any] = field(default_factory=dict)


def wired(props: Mapping[str, Any]) -> Any:
    """Properties as they reach a rule (pulumi_policy 1.21, policy.py, Analyze)."""
    message = struct_pb2.Struct()
    json_format.ParseDict(dict(props), message)
    return unknown_checking_proxy(deserialize_properties(json_format.MessageToDict(message)))


def policy_of(rule: str) -> Policy:
    return {known.name: known.policy for known in rules()}[rule]


def judge(case: Case) -> tuple[list[str], bool]:
    """The violations, and whether an unknown value was told."""
    found: list[str] = []
    unknown = False
    policy = policy_of(case.rule)
    assert isinstance(policy, (ResourceValidationPolicy, StackValidationPolicy))
    for arguments in _arguments(case, policy):
        try:
            policy.validate(arguments, lambda message, urn=None: found.append(message))  # type: ignore[arg-type]
        except UnknownValueError:
            unknown = True
    return found, unknown


def _arguments(case: Case, policy: Policy) -> Iterator[ResourceValidationArgs | StackValidationArgs]:
    if isinstance(policy, StackValidationPolicy):
        yield StackValidationArgs(_stack(case), case.settings)
        return
    for made in case.resources:
        props, urn = wired(made.props), made.urn(case.stack)
        yield ResourceValidationArgs(made.kind, props, urn, made.name, OPTIONS, _provider(made), case.settings)


def _provider(made: Made) -> PolicyProviderResource | None:
    if made.default_tags is None:
        return None
    return PolicyProviderResource("pulumi:providers:aws", wired({"defaultTags": made.default_tags}), "urn", "aws")


def _stack(case: Case) -> list[PolicyResource]:
    by_urn = {
        made.urn(case.stack): PolicyResource(
            made.kind, wired(made.props), made.urn(case.stack), made.name, OPTIONS, None, None, [], {}
        )
        for made in case.resources
    }
    for made in case.resources:
        for key, sources in made.depends.items():
            targets = [by_urn[source.urn(case.stack)] for source in sources]
            by_urn[made.urn(case.stack)].property_dependencies[key] = targets
    return list(by_urn.values())


def all_cases() -> list[Case]:
    names = sorted(path.stem for path in HERE.glob("test_policies_*.py"))
    return [case for name in names for case in importlib.import_module(f"tests.unit.{name}").CASES]


def hold(case: Case) -> None:
    """Assert that the rule says of the case what the case says."""
    found, unknown = judge(case)
    if case.outcome == VIOLATES:
        assert found
        text = "\n".join(found)
        for word in (": found ", ", wanted ", "; ", *case.words):
            assert word in text, text
    else:
        assert found == []
        assert unknown == (case.outcome == UNDECIDED)


def titled(cases: Sequence[Case]) -> Any:
    """Parametrize a subject's test."""
    return pytest.mark.parametrize("case", cases, ids=[f"{c.rule} {c.outcome}: {c.title}" for c in cases])


@pytest.mark.parametrize("rule", [rule.name for rule in rules()])
@pytest.mark.parametrize("outcome", [VIOLATES, SATISFIES])
def test_each_rule_has_a_case_of_both_kinds(rule: str, outcome: str) -> None:
    assert [case for case in all_cases() if (case.rule, case.outcome) == (rule, outcome)]


def test_each_case_is_of_a_rule_in_the_pack() -> None:
    assert {case.rule for case in all_cases()} == {rule.name for rule in rules()}


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.name)
def test_each_rule_says_what_it_wants_and_the_way_out(rule: Any) -> None:
    assert rule.policy.description == rule.what and rule.what.endswith(".")
    assert rule.policy.remediation_steps and rule.source
    assert rule.policy.url and rule.policy.url[-1] not in ",;:)"
    assert rule.policy.enforcement_level == EnforcementLevel(rule.level)
    schema = rule.policy.config_schema
    assert set(schema.properties if schema else {}) == {setting.name for setting in rule.settings}


def test_rule_names_are_unique() -> None:
    names = [rule.name for rule in rules()]
    assert len(set(names)) == len(names)


def test_the_reference_page_is_the_table() -> None:
    page = (ROOT / "docs/reference/policies.md").read_text()
    assert page == policy_table(), "run: python -m policies.table > docs/reference/policies.md"
    for rule in rules():
        assert f"| `{rule.name}` | {rule.level} |" in page


def test_the_billed_types_are_taggable_types_of_pulumi_aws() -> None:
    sdk = importlib.import_module("pulumi_aws")
    for kind in BILLED:
        module = importlib.import_module(f"{sdk.__name__}.{kind.split(':')[1].split('/')[0]}")
        resource = getattr(module, kind.rsplit(":")[-1])
        assert resource.pulumi_type == kind
        assert hasattr(resource, "tags"), kind


def test_the_nodes_label_is_the_one_that_node_groups_get() -> None:
    generations = importlib.import_module("components.platform.node_generation")
    assert generations.NODES_LABEL.format("prefill") == f"{NODES_LABEL}prefill"


def test_every_type_of_the_catalogue_is_a_gpu_type_and_cpu_types_are_not() -> None:
    assert all(is_gpu_type(name) for name in catalogue())
    assert is_gpu_type("p7.48xlarge")
    assert not any(is_gpu_type(name) for name in ("m7i.4xlarge", "c7gn.16xlarge", "r7g.2xlarge"))


@pytest.mark.parametrize(
    ("stack", "expected"),
    [("prod", True), ("production", True), ("prod-eu", True), ("eu-prod", True), ("dev", False), ("nonprod", False)],
)
def test_production_is_told_by_the_stacks_name(stack: str, expected: bool) -> None:
    assert is_production(stack, ["prod"]) is expected
