"""The images that run on nodes, each pinned, each with the page that names it.

A digest is given where a public source states one. AWS states none for its EFA images: their registry
answers only to AWS credentials, so those are pinned by an exact version.
"""

from __future__ import annotations

from dataclasses import dataclass

_GPU_OPERATOR = (
    "https://github.com/NVIDIA/gpu-operator/blob/a22dbf671f2e26f9a1e342f8eea28e196235e110/"
    "bundle/manifests/gpu-operator-certified.clusterserviceversion.yaml"
)
_EKS_CHARTS = "https://github.com/aws/eks-charts/blob/5239609242f3430be50fb0b714a24d3ef2b47983/stable"
_KUBERNETES_IMAGES = "https://github.com/kubernetes/k8s.io/blob/main/registry.k8s.io/images"


@dataclass(frozen=True)
class Image:
    """`source` names the image, `manifest` is what its DaemonSet here was written after."""

    repository: str
    tag: str
    source: str
    manifest: str
    digest: str | None = None

    @property
    def reference(self) -> str:
        return f"{self.repository}:{self.tag}" + (f"@{self.digest}" if self.digest else "")


NVIDIA_DEVICE_PLUGIN = Image(
    "nvcr.io/nvidia/k8s-device-plugin",
    "v0.20.0",
    _GPU_OPERATOR,
    "https://github.com/NVIDIA/k8s-device-plugin/blob/v0.20.0/deployments/static/nvidia-device-plugin.yml",
    "sha256:a61ba9fd8efb82f3a79f877f7580e02c1e8e7593f62473644bc9c79e315c3312",
)
DCGM_EXPORTER = Image(
    "nvcr.io/nvidia/k8s/dcgm-exporter",
    "4.6.0-4.8.3-distroless",
    _GPU_OPERATOR,
    "https://github.com/NVIDIA/dcgm-exporter/blob/4.5.3-4.8.2/deployment/templates/daemonset.yaml",
    "sha256:613ab03c11d442fd960ff515f547e9921537454a712d08160bc8f677f89f1c35",
)
EFA_DEVICE_PLUGIN = Image(
    "602401143452.dkr.ecr.us-west-2.amazonaws.com/eks/aws-efa-k8s-device-plugin",
    "v0.5.20",
    f"{_EKS_CHARTS}/aws-efa-k8s-device-plugin/values.yaml",
    f"{_EKS_CHARTS}/aws-efa-k8s-device-plugin/templates/daemonset.yaml",
)
RDMA_SHARED_DEVICE_PLUGIN = Image(
    "ghcr.io/mellanox/k8s-rdma-shared-dev-plugin",
    "v1.5.3",
    "https://github.com/Mellanox/k8s-rdma-shared-dev-plugin/blob/v1.5.3/.github/workflows/release.yaml",
    "https://github.com/Mellanox/k8s-rdma-shared-dev-plugin/blob/v1.5.3/deployment/k8s/base/daemonset.yaml",
)
DRANET = Image(
    "602401143452.dkr.ecr.us-west-2.amazonaws.com/eks/dranet",
    "v1.2.0-eksbuild.2",
    f"{_EKS_CHARTS}/aws-dranet/values.yaml",
    f"{_EKS_CHARTS}/aws-dranet/templates/daemonset.yaml",
)
NVIDIA_DRA_DRIVER = Image(
    "registry.k8s.io/dra-driver-nvidia/dra-driver-nvidia-gpu",
    "v0.4.1",
    f"{_KUBERNETES_IMAGES}/k8s-staging-dra-driver-nvidia/images.yaml",
    "https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/blob/v0.4.1/deployments/helm/dra-driver-nvidia-gpu/"
    "templates/kubeletplugin.yaml",
    "sha256:eefe67396dedea4df74f68a94d5883f33204888b83979babd42b91501a2de1d8",
)
LEADER_WORKER_SET = Image(
    "registry.k8s.io/lws/lws",
    "v0.7.0",
    f"{_KUBERNETES_IMAGES}/k8s-staging-lws/images.yaml",
    "https://github.com/kubernetes-sigs/lws/tree/v0.7.0/config",
    "sha256:7f60e6ac66ff79564a5f1b5b0078e29d839d007461131b63d11845da49d6a50c",
)
ALL = (
    NVIDIA_DEVICE_PLUGIN, DCGM_EXPORTER, EFA_DEVICE_PLUGIN, RDMA_SHARED_DEVICE_PLUGIN, DRANET, NVIDIA_DRA_DRIVER,
    LEADER_WORKER_SET,
)  # fmt: skip
