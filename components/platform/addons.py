"""EKS add-ons and their pinned versions. Pure.

Versions as public configurations pin them for Kubernetes 1.34; `aws eks describe-addon-versions
--kubernetes-version 1.34` says whether AWS still offers them, and `platform.aws.cluster.addons` puts
others in their place.
"""

from __future__ import annotations

from collections.abc import Mapping

PINNED_FOR = "1.34"
PINNED = {
    "vpc-cni": "v1.20.4-eksbuild.2",
    "kube-proxy": "v1.34.0-eksbuild.2",
    "coredns": "v1.12.3-eksbuild.1",
    "eks-pod-identity-agent": "v1.3.10-eksbuild.2",
    "eks-node-monitoring-agent": "v1.4.0-eksbuild.2",
    "aws-mountpoint-s3-csi-driver": "v2.0.0-eksbuild.1",
    "aws-fsx-csi-driver": "v1.6.0-eksbuild.1",
}
OF_KUBERNETES = ("kube-proxy", "coredns")
"""Their versions follow the cluster's."""
BEFORE_NODES = ("vpc-cni", "kube-proxy", "eks-pod-identity-agent")
"""DaemonSets without which no node becomes ready."""


def addon_versions(names: list[str], overrides: Mapping[str, str]) -> dict[str, str]:
    return {name: overrides.get(name, PINNED[name]) for name in names}
