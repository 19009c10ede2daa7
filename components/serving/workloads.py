"""The workloads of one release, from rendered pods: Deployments, and for engines over several nodes LeaderWorkerSets.

Replica counts are left out: they are the release switch's to set. Kubernetes' own readiness is not
awaited here either, since a release that never gets ready is the gate's to judge.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from components.serving.groups import API_VERSION, KIND, Group, group_annotations, group_spec
from components.serving.labels import MANAGED_BY, RELEASE_LABEL, TIER_LABEL, pod_labels, workload_name
from components.serving.release_files import files_name, of_release

SKIP_AWAIT = {"pulumi.com/skipAwait": "true"}
PATCH = {**SKIP_AWAIT, "pulumi.com/patchForce": "true"}
Workload = k8s.apps.v1.Deployment | k8s.apiextensions.CustomResource
ScalePatch = k8s.apps.v1.DeploymentPatch | k8s.apiextensions.CustomResourcePatch


@dataclass(frozen=True)
class WorkloadsArgs:
    """`pods` maps each tier to its rendered pod specification."""

    release_id: str
    pods: dict[str, dict[str, Any]]
    namespace: pulumi.Input[str]
    annotations: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    """The release's files, base64."""
    groups: Mapping[str, Group] = field(default_factory=dict)
    """By tier, what makes groups of its pods (components/serving/groups.py)."""


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
            "spec": of_release(pod, release_id),
        },
    }


class Workloads(pulumi.ComponentResource):
    """One generation's workloads, by tier."""

    workloads: dict[str, Workload]

    def __init__(self, name: str, args: WorkloadsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("splitserve:serving:Workloads", name, None, opts)
        files = [self._files(args)] if args.files else []
        self.workloads = {
            tier: self._group(tier, args, files) if tier in args.groups else self._deployment(tier, args, files)
            for tier in args.pods
        }
        self.register_outputs({"releaseId": args.release_id})

    def _files(self, args: WorkloadsArgs) -> k8s.core.v1.ConfigMap:
        name = files_name(args.release_id)
        return k8s.core.v1.ConfigMap(
            name,
            metadata=k8s.meta.v1.ObjectMetaArgs(
                name=name, namespace=args.namespace, labels={**MANAGED_BY, RELEASE_LABEL: args.release_id}
            ),
            binary_data=dict(args.files),
            opts=pulumi.ResourceOptions(parent=self),
        )

    def _deployment(self, tier: str, args: WorkloadsArgs, after: list[k8s.core.v1.ConfigMap]) -> k8s.apps.v1.Deployment:
        spec: Any = deployment_spec(args.release_id, tier, args.pods[tier], args.annotations)
        return k8s.apps.v1.Deployment(
            workload_name(tier, args.release_id),
            metadata=_metadata(tier, args),
            spec=spec,
            opts=pulumi.ResourceOptions(parent=self, depends_on=after),
        )

    def _group(
        self, tier: str, args: WorkloadsArgs, after: list[k8s.core.v1.ConfigMap]
    ) -> k8s.apiextensions.CustomResource:
        group = args.groups[tier]
        return k8s.apiextensions.CustomResource(
            workload_name(tier, args.release_id),
            api_version=API_VERSION,
            kind=KIND,
            metadata=_metadata(tier, args, group_annotations(group)),
            spec=group_spec(args.release_id, tier, args.pods[tier], group, args.annotations),
            opts=pulumi.ResourceOptions(parent=self, depends_on=after),
        )


def scale_patch(name: str, tier: str, args: WorkloadsArgs, count: pulumi.Input[int],
                opts: pulumi.ResourceOptions) -> ScalePatch:  # fmt: skip
    """A tier's replicas, and nothing else of its workload."""
    metadata = k8s.meta.v1.ObjectMetaPatchArgs(
        name=workload_name(tier, args.release_id), namespace=args.namespace, annotations=PATCH
    )
    if tier not in args.groups:
        spec = k8s.apps.v1.DeploymentSpecPatchArgs(replicas=count)
        return k8s.apps.v1.DeploymentPatch(name, metadata=metadata, spec=spec, opts=opts)
    # The SDK's type is that of a whole object; a patch's metadata has the same shape.
    of_group: Any = metadata
    return k8s.apiextensions.CustomResourcePatch(
        name, api_version=API_VERSION, kind=KIND, metadata=of_group, spec={"replicas": count}, opts=opts
    )


def _metadata(tier: str, args: WorkloadsArgs, more: Mapping[str, str] | None = None) -> k8s.meta.v1.ObjectMetaArgs:
    return k8s.meta.v1.ObjectMetaArgs(
        name=workload_name(tier, args.release_id),
        namespace=args.namespace,
        labels=pod_labels(args.release_id, tier),
        annotations={**SKIP_AWAIT, **(more or {})},
    )
