"""How the program, the gate and people reach an EKS cluster: a kubeconfig without a secret in it.

A token is made for each call by `aws eks get-token` from the caller's own AWS identity. The text depends
on the cluster alone, so that it is the same on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import boto3
import yaml
from botocore.exceptions import BotoCoreError, ClientError

from components.platform.node_count import RETRIES


class EksUnknown(Exception):
    """AWS could not be asked whether the cluster exists; the message says why."""


@dataclass(frozen=True)
class EksCluster:
    """What a kubeconfig needs; `ca` is base64 of a PEM certificate."""

    name: str
    region: str
    arn: str
    endpoint: str
    ca: str


def find_cluster(name: str, region: str) -> EksCluster | None:
    """The cluster if it exists and answers; None before the first update. Raises EksUnknown."""
    try:
        eks = boto3.client("eks", region_name=region, config=RETRIES)
        found = eks.describe_cluster(name=name)["cluster"]
    except ClientError as error:
        if error.response["Error"]["Code"] == "ResourceNotFoundException":
            return None
        raise EksUnknown(f"EKS in {region} refused to describe cluster {name}: {error}") from None
    except BotoCoreError as error:
        raise EksUnknown(f"EKS in {region} can't be asked for cluster {name}: {error}") from None
    if found["status"] in ("CREATING", "DELETING", "FAILED") or not found.get("endpoint"):
        return None
    return EksCluster(name, region, found["arn"], found["endpoint"], found["certificateAuthority"]["data"])


def kubeconfig(cluster: EksCluster) -> str:
    """YAML; its one context is named like the cluster."""
    token = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": "aws",
        "args": ["eks", "get-token", "--cluster-name", cluster.name, "--region", cluster.region, "--output", "json"],
        "interactiveMode": "Never",
    }
    name = cluster.name
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": cluster.endpoint, "certificate-authority-data": cluster.ca}}],
        "users": [{"name": name, "user": {"exec": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    return yaml.safe_dump(content, sort_keys=False)


def save(path: Path, cluster: EksCluster) -> Path:
    """Write the kubeconfig where the gate reads it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(kubeconfig(cluster))
    path.chmod(0o600)
    return path
