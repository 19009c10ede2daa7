"""From a stack file's values to a plan that every rule is content with, or one message with every fault."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infra.model_files import ModelFiles, read_model_files
from infra.plan import Plan
from infra.rules.all_rules import check
from infra.rules.rule import Finding
from infra.settings import SettingsError, load


def inspect_plan(values: Mapping[str, Any], project: Path, where: str) -> tuple[Plan, ModelFiles, list[Finding]]:
    """The plan, the model's files with their faults, and everything that the rules find.

    Raises SettingsError where the values themselves can't be read.
    """
    settings = load(values, where)
    serves = settings.platform.layers != "cluster"
    files = read_model_files(settings, project) if serves else ModelFiles({}, "")
    plan = Plan(settings, files.config)
    return plan, files, check(plan)


def errors_of(files: ModelFiles, found: list[Finding]) -> list[str]:
    """What keeps a plan from being carried out: faults of the files and findings of severity error."""
    return [*files.faults, *(str(finding) for finding in found if finding.severity == "error")]


def read_plan(values: Mapping[str, Any], project: Path, where: str) -> tuple[Plan, ModelFiles, list[Finding]]:
    """The plan, the model's files, and the warnings. Raises SettingsError with every error at once."""
    plan, files, found = inspect_plan(values, project, where)
    if errors := errors_of(files, found):
        raise SettingsError(where, errors)
    return plan, files, found
