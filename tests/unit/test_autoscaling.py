"""From the stack file to the autoscaler: its flags, its rights, its pod, and who owns the replicas."""

from __future__ import annotations

from typing import Any

import pytest

from components.autoscaler.settings import parse
from components.existing.rights import serving_rights
from components.release.fleet import FleetCheckProvider, too_few
from components.release.ledger import Plan as UpdatePlan
from components.serving.autoscaler import NAME, RULES, deployment_spec, program_name
from components.serving.labels import RELEASE_LABEL, TIER_LABEL
from infra.autoscaler_arguments import autoscaler_args
from infra.autoscaling import flags, least, sizes_now
from infra.plan import Plan
from infra.plan_report import plan_text
from infra.rules.all_rules import check
from infra.serving_spec import replicas
from infra.settings import load
from tests.unit.plans import found, prod
from tests.unit.test_nodes import wrong_fields
from tests.unit.test_release import build
from tests.unit.test_settings import values
from tools.localcluster.model import config as tiny_config

BOTH = {"prefill": {"min": 1, "max": 4}, "decode": {"min": 2, "max": 6}}
Change = tuple[str, Any]

FAULTS: dict[str, tuple[str, list[Change], str]] = {
    "a_target_that_is_no_signal": (
        "autoscale-possible", [("autoscale", {"decode": {"max": 1}, "targets": {"decode.happiness": 1}})],
        "found 'decode.happiness', wanted one of"),
    "a_ratio_that_no_sizes_keep": (
        "autoscale-possible", [("autoscale", {"prefill": {"max": 1}, "decode": {"max": 1}, "ratioMin": 2})],
        "no sizes within the tiers' bounds keep them"),
    "bounds_of_a_tier_that_is_not_there": (
        "autoscale-tiers-there", [("autoscale", {"collocated": {"max": 2}})], "autoscale.collocated: found bounds"),
    "more_pods_than_nodes": (
        "autoscale-fits", [("autoscale", {"decode": {"max": 3}})], "found 3 pods of 8 GPUs, wanted at most 1"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_plan_with_the_fault_is_told_so(fault: str) -> None:
    rule, changes, words = FAULTS[fault]
    messages = [str(finding) for finding in found(prod(*changes), rule)]
    assert any(words in message for message in messages), messages


def test_a_right_plan_passes() -> None:
    assert check(prod(("autoscale", {"prefill": {"max": 1}, "decode": {"max": 1}, "ratioMax": 2}))) == []


def plan_of(**autoscale: Any) -> Plan:
    return Plan(load(values() | {"autoscale": BOTH | autoscale}, "test"), tiny_config())


def test_the_autoscaler_itself_reads_its_flags_as_the_stack_file_says() -> None:
    plan = plan_of(targets={"decode.kv_usage": 0.6}, ratioMax=3, downWindowS=60)
    read = parse(list(flags(plan.settings)))
    assert {tier: (b.least, b.most) for tier, b in read.tiers.items()} == {"prefill": (1, 4), "decode": (2, 6)}
    assert (read.targets["decode"]["kv_usage"], read.ratio_max, read.down_window_s) == (0.6, 3, 60)
    assert (read.service, read.engine_port) == ("splitserve", plan.settings.engine.port)


def test_its_pod_is_no_pod_of_a_release_and_asks_for_nothing_else() -> None:
    args = autoscaler_args(plan_of(), "ns", UpdatePlan(None, build()))
    assert args is not None
    spec = deployment_spec(args)
    labels = spec["template"]["metadata"]["labels"]
    assert RELEASE_LABEL not in labels and TIER_LABEL not in labels
    assert list(wrong_fields(spec, "V1DeploymentSpec")) == []
    pod = spec["template"]["spec"]
    assert pod["serviceAccountName"] == NAME
    assert {"name": "program", "configMap": {"name": program_name()}} in pod["volumes"]
    assert parse(pod["containers"][0]["args"])


def test_without_bounds_there_is_none() -> None:
    update = UpdatePlan(None, build())
    assert autoscaler_args(Plan(load(values(), "test"), tiny_config()), "ns", update) is None


def test_the_deploying_user_may_give_every_right_that_it_gets() -> None:
    """Kubernetes refuses a Role with a right that its maker has not."""
    held = {(right.group, right.resource, right.verb) for right in serving_rights("ns")}
    asked = {(group, resource, verb) for rule in RULES for group in rule["api_groups"]
             for resource in rule["resources"] for verb in rule["verbs"]}  # fmt: skip
    assert asked - held == set()


def test_scaled_tiers_start_as_they_were_found_within_their_bounds() -> None:
    settings = plan_of().settings
    full = replicas(settings, {})
    assert sizes_now(settings, full, {})["decode"] == 2
    assert sizes_now(settings, full, {"decode": 5, "prefill": 9, "router": 7}) | {"router": 1} == full | {
        "decode": 5, "prefill": 4}  # fmt: skip
    assert sizes_now(settings, full, {"router": 7})["router"] == 1
    assert least(settings) == {"prefill": 1, "decode": 2}


def test_another_size_of_a_scaled_tier_is_no_reason_to_check_the_fleet_again() -> None:
    before = {"releaseId": "a", "replicas": {"decode": 2, "router": 1}, "sizes": {"decode": 2}, "settings": {},
              "verdict": {"outcome": "pass"}}  # fmt: skip
    grown = before | {"sizes": {"decode": 5}, "found": {"decode": 5, "router": 1}}
    assert not FleetCheckProvider().diff("id", before, grown).changes
    lost = before | {"found": {"decode": 1, "router": 1}}
    assert FleetCheckProvider().diff("id", before, lost).changes
    assert too_few(lost, before) == {"decode": 2}


def test_the_program_is_named_by_what_it_is() -> None:
    assert program_name() == program_name() and program_name().startswith(f"{NAME}-")


def test_the_preview_says_what_stands_beside_the_engines() -> None:
    settings = values() | {"autoscale": BOTH, "render": {"replicas": 2}, "connector": {"name": "nixl-push"}}
    plan = Plan(load(settings, "test"), tiny_config())
    text = plan_text(plan)
    assert "2 pods on CPUs; the gateway is the router" in text
    assert "prefill 1 to 4, decode 2 to 6" in text and "nixl-push" in text
    assert "autoscale" not in plan_text(Plan(load(values(), "test"), tiny_config()))
