"""The loop: look at the live release, decide, set what differs, wait, again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

from .cluster import LEAVES_FIRST, Changed, Cluster, ClusterFault, Pod, Workload
from .history import Capacity, PodHistory, TierHistory
from .policy import Decision, Rules, TierView, decide
from .scrape import Scraper
from .settings import Settings
from .signals import Page, read_signals
from .telemetry import Telemetry


class Autoscaler:
    def __init__(self, settings: Settings, cluster: Cluster, scraper: Scraper, telemetry: Telemetry,
                 clock: Callable[[], float] = time.monotonic) -> None:  # fmt: skip
        self._settings, self._cluster, self._scraper, self._telemetry = settings, cluster, scraper, telemetry
        self._clock = clock
        self._rules = {
            tier: Rules(bounds.least, bounds.most, settings.tolerance, settings.up_step, settings.down_step)
            for tier, bounds in settings.tiers.items()
        }
        self._release: str | None = None
        self._follow(None)

    def _follow(self, release: str | None) -> None:
        """Begin with a release: sizes, rates and capacities of another one say nothing about it."""
        settings = self._settings
        self._release, self._moved_at = release, self._clock()
        self._pods: dict[str, PodHistory] = {}
        self._capacity = Capacity(settings.prefill_tokens_per_s)
        self._tiers = {
            tier: TierHistory(settings.up_window_s, settings.down_window_s,
                              settings.up_step_window_s, settings.down_step_window_s)
            for tier in settings.tiers
        }  # fmt: skip

    async def run(self, stop: asyncio.Event) -> None:
        """Rounds until `stop` is set; the one under way is ended first."""
        while not stop.is_set():
            begun = time.monotonic()
            try:
                outcome = await self.round()
            except ClusterFault as fault:
                outcome = "failed"
                self._telemetry.say(event="fault", fault=str(fault))
            except Exception as fault:  # the edge: what is remembered is worth more than a clean restart
                outcome = "failed"
                self._telemetry.say(event="fault", fault=repr(fault))
            self._telemetry.ended(outcome)
            left = self._settings.period_s - (time.monotonic() - begun)
            try:
                await asyncio.wait_for(stop.wait(), max(left, 0.01))
            except TimeoutError:
                continue

    async def round(self) -> str:
        """One look and what follows from it. Returns the outcome's name. Raises: ClusterFault."""
        release = await self._cluster.live_release(self._settings.service)
        if release != self._release:
            self._follow(release)
            self._telemetry.follows(release)
        if release is None:
            return "no_release"
        pods, workloads = await asyncio.gather(self._cluster.pods(release), self._cluster.workloads(release))
        tiers = {tier: [pod for pod in pods if pod.tier == tier] for tier in self._rules if tier in workloads}
        pages = await self._scraper.pages(
            (pod, self._settings.port(tier)) for tier, found in tiers.items() for pod in found if pod.ready
        )
        now = self._clock()
        self._remember(now, tiers, pages)
        hold = self._hold(now, workloads)
        views = {tier: self._view(now, tier, found, pages, workloads[tier], hold) for tier, found in tiers.items()}
        decisions = decide(views, self._rules, self._settings.ratio)
        for tier, decision in decisions.items():
            if decision.current:
                self._tiers[tier].recommend(now, decision.recommended)
        # More first: what is added never has to wait for what is taken away.
        for tier in sorted(decisions, key=lambda tier: decisions[tier].action != "up"):
            await self._carry_out(tier, decisions[tier], views[tier], workloads[tier], tiers[tier], pages)
        return "decided"

    def _remember(self, now: float, tiers: Mapping[str, Sequence[Pod]], pages: Mapping[str, Page]) -> None:
        present = {pod.uid for pods in tiers.values() for pod in pods}
        self._pods = {uid: history for uid, history in self._pods.items() if uid in present}
        for tier, pods in tiers.items():
            for pod in pods:
                if page := pages.get(pod.uid):
                    history = self._pods.setdefault(
                        pod.uid, PodHistory(self._settings.rate_window_s, self._settings.average_s)
                    )
                    interval = history.add(now, page)
                    if interval and tier == "prefill":
                        self._capacity.observe(interval)
        self._telemetry.capacity.set(self._capacity.tokens_per_s or float("nan"))

    def _hold(self, now: float, workloads: Mapping[str, Workload]) -> str | None:
        """Why nothing may be lowered now, if so."""
        if now - self._moved_at < self._settings.settle_s:
            return "release_moved"
        return None if all(workload.observed for workload in workloads.values()) else "not_observed"

    def _view(self, now: float, tier: str, pods: Sequence[Pod], pages: Mapping[str, Page],
              workload: Workload, hold: str | None) -> TierView:  # fmt: skip
        ready = [pod for pod in pods if pod.ready]
        samples = [self._pods[pod.uid].sample() for pod in ready if pod.uid in pages]
        readings = read_signals(samples, self._settings.targets[tier], self._capacity.tokens_per_s)
        history, size, bounds = self._tiers[tier], workload.replicas, self._settings.tiers[tier]
        history.see(now, size)
        silent = len(ready) - len(samples)
        self._telemetry.saw(tier, readings, len(ready), silent)
        return TierView(
            current=size, ready=len(ready), readings=readings, silent=silent, hold=hold,
            asked_low=history.asked_up.lowest(now, bounds.most), asked_high=history.asked_down.highest(now, bounds.least),
            size_low=history.sizes_up.lowest(now, size), size_high=history.sizes_down.highest(now, size),
        )  # fmt: skip

    async def _carry_out(self, tier: str, decision: Decision, view: TierView, workload: Workload,
                         pods: Sequence[Pod], pages: Mapping[str, Page]) -> None:  # fmt: skip
        evidence = {
            "release": self._release, "ready": view.ready, "silent": view.silent,
            "starting": len(pods) - view.ready, "signals": [asdict(reading) for reading in view.readings],
            "asked": [view.asked_low, view.asked_high], "dry_run": self._settings.dry_run,
        }  # fmt: skip
        leave = leavers(pods, pages, decision.current - decision.wanted) if decision.action == "down" else []
        self._telemetry.decided(tier, decision, evidence | ({"leave": [pod.name for pod in leave]} if leave else {}))
        if decision.action == "hold" or self._settings.dry_run:
            return
        try:
            if decision.action == "down":
                await self._mark(pods, leave)
            await self._cluster.scale(workload.name, decision.current, decision.wanted)
        except ClusterFault as fault:
            # The next round sees what is, and decides again.
            kind = "changed" if isinstance(fault, Changed) else "failed"
            self._telemetry.faults.labels(tier, kind).inc()
            self._telemetry.say(event="fault", tier=tier, fault=str(fault))

    async def _mark(self, pods: Sequence[Pod], leave: Sequence[Pod]) -> None:
        """Make exactly these pods the first to leave: a mark of an earlier try may be on a pod that is busy by now."""
        for pod in pods:
            if pod.deletion_cost == LEAVES_FIRST and pod not in leave:
                await self._cluster.set_deletion_cost(pod.name, None)
        for pod in leave:
            if pod.deletion_cost != LEAVES_FIRST:
                await self._cluster.set_deletion_cost(pod.name, LEAVES_FIRST)


def leavers(pods: Sequence[Pod], pages: Mapping[str, Page], count: int) -> list[Pod]:
    """The ready pods that shall leave when `count` pods do: the least busy, then the youngest.

    Pods that are not ready go before any of them, whatever is written on them (ReplicaSet controller). A
    prefill pod without requests may hold KV that decoders have yet to fetch, so less KV comes before youth.
    """
    ready = sorted((pod for pod in pods if pod.ready), key=lambda pod: pod.created, reverse=True)

    def busy(pod: Pod) -> tuple[float, float]:
        page = pages.get(pod.uid)
        if page is None:
            return float("inf"), 0.0
        return page.held or 0.0, round(page.kv_usage or 0.0, 2)

    return sorted(ready, key=busy)[: max(count - (len(pods) - len(ready)), 0)]
