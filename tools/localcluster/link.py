"""Throttle the network link of one pod, to make a real slow link.

The node's end of the pod's virtual link gets a token bucket filter: what the pod receives passes at
the given rate, and a decode pod receives its KV cache that way.
"""

from __future__ import annotations

import subprocess

from tools.localcluster import cluster

BURST_BYTES = 256 * 1024 // 8
QUEUE_MS = 400


def throttle(pod_ip: str, rate_mbit_per_s: float) -> None:
    """Limit what the pod at `pod_ip` receives to `rate_mbit_per_s`."""
    _tc(
        ["qdisc", "replace", "dev", interface_of(pod_ip), "root", "tbf", "rate", f"{rate_mbit_per_s}mbit",
         "burst", str(BURST_BYTES), "latency", f"{QUEUE_MS}ms"]
    )  # fmt: skip


def restore(pod_ip: str) -> None:
    """Take the limit off the pod's link."""
    _tc(["qdisc", "del", "dev", interface_of(pod_ip), "root"])


def interface_of(pod_ip: str) -> str:
    """The node's end of the pod's link: the `ptp` plugin routes each pod's address to it."""
    shown = subprocess.run(
        cluster.node_command(["ip", "-4", "-o", "route", "get", pod_ip]),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    words = shown.stdout.split()
    return words[words.index("dev") + 1]


def _tc(arguments: list[str]) -> None:
    done = subprocess.run(cluster.node_command(["tc", *arguments]), capture_output=True, text=True)
    if done.returncode != 0:
        raise cluster.ClusterError(f"tc {' '.join(arguments)} failed: {done.stderr.strip()}")
