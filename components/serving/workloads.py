"""The Deployments of one release: its engine tiers and its router, from rendered pods.

Replica counts are left out: they are the release switch's to set. Kubernetes' own readiness is not
awaited here either, since a release that never gets ready is the gate's to judge.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from components.serving.labels import RELEASE_LABEL, TIER_LABEL, pod_labels, workload_name

SKIP_AWAIT = {"pulumi.com/skipAwait": "true"}


@dataclass(frozen=True)
class WorkloadsArgs:
    """`pods` maps each tier to its rendered pod specification."""

    release_id: str
    pods: dict[str, dict[str, Any]]
    namespace: pulumi.Input[str]
    annotations: Mapping[str, str] = field(default_factory=dict)


def deployment_spec(release_id: str, tier: str, pod: dict[str, Any],
                    annotations: Mapping[str, str] | None = None) -> dict[str, Any]:  # fmt: skip
    """The Deployment's `spec` of one tier, without replicas: those are the gate's and the switch's."""
    labels = pod_labels(release_id, tier)
    return {
        "selector": {"matchLabels": {key: labels[key] for key in (RELEASE_LABEL, TIER_LABEL)}},
        # A surge would ask for devices that the old pod still holds, and wait for ever.
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
        "template": {
            "metadata": {"labels": labels, **({"annotations": dict(annotations)} if annotations else {})},
            "spec": pod,
        },
    }


class Workloads(pulumi.ComponentResource):
    """One generation's Deployments, by tier."""

    deployments: dict[str, k8s.apps.v1.Deployment]

    def __init__(self, name: str, args: WorkloadsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("splitserve:serving:Workloads", name, None, opts)
        self.deployments = {tier: self._deployment(tier, args) for tier in args.pods}
        self.register_outputs({"releaseId": args.release_id})

    def _deployment(self, tier: str, args: WorkloadsArgs) -> k8s.apps.v1.Deployment:
        labels = pod_labels(args.release_id, tier)
        spec: Any = deployment_spec(args.release_id, tier, args.pods[tier], args.annotations)
        return k8s.apps.v1.Deployment(
            workload_name(tier, args.release_id),
            metadata=k8s.meta.v1.ObjectMetaArgs(
                name=workload_name(tier, args.release_id),
                namespace=args.namespace,
                labels=labels,
                annotations=SKIP_AWAIT,
            ),
            spec=spec,
            opts=pulumi.ResourceOptions(parent=self),
        )
