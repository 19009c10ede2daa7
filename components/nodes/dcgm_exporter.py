"""NVIDIA's DCGM exporter: GPU metrics of each node on port 9400."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pulumi

from components.nodes import images
from components.nodes.daemon import Daemon, daemon_set, declare, host_path, mount, resources
from components.nodes.names import GPU_NODES

NAME = "splitserve-dcgm-exporter"
PORT = 9400
PRIVILEGED_BECAUSE = (
    "profiling metrics (DCGM_FI_PROF_*) need the capability SYS_ADMIN "
    "(NVIDIA/dcgm-exporter 4.5.3-4.8.2, deployment/values.yaml)"
)
_POD_RESOURCES = "/var/lib/kubelet/pod-resources"


@dataclass(frozen=True)
class DcgmExporterArgs:
    """`profiling` adds the DCGM_FI_PROF_* metrics, and the capability that they need."""

    owner: str
    selector: Mapping[str, str] = field(default_factory=lambda: GPU_NODES)
    image: str = images.DCGM_EXPORTER.reference
    runtime_class: str | None = None
    profiling: bool = False


def render(args: DcgmExporterArgs) -> dict[str, Any]:
    """After the chart of 4.5.3-4.8.2. It stays root, which owns the kubelet's pod-resources folder, and
    drops every capability; without SYS_ADMIN the exporter itself leaves profiling metrics out
    (pkg/cmd/app.go, "Not collecting DCP metrics")."""
    capabilities: dict[str, Any] = {"drop": ["ALL"]}
    if args.profiling:
        capabilities["add"] = ["SYS_ADMIN"]
    health = {"httpGet": {"path": "/health", "port": PORT}, "initialDelaySeconds": 45}
    container = {
        "name": "dcgm-exporter",
        "image": args.image,
        "env": [
            {"name": "DCGM_EXPORTER_KUBERNETES", "value": "true"},
            {"name": "DCGM_EXPORTER_LISTEN", "value": f":{PORT}"},
            {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        ],
        "ports": [{"name": "metrics", "containerPort": PORT}],
        "securityContext": {
            "runAsNonRoot": False,
            "runAsUser": 0,
            "allowPrivilegeEscalation": False,
            "capabilities": capabilities,
        },
        "livenessProbe": {**health, "periodSeconds": 5},
        "readinessProbe": health,
        "resources": resources("100m", "128Mi", "512Mi"),
        "volumeMounts": [mount("pod-resources", _POD_RESOURCES, readOnly=True)],
    }
    because = PRIVILEGED_BECAUSE if args.profiling else None
    volumes = [host_path("pod-resources", _POD_RESOURCES)]
    return daemon_set(
        Daemon(NAME, args.owner, args.selector, [container], volumes, because, runtime_class=args.runtime_class)
    )  # fmt: skip


class DcgmExporter(pulumi.ComponentResource):
    """The exporter on every node with NVIDIA GPUs."""

    daemon_set: pulumi.Output[str]
    port: pulumi.Output[int]

    def __init__(self, name: str, args: DcgmExporterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("splitserve:nodes:DcgmExporter", name, None, opts)
        self.daemon_set = declare(render(args), self).metadata["name"]
        self.port = pulumi.Output.from_input(PORT)
        self.register_outputs({"daemonSet": self.daemon_set, "port": self.port})
