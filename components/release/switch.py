"""The release switch: one update from the live release to the candidate, or back to what was.

Declares the live release from the ledger and the candidate from the configuration. Replicas, traffic
and the ledger's next state are functions of the gate's verdict; nothing here runs twice when nothing
changed. The order, by dependencies: candidate's pods -> gate -> full size -> all pods checked ->
traffic -> old release drained -> old release to 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pulumi

from components.release.cluster import Access
from components.release.fleet import FleetCheck
from components.release.gate import KvGate, gate_inputs
from components.release.kinds import DYNAMIC, Kinds
from components.release.ledger import ESTIMATED, TIMES, Ledger, Plan, advance, answered
from components.release.nodes import Nodes
from components.release.release import Release
from components.release.switch_nodes import SwitchNodes
from components.release.verdict import Verdict
from components.serving.front_door import FrontDoor, FrontDoorArgs
from components.serving.labels import workload_name
from components.serving.spec import ROUTER
from components.serving.workloads import ScalePatch, Workloads, WorkloadsArgs, scale_patch


@dataclass(frozen=True)
class SwitchArgs:
    """`replicas` is each tier's full size, `found` what the live release's tiers are set to in the
    cluster now; `gate` the settings for a candidate's gate. Tiers in `scaled` are sized by the autoscaler
    while they are live, and never have fewer pods than it says."""

    access: Access
    ledger: Ledger
    plan: Plan
    gate: dict[str, Any]
    strategy: str
    drain_limit_s: int
    replicas: dict[str, int]
    found: dict[str, int]
    port: int
    scaled: Mapping[str, int]
    service_type: str
    node_port: int | None = None
    outside: pulumi.Input[str] | None = None
    """The address of a load balancer before the node port, where the platform has one."""
    nodes: Nodes | None = None
    """What starts and stops nodes, where the platform makes them."""
    kinds: Kinds = DYNAMIC


class ReleaseSwitch(pulumi.ComponentResource):
    """Gate, traffic and ledger of one stack."""

    endpoint: pulumi.Output[str]
    gate: KvGate
    verdict: pulumi.Output[dict[str, Any]]
    ledger: pulumi.Output[dict[str, Any]]
    done: pulumi.Output[Any]
    """Resolved when everything that this update had to do is done."""

    def __init__(self, name: str, args: SwitchArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("splitserve:release:Switch", name, None, opts)
        self._args = args
        live = args.plan.live.release if args.plan.live else None
        judged = args.plan.candidate or live
        if judged is None:
            raise ValueError("a switch needs a candidate or a live release")
        declared = {release.id: release for release in (live, judged) if release}
        self._workloads = {name: self._declare(release) for name, release in declared.items()}
        nodes = SwitchNodes(args.nodes, args.plan, answered(args.ledger, judged, args.gate), self)
        self.gate = self._gate(judged, nodes)
        full = self._scale_judged(judged)
        fleet = self._fleet(judged, full)
        self.verdict = fleet.verdict
        front_door = self._front_door(judged, live, fleet)
        self.endpoint = front_door.endpoint
        stopped = self._stop_old(live, front_door) if live and args.plan.candidate else []
        emptied = nodes.stop(self.verdict, self._kept, [front_door, *full, *stopped])
        self.ledger = pulumi.Output.all(self.verdict, self.gate.verdict).apply(lambda both: self._advance(*both))
        self.done = pulumi.Output.all(front_door.service.urn, *(r.urn for r in [*full, *stopped, *emptied]))
        self.register_outputs({"endpoint": self.endpoint, "ledger": self.ledger})

    def _declare(self, release: Release) -> Workloads:
        return Workloads(f"release-{release.id}", self._workloads_args(release), pulumi.ResourceOptions(parent=self))

    def _workloads_args(self, release: Release) -> WorkloadsArgs:
        namespace = self._args.access.namespace
        return WorkloadsArgs(release.id, release.pods, namespace, release.annotations, release.files, release.groups)

    def _gate(self, release: Release, nodes: SwitchNodes) -> KvGate:
        """The candidate's gate; for a live release the one that it passed, with the same inputs."""
        args, live = self._args, self._args.plan.live
        candidate = args.plan.candidate is not None
        settings = args.gate if candidate or live is None else live.gate
        beside = None
        if candidate and live:
            beside = {
                "id": live.release.id,
                "replicas": self._size(live.release),
                "release": live.release.to_json(),
            }
        size = self._size(release)
        inputs = gate_inputs(args.access, release, settings, args.strategy, beside, size, nodes.fault)
        ready = [*self._workloads[release.id].workloads.values(), *nodes.started]
        return args.kinds.gate(f"gate-{release.id}", inputs, pulumi.ResourceOptions(parent=self, depends_on=ready))

    def _scale_judged(self, release: Release) -> list[ScalePatch]:
        """Full size once the gate has passed; nothing while it has not."""

        def count(verdict: dict[str, Any], full: int) -> int:
            return full if verdict["outcome"] == "pass" or self._kept(verdict) else 0

        live = self._args.plan.candidate is None
        return [
            self._scale(release, tier, self.gate.verdict.apply(
                lambda verdict, full=self._args.replicas[tier]: count(verdict, full)), [self.gate],
                left=live and tier in self._args.scaled)
            for tier in release.pods
        ]  # fmt: skip

    def _size(self, release: Release) -> dict[str, int]:
        """The full size of the tiers that a release has."""
        return {tier: self._args.replicas[tier] for tier in release.pods}

    def _least(self, release: Release) -> dict[str, int]:
        """What the scaled tiers of a release never have less of: their size itself is no reason to check again."""
        return {tier: count for tier, count in self._args.scaled.items() if tier in release.pods}

    def _kept(self, verdict: dict[str, Any]) -> bool:
        """A refused first release that the stack wants kept for a look stays at its canary size."""
        first = self._args.plan.live is None
        return first and self._args.gate["onFirstFailure"] == "keep" and verdict["outcome"] == "fail"

    def _fleet(self, release: Release, after: list[ScalePatch]) -> FleetCheck:
        args, live = self._args, self._args.plan.live
        candidate = args.plan.candidate is not None
        return args.kinds.fleet(
            f"fleet-{release.id}",
            {
                **asdict(args.access),
                "releaseId": release.id,
                "replicas": self._size(release) | self._least(release),
                "sizes": self._size(release),
                "settings": args.gate if candidate or live is None else live.gate,
                "release": release.to_json(),
                "gateVerdict": self.gate.verdict,
                "candidate": candidate,
                "found": None if candidate else args.found,
            },
            pulumi.ResourceOptions(parent=self, depends_on=[*after, self.gate]),
        )

    def _front_door(self, judged: Release, live: Release | None, fleet: FleetCheck) -> FrontDoor:
        args = self._args
        before = live.id if live else None
        selected = (
            fleet.verdict.apply(lambda verdict: judged.id if verdict["outcome"] == "pass" else before)
            if args.plan.candidate
            else judged.id
        )
        front_door = FrontDoorArgs(
            namespace=args.access.namespace,
            release_id=selected,
            port=args.port,
            router_port=judged.expectation.router_port,
            service_type=args.service_type,
            node_port=args.node_port,
            outside=args.outside,
        )
        return FrontDoor("front-door", front_door, pulumi.ResourceOptions(parent=self, depends_on=[fleet]))

    def _stop_old(self, old: Release, front_door: FrontDoor) -> list[ScalePatch]:
        """Once traffic has moved: drain the old release and stop it. Its manifests stay one update."""
        args = self._args
        drain = args.kinds.drain(
            f"drain-{old.id}",
            {
                **asdict(args.access),
                "releaseId": old.id,
                "release": old.to_json(),
                "towards": self.verdict.apply(
                    lambda v: args.plan.candidate.id if v["outcome"] == "pass" and args.plan.candidate else None
                ),
                "limitS": args.drain_limit_s,
            },
            pulumi.ResourceOptions(parent=self, depends_on=[front_door.service]),
        )

        def count(verdict: dict[str, Any], full: int) -> int:
            return 0 if verdict["outcome"] == "pass" else full

        return [
            self._scale(old, tier, self.verdict.apply(
                lambda verdict, full=args.replicas[tier]: count(verdict, full)), [drain])
            for tier in sorted(old.pods, key=lambda tier: tier != ROUTER)
        ]  # fmt: skip

    def _scale(self, release: Release, tier: str, count: pulumi.Input[int],
               after: list[pulumi.Resource], left: bool = False) -> ScalePatch:  # fmt: skip
        """`left`: the autoscaler changes the count from now on, and no update changes it back."""
        workload = self._workloads[release.id].workloads[tier]
        return scale_patch(
            f"scale-{workload_name(tier, release.id)}",
            tier,
            self._workloads_args(release),
            count,
            # Deleting the patch alone would set the default of one replica and start a pod again.
            pulumi.ResourceOptions(
                parent=self,
                depends_on=[workload, *after],
                deleted_with=workload,
                ignore_changes=["spec.replicas"] if left else [],
            ),
        )

    def _advance(self, verdict: dict[str, Any], gate: dict[str, Any]) -> dict[str, Any]:
        """The fleet's verdict decides; the times are the gate's, which ages the caches."""
        known = {key: verdict[key] for key in ("outcome", "cause", "message", "fix")}
        known |= {key: gate[key] for key in (*TIMES, ESTIMATED) if gate.get(key) is not None}
        return advance(self._args.ledger, self._args.plan, Verdict(**known), self._args.gate).to_json()
