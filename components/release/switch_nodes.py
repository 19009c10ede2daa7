"""The nodes of one update: the releases' started before the gate, those that nobody needs stopped after."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pulumi

from components.release.ledger import Plan
from components.release.nodes import Nodes
from components.release.release import Release


class SwitchNodes:
    """`started` is what the gate waits for, `fault` why a release's nodes are not there.

    A candidate that was refused before gets no nodes: its gate answers from the state. Node groups that
    live release and candidate share are never stopped.
    """

    def __init__(self, nodes: Nodes | None, plan: Plan, answered: bool, parent: pulumi.Resource) -> None:
        self._nodes, self._parent = nodes, parent
        self._live = _groups(nodes, plan.live.release if plan.live else None)
        self._candidate = _groups(nodes, plan.candidate)
        self.started: list[pulumi.Resource] = []
        self.fault: pulumi.Input[str | None] = None
        if nodes and (wanted := self._wanted(answered)):
            started, self.fault = nodes.start(wanted, pulumi.ResourceOptions(parent=parent))
            self.started = [started]

    def _wanted(self, answered: bool) -> dict[str, int]:
        candidate = dict.fromkeys(self._candidate, 0) if answered else self._candidate
        return {**candidate, **self._live}

    def stop(self, verdict: pulumi.Output[dict[str, Any]], kept: Callable[[dict[str, Any]], bool],
             after: Sequence[pulumi.Resource]) -> list[pulumi.Resource]:  # fmt: skip
        """Empty the groups that the verdict leaves without a release. Without a candidate that is none, as
        after one that passed: the next update has nothing to change."""
        if self._nodes is None or not self._candidate | self._live:
            return []

        def wanted(answer: dict[str, Any]) -> dict[str, int]:
            passed = answer["outcome"] == "pass" or kept(answer)
            needed = self._candidate if self._candidate and passed else self._live
            return dict.fromkeys(sorted((self._candidate | self._live).keys() - needed.keys()), 0)

        opts = pulumi.ResourceOptions(parent=self._parent, depends_on=list(after))
        return [self._nodes.stop(verdict.apply(wanted), opts)]


def _groups(nodes: Nodes | None, release: Release | None) -> dict[str, int]:
    """Node groups of a release, with their full size."""
    if nodes is None or release is None:
        return {}
    return dict(nodes.group(generation) for generation in release.nodes.values())
