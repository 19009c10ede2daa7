"""Throttle the network link of one pod, to make a real slow link; or refuse what one pod sends to another.

The node's end of the pod's virtual link gets a token bucket filter: what the pod receives passes at
the given rate, and a decode pod receives its KV cache that way. Refusing is a rule of the node's firewall, as a
policy or a security group that forgets a port: the kubelet still reaches both.
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


def refuse(from_ip: str, to_ip: str) -> None:
    """Answer every TCP packet from one pod to another with a reset."""
    _node(["iptables", "-I", "FORWARD", "1", *_refusal(from_ip, to_ip)])


def allow(from_ip: str, to_ip: str) -> None:
    """Take that rule back."""
    _node(["iptables", "-D", "FORWARD", *_refusal(from_ip, to_ip)])


def _refusal(from_ip: str, to_ip: str) -> list[str]:
    return ["-s", from_ip, "-d", to_ip, "-p", "tcp", "-j", "REJECT", "--reject-with", "tcp-reset"]


def interface_of(pod_ip: str) -> str:
    """The node's end of the pod's link: the `ptp` plugin routes each pod's address to it."""
    shown = subprocess.run(
        cluster.node_command(["ip", "-4", "-o", "route", "get", pod_ip]),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    words = shown.stdout.split()
    return words[words.index("dev") + 1]


def _tc(arguments: list[str]) -> None:
    _node(["tc", *arguments])


def _node(command: list[str]) -> None:
    done = subprocess.run(cluster.node_command(command), capture_output=True, text=True)
    if done.returncode != 0:
        raise cluster.ClusterError(f"{' '.join(command)} failed: {done.stderr.strip()}")
