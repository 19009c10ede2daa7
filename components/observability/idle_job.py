"""The idle probe's CronJob, its program and its identity. Pure.

Its pod carries the gate's probe label: NetworkPolicies let it reach every tier, and no Service or router finds it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from components.observability.packed import packed
from components.release.probe import ROUTER_KEY_VARIABLE
from components.serving import pod
from components.serving.gateway import KEY
from components.serving.labels import MANAGED_BY, SERVICE
from components.serving.release_files import MOUNT
from components.serving.spec import PodPlacement

NAME = "splitserve-idle-probe"
PROGRAM_FILE = "idle_probe.pyz"
LABELS = {**MANAGED_BY, "app.kubernetes.io/name": "splitserve", "app.kubernetes.io/component": "probe"}
RULES: list[dict[str, Any]] = [
    {"apiGroups": [""], "resources": ["services"], "resourceNames": [SERVICE], "verbs": ["get"]},
    # The live release's record, whose name its id decides.
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
]
START_LIMIT_S = 120
"""Later than this a run is left out: the next one comes anyway."""
KEPT_SUCCESSES = 1
KEPT_FAILURES = 3


@dataclass(frozen=True)
class IdleProbeArgs:
    """`schedule` is cron's. `samples` transfers a pair, if nobody uses the engines for `quiet_s`. `limit_s` is how long
    one run may take; `api_key_secret` the Secret of the router's keys, if it asks for one."""

    schedule: str
    samples: int
    quiet_s: int
    limit_ms: float
    limit_s: int
    image: str
    placement: PodPlacement
    api_key_secret: str | None = None


def program_name() -> str:
    """With the program's hash: another program is another ConfigMap, and so another pod."""
    return f"{NAME}-{hashlib.sha256(packed()).hexdigest()[:10]}"


def cron_job_spec(args: IdleProbeArgs) -> dict[str, Any]:
    """One run at a time, never tried again by itself: its exit code is the answer."""
    job = {
        "backoffLimit": 0,
        "activeDeadlineSeconds": args.limit_s,
        "template": {"metadata": {"labels": LABELS}, "spec": _pod(args)},
    }
    return {
        "schedule": args.schedule,
        "concurrencyPolicy": "Forbid",
        "startingDeadlineSeconds": START_LIMIT_S,
        "successfulJobsHistoryLimit": KEPT_SUCCESSES,
        "failedJobsHistoryLimit": KEPT_FAILURES,
        "jobTemplate": {"metadata": {"labels": LABELS}, "spec": job},
    }


def _pod(args: IdleProbeArgs) -> dict[str, Any]:
    container = {
        "name": "idle-probe",
        "image": args.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-I", "-S", f"{MOUNT}/{PROGRAM_FILE}"],
        "args": _arguments(args),
        "env": [{"name": "NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}, *_key(args)],
        "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": pod.SECURITY_CONTEXT,
        "volumeMounts": [{"name": "program", "mountPath": MOUNT, "readOnly": True}],
    }
    volumes = [{"name": "program", "configMap": {"name": program_name()}}]
    spec = pod.pod_spec(args.placement, container, volumes, grace_s=1)
    return spec | {"restartPolicy": "Never", "serviceAccountName": NAME, "automountServiceAccountToken": True}


def _arguments(args: IdleProbeArgs) -> list[str]:
    given = {
        "--namespace": "$(NAMESPACE)",
        "--service": SERVICE,
        "--samples": str(args.samples),
        "--quiet-s": str(args.quiet_s),
        "--limit-ms": f"{args.limit_ms:g}",
    }
    return [word for pair in given.items() for word in pair]


def _key(args: IdleProbeArgs) -> list[dict[str, Any]]:
    if args.api_key_secret is None:
        return []
    return [{"name": ROUTER_KEY_VARIABLE, "valueFrom": {"secretKeyRef": {"name": args.api_key_secret, "key": KEY}}}]
