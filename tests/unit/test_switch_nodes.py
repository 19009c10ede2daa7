"""The nodes of one update: which groups are started for it, and which are emptied after the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pulumi
import pytest

from components.release.ledger import Plan, Proved
from components.release.release import Release
from components.release.switch_nodes import SwitchNodes
from tests.unit.test_ledger import GATE, release
from tests.unit.test_platform_launch_template import registered


def on(name: str, *groups: str) -> Release:
    """A release on node groups, one a tier."""
    return replace(release(name), nodes={f"tier-{g}": {"group": g} for g in groups})


FULL = {"shared": 1, "old": 2, "new": 3, "new-decode": 4}
LIVE, SAME = on("live", "shared", "old"), on("same", "shared", "new")
PASS, FAIL, UNKNOWN = ({"outcome": outcome} for outcome in ("pass", "fail", "inconclusive"))


class Groups:
    """A platform that keeps what it is asked for. `fault` is why nodes do not start."""

    def __init__(self, fault: str | None = None) -> None:
        self.fault = fault
        self.started: list[dict[str, int]] = []
        self.stopped: list[dict[str, int]] = []

    def start(self, wanted: Mapping[str, int], opts: pulumi.ResourceOptions) -> tuple[pulumi.Resource, Any]:
        self.started.append(dict(wanted))
        return pulumi.ComponentResource("test:Start", "start", None, opts), pulumi.Output.from_input(self.fault)

    def stop(self, wanted: pulumi.Input[Mapping[str, int]], opts: pulumi.ResourceOptions) -> pulumi.Resource:
        self.seen = pulumi.Output.from_input(wanted).apply(lambda found: self.stopped.append(dict(found)))
        return pulumi.ComponentResource("test:Stop", "stop", None, opts)

    def group(self, generation: Mapping[str, object]) -> tuple[str, int]:
        name = str(generation["group"])
        return name, FULL[name]


def update(live: Release | None, candidate: Release | None, verdict: dict[str, Any], *, answered: bool = False,
           kept: bool = False, nodes: Groups | None = None) -> Groups:  # fmt: skip
    """One update until everything is known."""
    groups = nodes or Groups()

    def declare() -> pulumi.Output[Any]:
        parent = pulumi.ComponentResource("test:Switch", "switch")
        plan = Plan(Proved(live, GATE) if live else None, candidate)
        switch = SwitchNodes(groups, plan, answered, parent)
        assert bool(switch.started) == bool(groups.started)
        switch.stop(pulumi.Output.from_input(verdict), lambda answer: kept, switch.started)
        return pulumi.Output.all(switch.fault, getattr(groups, "seen", None))

    registered(declare)
    return groups


def test_a_candidate_gets_its_nodes_beside_the_live_releases() -> None:
    assert update(LIVE, SAME, PASS).started == [{"shared": 1, "old": 2, "new": 3}]


def test_the_first_release_has_no_other_beside_it() -> None:
    made = update(None, on("first", "new", "new-decode"), PASS)
    assert made.started == [{"new": 3, "new-decode": 4}] and made.stopped == [{}]


def test_after_a_pass_the_old_releases_own_nodes_go() -> None:
    assert update(LIVE, SAME, PASS).stopped == [{"old": 0}]


def test_after_a_refusal_the_candidates_own_nodes_go_and_shared_ones_stay() -> None:
    assert update(LIVE, SAME, FAIL).stopped == [{"new": 0}]


def test_without_an_answer_the_live_release_alone_keeps_its_nodes() -> None:
    assert update(LIVE, SAME, UNKNOWN).stopped == [{"new": 0}]


def test_a_first_release_that_is_kept_after_its_refusal_keeps_its_nodes() -> None:
    assert update(None, on("first", "new"), FAIL, kept=True).stopped == [{}]
    assert update(None, on("first", "new"), FAIL).stopped == [{"new": 0}]


def test_a_candidate_that_was_refused_before_costs_no_node_again() -> None:
    made = update(LIVE, SAME, FAIL, answered=True)
    assert made.started == [{"shared": 1, "old": 2, "new": 0}]
    assert made.stopped == [{"new": 0}]


def test_a_live_release_keeps_its_nodes_where_there_is_no_candidate() -> None:
    made = update(LIVE, None, PASS)
    assert made.started == [{"shared": 1, "old": 2}] and made.stopped == [{}]


@pytest.mark.parametrize("fault", [None, "InsufficientInstanceCapacity: none left"])
def test_why_nodes_do_not_start_is_told_to_the_gate(fault: str | None) -> None:
    told: list[Any] = []

    def declare() -> pulumi.Output[Any]:
        parent = pulumi.ComponentResource("test:Switch", "switch")
        switch = SwitchNodes(Groups(fault), Plan(None, on("first", "new")), False, parent)
        return pulumi.Output.from_input(switch.fault).apply(told.append)

    registered(declare)
    assert told == [fault]


def test_where_the_platform_makes_no_nodes_nothing_is_asked() -> None:
    def declare() -> pulumi.Output[Any]:
        parent = pulumi.ComponentResource("test:Switch", "switch")
        switch = SwitchNodes(None, Plan(Proved(LIVE, GATE), SAME), False, parent)
        stopped = switch.stop(pulumi.Output.from_input(PASS), lambda answer: False, [])
        assert (switch.started, switch.fault, stopped) == ([], None, [])
        return pulumi.Output.from_input(None)

    registered(declare)
