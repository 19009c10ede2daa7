"""RDMA counters of each node on port 9401: bytes, drops and errors of EFA, InfiniBand and RoCE devices.

On the image that the node runs anyway: AWS's own exporter comes as a Dockerfile to build
(awsome-distributed-training, `4.validation_and_observability/3.efa-node-exporter`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pulumi

from components.nodes.daemon import Daemon, daemon_set, declare, resources
from components.nodes.names import GPU_NODES

NAME = "splitserve-rdma-counters"
PORT = 9401
DEVICES = "/sys/class/infiniband"


@dataclass(frozen=True)
class RdmaCountersArgs:
    """`namespace` is the stack's own: two stacks on one cluster don't get in each other's way."""

    owner: str
    namespace: str
    image: str
    run_as_user: int
    selector: Mapping[str, str] = field(default_factory=lambda: GPU_NODES)


def render(args: RdmaCountersArgs) -> dict[str, Any]:
    """The DaemonSet. The kernel shows every pod these counters, read-only: no privilege is needed."""
    script = Path(__file__).with_name("rdma_counters_exporter.py").read_text()
    health = {"httpGet": {"path": "/health", "port": PORT}, "periodSeconds": 30, "timeoutSeconds": 5}
    container = {
        "name": "rdma-counters",
        "image": args.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-I", "-S", "-c", script, str(PORT), DEVICES],
        "ports": [{"name": "metrics", "containerPort": PORT}],
        "securityContext": {
            "runAsNonRoot": args.run_as_user != 0,
            "runAsUser": args.run_as_user,
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "readinessProbe": health,
        "livenessProbe": health,
        "resources": resources("10m", "32Mi", "128Mi"),
    }
    daemon = Daemon(NAME, args.owner, args.selector, [container], [], namespace=args.namespace)
    return daemon_set(daemon)


class RdmaCounters(pulumi.ComponentResource):
    """The exporter on every node that serves."""

    daemon_set: pulumi.Output[str]
    port: pulumi.Output[int]

    def __init__(self, name: str, args: RdmaCountersArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("splitserve:nodes:RdmaCounters", name, None, opts)
        self.daemon_set = declare(render(args), self).metadata["name"]
        self.port = pulumi.Output.from_input(PORT)
        self.register_outputs({"daemonSet": self.daemon_set, "port": self.port})
