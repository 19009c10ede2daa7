"""What a node is told at its first boot. Pure.

AL2023 reads a NodeConfig (nodeadm) out of MIME parts; Bottlerocket reads TOML. EKS adds the cluster's
own part to both when a node group joins, so neither names the cluster.
Sources: https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/ (instance.localStorage.strategy),
https://bottlerocket.dev/en/os/latest/#/api/settings/bootstrap-commands/.
"""

from __future__ import annotations

import base64
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from typing import Any

import yaml

from components.platform.node_generation import AmiFamily

BOUNDARY = "splitserve-node-config"
"""Fixed, so that equal nodes have equal user data."""


def user_data(ami: AmiFamily, nvme: bool) -> str:
    """base64, as a launch template holds it."""
    text = _bottlerocket(nvme) if ami == "bottlerocket" else _al2023(nvme)
    return base64.b64encode(text.encode()).decode()


def node_config(nvme: bool) -> dict[str, Any]:
    """nodeadm's NodeConfig: local NVMe disks as one RAID0 array for images, logs and models."""
    storage = {"instance": {"localStorage": {"strategy": "RAID0"}}} if nvme else {}
    return {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": storage}


def _al2023(nvme: bool) -> str:
    message = MIMEMultipart("mixed", boundary=BOUNDARY)
    part = MIMEText(yaml.safe_dump(node_config(nvme), sort_keys=False))
    part.replace_header("Content-Type", "application/node.eks.aws")
    del part["Content-Transfer-Encoding"]
    message.attach(part)
    return message.as_string()


def _bottlerocket(nvme: bool) -> str:
    disks = """
[settings.bootstrap-commands.local-disks]
commands = [["apiclient", "ephemeral-storage", "init"],
            ["apiclient", "ephemeral-storage", "bind", "--dirs", "/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods"]]
essential = true
mode = "always"
"""
    return "[settings.kubernetes]\n" + (disks if nvme else "")
