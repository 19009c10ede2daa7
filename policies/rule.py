"""What a rule of the pack is: a plain function from what Pulumi is about to do to findings.

`resource_rule` looks at one resource's inputs, before its step at preview and at update. `stack_rule`
looks at all resources together, at the end of both. Pulumi's numbers arrive as floats and its unknown
values raise UnknownValueError on access (pulumi_policy 1.21, policy.py and proxy.py): see unknown.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pulumi_policy import (
    EnforcementLevel,
    Policy,
    PolicyConfigSchema,
    PolicyProviderResource,
    PolicyResource,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    StackValidationArgs,
    StackValidationPolicy,
)

Level = Literal["mandatory", "advisory"]
"""`mandatory` where money, data or the KV path is at stake: it stops. `advisory` is shown."""


@dataclass(frozen=True)
class Setting:
    """One key of a rule's policy configuration. The default's type is the type."""

    name: str
    default: Any
    what: str

    def schema(self) -> dict[str, Any]:
        shapes: dict[type, dict[str, Any]] = {
            bool: {"type": "boolean"},
            int: {"type": "integer"},
            list: {"type": "array", "items": {"type": "string"}},
            dict: {"type": "object"},
        }
        return {**shapes[type(self.default)], "description": self.what, "default": self.default}


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong. `fix` in place of the rule's own way out, `at` is a stack rule's resource."""

    found: str
    wanted: str
    fix: str = ""
    at: PolicyResource | None = None


@dataclass(frozen=True)
class Resource:
    """One resource as a resource rule sees it: inputs after the provider's check, and settings."""

    kind: str
    name: str
    props: Mapping[str, Any]
    stack: str
    settings: Mapping[str, Any]
    provider: PolicyProviderResource | None = None


@dataclass(frozen=True)
class Stack:
    """All resources as a stack rule sees them: outputs, and settings."""

    resources: Sequence[PolicyResource]
    name: str
    settings: Mapping[str, Any]

    def of(self, *kinds: str) -> list[PolicyResource]:
        return [resource for resource in self.resources if resource.resource_type in kinds]


@dataclass(frozen=True)
class Rule:
    """`what` says in one sentence what holds when the rule is content."""

    name: str
    level: Level
    what: str
    fix: str
    source: str
    settings: tuple[Setting, ...]
    policy: Policy


def stack_name(urn: str) -> str:
    """The stack of `urn:pulumi:STACK::PROJECT::TYPE::NAME`; it is told to a policy in no other way."""
    return urn.split("::")[0].removeprefix("urn:pulumi:")


def where(kind: str, name: str) -> str:
    return f"{kind.rsplit(':')[-1]} `{name}`"


def _values(settings: Sequence[Setting], given: Mapping[str, Any]) -> dict[str, Any]:
    return {s.name: given.get(s.name, s.default) for s in settings}


def _policy_arguments(rule: Mapping[str, Any]) -> dict[str, Any]:
    settings: Sequence[Setting] = rule["settings"]
    source: str = rule["source"]
    return {
        "name": rule["name"],
        "description": rule["what"],
        "enforcement_level": EnforcementLevel(rule["level"]),
        "remediation_steps": rule["fix"],
        "config_schema": PolicyConfigSchema({s.name: s.schema() for s in settings}) if settings else None,
        "url": next((word.rstrip(",;:)") for word in source.split() if word.startswith("https://")), None),
    }


def resource_rule(
    name: str, level: Level, what: str, *, kinds: Sequence[str], fix: str, source: str, settings: Sequence[Setting] = ()
) -> Callable[[Callable[[Resource], Iterable[Finding]]], Rule]:
    """Make a rule of a function from one resource of the given types to findings."""
    facts: dict[str, Any] = {"name": name, "level": level, "what": what, "fix": fix, "source": source,
                             "settings": tuple(settings)}  # fmt: skip

    def make(check: Callable[[Resource], Iterable[Finding]]) -> Rule:
        def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
            if args.resource_type not in kinds:
                return
            values = _values(settings, args.get_config())
            resource = Resource(
                args.resource_type, args.name, args.props, stack_name(args.urn), values, args.provider
            )  # fmt: skip
            for found in check(resource):
                place = where(args.resource_type, args.name)
                report(f"{place}: found {found.found}, wanted {found.wanted}; {found.fix or fix}", None)

        return Rule(**facts, policy=ResourceValidationPolicy(validate=validate, **_policy_arguments(facts)))

    return make


def stack_rule(
    name: str, level: Level, what: str, *, fix: str, source: str, settings: Sequence[Setting] = ()
) -> Callable[[Callable[[Stack], Iterable[Finding]]], Rule]:
    """Make a rule of a function from all resources to findings."""
    facts: dict[str, Any] = {"name": name, "level": level, "what": what, "fix": fix, "source": source,
                             "settings": tuple(settings)}  # fmt: skip

    def make(check: Callable[[Stack], Iterable[Finding]]) -> Rule:
        def validate(args: StackValidationArgs, report: ReportViolation) -> None:
            if not args.resources:
                return
            stack = Stack(args.resources, stack_name(args.resources[0].urn), _values(settings, args.get_config()))
            for found in check(stack):
                place = where(found.at.resource_type, found.at.name) if found.at else f"stack `{stack.name}`"
                message = f"{place}: found {found.found}, wanted {found.wanted}; {found.fix or fix}"
                report(message, found.at.urn if found.at else None)

        return Rule(**facts, policy=StackValidationPolicy(validate=validate, **_policy_arguments(facts)))

    return make
