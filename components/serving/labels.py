"""The labels by which pods, Services, the router and the gate find each other."""

from __future__ import annotations

RELEASE_LABEL = "splitserve.dev/release"
TIER_LABEL = "splitserve.dev/tier"
OWNER_LABEL = "splitserve.dev/stack"
MANAGED_BY = {"app.kubernetes.io/managed-by": "splitserve"}
IMAGE_EFA = "splitserve.dev/image-efa"
"""A pod's annotation: its image holds EFA's libfabric, as the stack file says."""
SERVICE = "splitserve"
"""The front door's."""
NO_RELEASE = "none"
"""What the front door selects while no release has passed: no pod carries it."""


def pod_labels(release_id: str, tier: str) -> dict[str, str]:
    return {
        "app.kubernetes.io/name": "splitserve",
        "app.kubernetes.io/component": tier,
        **MANAGED_BY,
        RELEASE_LABEL: release_id,
        TIER_LABEL: tier,
    }


def worker_tier(tier: str) -> str:
    """The tier label of a group's pods beside its leader: no selector of engines finds them."""
    return f"{tier}-worker"


def workload_name(tier: str, release_id: str) -> str:
    return f"{tier}-{release_id}"
