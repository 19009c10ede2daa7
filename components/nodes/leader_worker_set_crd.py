"""The kind LeaderWorkerSet: lws 0.7.0 `config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml`, cut down.

Upstream's file has 1.3 MB, nearly all of it two copies of Kubernetes' own PodTemplateSpec. Templates are taken as
they come here (`x-kubernetes-preserve-unknown-fields`): the API server checks them once pods are made of them.
Everything else is upstream's, defaults and choices among it, but for descriptions and for the patterns and lengths of
a status condition's texts, which the controller alone writes.
"""

from __future__ import annotations

from typing import Any

from components.nodes.names import PART_OF, PART_OF_VALUE
from components.serving.labels import MANAGED_BY

VERSION = "0.7.0"
GROUP = "leaderworkerset.x-k8s.io"
NAME = f"leaderworkersets.{GROUP}"
_TEMPLATE: dict[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_COUNT: dict[str, Any] = {"type": "integer", "format": "int32"}
_COUNT_OR_SHARE: dict[str, Any] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
}


def render_crd() -> dict[str, Any]:
    """The CustomResourceDefinition. Upstream's conversion webhook is left out: there is one version."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME, "labels": {PART_OF: PART_OF_VALUE, **MANAGED_BY}},
        "spec": {
            "group": GROUP,
            "names": {"kind": "LeaderWorkerSet", "listKind": "LeaderWorkerSetList", "plural": "leaderworkersets",
                      "shortNames": ["lws"], "singular": "leaderworkerset"},
            "scope": "Namespaced",
            "versions": [_version()],
        },
    }  # fmt: skip


def _version() -> dict[str, Any]:
    columns = (
        ("Ready", ".status.readyReplicas"),
        ("Desired", ".spec.replicas"),
        ("Up-to-date", ".status.updatedReplicas"),
    )
    return {
        "name": "v1",
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [
            *({"name": name, "type": "integer", "jsonPath": path} for name, path in columns),
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ],
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
                      "labelSelectorPath": ".status.hpaPodSelector"},
        },
        "schema": {"openAPIV3Schema": {
            "type": "object",
            "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
                           "spec": _spec(), "status": _status()},
        }},
    }  # fmt: skip


def _spec() -> dict[str, Any]:
    return _object({
        "replicas": {**_COUNT, "default": 1},
        "startupPolicy": {"type": "string", "default": "LeaderCreated", "enum": ["LeaderCreated", "LeaderReady"]},
        "networkConfig": _object(
            {"subdomainPolicy": {"type": "string", "enum": ["Shared", "UniquePerReplica"]}}, ["subdomainPolicy"]),
        "rolloutStrategy": _object({
            "type": {"type": "string", "default": "RollingUpdate", "enum": ["RollingUpdate"]},
            "rollingUpdateConfiguration": _object({
                "partition": {**_COUNT, "default": 0},
                "maxUnavailable": {**_COUNT_OR_SHARE, "default": 1},
                "maxSurge": {**_COUNT_OR_SHARE, "default": 0},
            }),
        }, ["type"]),
        "leaderWorkerTemplate": _object({
            "leaderTemplate": _TEMPLATE,
            "workerTemplate": _TEMPLATE,
            "size": {**_COUNT, "default": 1},
            "restartPolicy": {"type": "string", "default": "RecreateGroupOnPodRestart",
                              "enum": ["Default", "RecreateGroupOnPodRestart", "None"]},
            "subGroupPolicy": _object({
                "subGroupPolicyType": {"type": "string", "default": "LeaderWorker",
                                       "enum": ["LeaderWorker", "LeaderExcluded"]},
                "subGroupSize": _COUNT,
            }),
        }, ["workerTemplate"]),
    }, ["leaderWorkerTemplate"])  # fmt: skip


def _status() -> dict[str, Any]:
    condition = _object({
        **{name: {"type": "string"} for name in ("type", "reason", "message")},
        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "lastTransitionTime": {"type": "string", "format": "date-time"},
        "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
    }, ["lastTransitionTime", "message", "reason", "status", "type"])  # fmt: skip
    return _object({
        "conditions": {"type": "array", "items": condition},
        "hpaPodSelector": {"type": "string"},
        **dict.fromkeys(("replicas", "readyReplicas", "updatedReplicas"), _COUNT),
    })  # fmt: skip


def _object(properties: dict[str, Any], required: list[str] | None = None) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}
