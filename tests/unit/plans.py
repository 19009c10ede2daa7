"""Right plans for tests to spoil: one on EFA, one on the local cluster, each from a stack file."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import yaml

from components.hardware.known_models import known_model
from infra.plan import Plan
from infra.rules.all_rules import check
from infra.rules.rule import Finding
from infra.settings import load

ROOT = Path(__file__).resolve().parents[2]


def stack_values(name: str) -> dict[str, Any]:
    """The keys of a stack file in the repository, without their prefix."""
    content = yaml.safe_load((ROOT / f"stacks/Pulumi.{name}.yaml").read_text())
    return {key.removeprefix("splitserve:"): value for key, value in content["config"].items()}


def changed(values: dict[str, Any], *changes: tuple[str, Any]) -> dict[str, Any]:
    """A copy with keys set by their dotted paths; a device resource's name may hold dots and slashes."""
    result = copy.deepcopy(values)
    for path, value in changes:
        keys = (
            path.replace("nvidia.com/gpu", "nvidia\0com/gpu")
            .replace("vpc.amazonaws.com", "vpc\0amazonaws\0com")
            .split(".")
        )
        inner: Any = result
        for key in keys[:-1]:
            inner = inner.setdefault(key.replace("\0", "."), {})
        inner[keys[-1].replace("\0", ".")] = value
    return result


def model_config(name: str) -> dict[str, Any]:
    return known_model(name)


def make_plan(values: dict[str, Any], model: str = "llama-3.1-70b", **more: Any) -> Plan:
    return Plan(load(values, "test"), model_config(model), **more)


def prod(*changes: tuple[str, Any], model: str = "llama-3.1-70b", **more: Any) -> Plan:
    """Llama 3.1 70B on two p5.48xlarge over EFA, with changes."""
    return make_plan(changed(stack_values("prod"), *changes), model, **more)


def found(plan: Plan, rule: str) -> list[Finding]:
    return [finding for finding in check(plan) if finding.rule == rule]


def errors(plan: Plan) -> list[str]:
    return [str(finding) for finding in check(plan) if finding.severity == "error"]
