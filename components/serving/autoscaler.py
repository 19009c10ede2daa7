"""The autoscaler: one pod that sizes the live release's tiers, and what it may ask of the cluster.

Not part of a release: it finds the live one by the front door's selector. Its program
(components/autoscaler) lies in a ConfigMap and runs on vLLM's own image.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from components.autoscaler.packed import packed
from components.serving import pod
from components.serving.labels import MANAGED_BY, SERVICE
from components.serving.release_files import MOUNT, encoded
from components.serving.spec import PodPlacement, ResourceSpec
from components.serving.workloads import SKIP_AWAIT

NAME = "splitserve-autoscaler"
PROGRAM_FILE = "autoscaler.pyz"
METRICS_PORT = 29100
GRACE_S = 30
LABELS = {**MANAGED_BY, "app.kubernetes.io/name": "splitserve", "app.kubernetes.io/component": "autoscaler"}
RULES: list[dict[str, Any]] = [
    {"api_groups": [""], "resources": ["services"], "resource_names": [SERVICE], "verbs": ["get"]},
    # It marks the pod that is to go when a tier shrinks.
    {"api_groups": [""], "resources": ["pods"], "verbs": ["list", "patch"]},
    {"api_groups": ["apps"], "resources": ["deployments"], "verbs": ["list"]},
    {"api_groups": ["apps"], "resources": ["deployments/scale"], "verbs": ["get", "patch"]},
]


@dataclass(frozen=True)
class AutoscalerArgs:
    """`arguments` are its flags: tiers with bounds, targets, windows."""

    namespace: pulumi.Input[str]
    image: str
    arguments: tuple[str, ...]
    placement: PodPlacement
    resources: ResourceSpec


class Autoscaler(pulumi.ComponentResource):
    """Its program, its identity and its pod."""

    def __init__(self, name: str, args: AutoscalerArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("splitserve:serving:Autoscaler", name, None, opts)
        self._args, self._child = args, pulumi.ResourceOptions(parent=self)
        access = self._access()
        program = self._program()
        self._deployment([access, program])
        self.register_outputs({})

    def _metadata(self, name: str = NAME, annotations: dict[str, str] | None = None) -> k8s.meta.v1.ObjectMetaArgs:
        return k8s.meta.v1.ObjectMetaArgs(
            name=name, namespace=self._args.namespace, labels=LABELS, annotations=annotations
        )

    def _access(self) -> pulumi.Resource:
        account = k8s.core.v1.ServiceAccount(NAME, metadata=self._metadata(), opts=self._child)
        rules: Any = RULES
        role = k8s.rbac.v1.Role(NAME, metadata=self._metadata(), rules=rules, opts=self._child)
        subject = k8s.rbac.v1.SubjectArgs(kind="ServiceAccount", name=NAME, namespace=self._args.namespace)
        return k8s.rbac.v1.RoleBinding(
            NAME,
            metadata=self._metadata(),
            role_ref=k8s.rbac.v1.RoleRefArgs(api_group="rbac.authorization.k8s.io", kind="Role", name=NAME),
            subjects=[subject],
            opts=pulumi.ResourceOptions(parent=self, depends_on=[account, role]),
        )

    def _program(self) -> pulumi.Resource:
        name = program_name()
        data = encoded({PROGRAM_FILE: packed()})
        return k8s.core.v1.ConfigMap(name, metadata=self._metadata(name), binary_data=data, opts=self._child)

    def _deployment(self, after: list[pulumi.Resource]) -> None:
        spec: Any = deployment_spec(self._args)
        options = pulumi.ResourceOptions(parent=self, depends_on=after)
        k8s.apps.v1.Deployment(NAME, metadata=self._metadata(annotations=SKIP_AWAIT), spec=spec, opts=options)


def program_name() -> str:
    """With the program's hash: another program is another ConfigMap, and so another pod."""
    return f"{NAME}-{hashlib.sha256(packed()).hexdigest()[:10]}"


def deployment_spec(args: AutoscalerArgs) -> dict[str, Any]:
    """One pod, never two at a time."""
    program = {"name": "program", "mountPath": MOUNT, "readOnly": True}
    health = {"httpGet": {"path": "/health", "port": "metrics"}, "timeoutSeconds": 5}
    container = {
        "name": "autoscaler",
        "image": args.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", f"{MOUNT}/{PROGRAM_FILE}"],
        "args": ["--namespace", "$(NAMESPACE)", "--metrics-port", str(METRICS_PORT), *args.arguments],
        "env": [{"name": "NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}, *pod.HOME],
        "ports": [{"name": "metrics", "containerPort": METRICS_PORT}],
        "resources": pod.resources(args.resources),
        "securityContext": pod.SECURITY_CONTEXT,
        "volumeMounts": [*pod.SCRATCH_MOUNTS, program],
        "readinessProbe": {**health, "periodSeconds": 5},
        "livenessProbe": {**health, "periodSeconds": 20, "failureThreshold": 6},
    }
    volumes = [
        *pod.scratch_volumes(args.resources.shm),
        {"name": "program", "configMap": {"name": program_name()}},
    ]
    spec = pod.pod_spec(args.placement, container, volumes, GRACE_S)
    return {
        "replicas": 1,
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": LABELS},
        "template": {
            "metadata": {"labels": LABELS},
            "spec": spec | {"serviceAccountName": NAME, "automountServiceAccountToken": True},
        },
    }
