"""Which pods have metrics, and the labels that every series of theirs gets.

Two ways to scrape them, from one table: PodMonitors for an operator, a scrape configuration for a plain Prometheus.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from components.nodes.daemon import NAME as DAEMON_LABEL
from components.nodes.rdma_counters import NAME as RDMA_COUNTERS
from components.serving.autoscaler import LABELS as AUTOSCALER
from components.serving.labels import RELEASE_LABEL, TIER_LABEL
from components.serving.spec import ENCODER, RENDER, ROUTER, TIERS

RELEASE = "splitserve_release"
TIER = "splitserve_tier"
"""Names that no exporter uses: the gateway and the autoscaler have a `tier` and a `release` of their own, which
Prometheus would rename."""
POD_LABELS: Mapping[str, str] = {RELEASE: RELEASE_LABEL, TIER: TIER_LABEL}
"""A series' label -> the pod's label that it is taken from."""
ENGINE_TIERS = (*(tier for tiers in TIERS.values() for tier in tiers), ENCODER)


@dataclass(frozen=True)
class Target:
    """Pods that are scraped alike. They carry all of `labels`, and one of `tiers` as their tier where it has any;
    `port` is the name of their container's port."""

    name: str
    port: str
    tiers: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)


ENGINES = Target("engines", "http", ENGINE_TIERS)
"""vLLM serves metrics and requests on one port. Of an engine over several nodes its leader alone does."""
TARGETS = (
    ENGINES,
    Target("render", "http", (RENDER,)),
    Target("router", "metrics", (ROUTER,)),
    Target("autoscaler", "metrics", labels=AUTOSCALER),
    Target("rdma-counters", "metrics", labels={DAEMON_LABEL: RDMA_COUNTERS}),
)
