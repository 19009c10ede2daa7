"""What runs on nodes as a Markdown table: docs/reference/node-plugins.md is made from it."""

from __future__ import annotations

from typing import Any

from components.nodes import (
    dcgm_exporter,
    dranet,
    efa_device_plugin,
    images,
    nvidia_device_plugin,
    nvidia_dra_driver,
    rdma_shared_device_plugin,
)
from components.nodes.images import Image
from components.nodes.names import PRIVILEGED_BECAUSE, Plugin

HEAD = """# Node plugins

What the stack runs on GPU nodes, in `kube-system`. Only what a cluster does not have is installed; what
somebody else installed is left alone. Made by `components/nodes/table.py`.

| plugin | image | version | pinned by | source | manifest after | privilege | reason |
|---|---|---|---|---|---|---|---|
"""
TAIL = """
Each DaemonSet chooses its nodes by label (`splitserve.dev/accelerator: nvidia`, `splitserve.dev/efa: "true"`,
or a selector of yours on a cluster of yours), never by a list of instance types; it tolerates every taint,
has the priority class `system-node-critical`, and keeps away from EKS Auto Mode's nodes, which have plugins
built in.

AWS's two images lie in a registry that answers only to AWS credentials (account 602401143452, us-west-2).
Other partitions, and networks without a way there, need another registry: an argument of the component.

## Devices by DRA

From Kubernetes 1.34 on, `gpu-dra` and `efa-dra` take the place of `gpu` and `efa`; older clusters are refused.
A tier's ResourceClaimTemplate asks for one GPU with the EFA devices on its PCIe root, once for each GPU.
Device plugin and DRA driver for the same devices are never installed side by side.

## RDMA counters

Where pods ask for RDMA devices, `splitserve-rdma-counters` runs in the stack's own namespace, on the engines'
image and without a privilege: the kernel's counters of each device (`/sys/class/infiniband`), EFA's and
InfiniBand's alike, as `rdma_counter_total` on port 9401. `nodeSoftware.rdmaMetrics: false` leaves it out.

## Engines over several nodes

Where a tier has such engines and the cluster no controller of LeaderWorkerSets, the stack brings it: kind, webhooks,
rights and one Deployment in `lws-system`, after upstream's manifests
(<https://github.com/kubernetes-sigs/lws/tree/v0.7.0/config>), on `registry.k8s.io/lws/lws` v0.7.0 by digest. It runs
without a privilege, makes its own certificates, and may change pods, Services and StatefulSets of every namespace.
`nodeSoftware.leaderWorkerSets` leaves it to somebody else. The kind is kept when the stack goes.

## Left out

- **A digest for the RDMA shared device plugin and for AWS's images.** No public source of theirs states one.
- **DRA for InfiniBand and RoCE.** DRANET does it, but AWS's build, which runs without privileges, offers EFA only.
- **NVIDIA's compute domains** (multi-node NVLink) and the admission policy of its DRA driver: install
  upstream's chart for those, and the stack leaves the driver to it.
"""
OWNER = "organization.splitserve.stack"


def rendered() -> dict[Plugin, tuple[Image, dict[str, Any]]]:
    """Every plugin with its image and its DaemonSet as it is by default."""
    return {
        "gpu": (images.NVIDIA_DEVICE_PLUGIN,
                nvidia_device_plugin.render(nvidia_device_plugin.NvidiaDevicePluginArgs(OWNER))),
        "efa": (images.EFA_DEVICE_PLUGIN, efa_device_plugin.render(efa_device_plugin.EfaDevicePluginArgs(OWNER))),
        "rdma-shared": (images.RDMA_SHARED_DEVICE_PLUGIN, rdma_shared_device_plugin.render(
            rdma_shared_device_plugin.RdmaSharedDevicePluginArgs(OWNER))),
        "dcgm": (images.DCGM_EXPORTER, dcgm_exporter.render(dcgm_exporter.DcgmExporterArgs(OWNER))),
        "gpu-dra": (images.NVIDIA_DRA_DRIVER, nvidia_dra_driver.render(nvidia_dra_driver.NvidiaDraDriverArgs(OWNER))),
        "efa-dra": (images.DRANET, dranet.render(dranet.DranetArgs(OWNER))),
    }  # fmt: skip


def plugin_table() -> str:
    """One row a plugin, the privilege read off its manifest."""
    return HEAD + "".join(_row(plugin, image, manifest) for plugin, (image, manifest) in rendered().items()) + TAIL


def _row(plugin: Plugin, image: Image, manifest: dict[str, Any]) -> str:
    reason = manifest["metadata"]["annotations"].get(PRIVILEGED_BECAUSE, "")
    pinned = "digest" if image.digest else "version"
    cells = [f"`{plugin}`", f"`{image.repository}`", image.tag, pinned, f"<{image.source}>", f"<{image.manifest}>",
             privilege(manifest), reason]  # fmt: skip
    return "| " + " | ".join(cells) + " |\n"


def privilege(manifest: dict[str, Any]) -> str:
    """What a DaemonSet may that an ordinary pod may not."""
    pod = manifest["spec"]["template"]["spec"]
    contexts = [c.get("securityContext", {}) for c in [*pod.get("initContainers", []), *pod["containers"]]]
    found = ["privileged"] if any(context.get("privileged") for context in contexts) else []
    found += sorted({name for context in contexts for name in context.get("capabilities", {}).get("add", [])})
    if pod.get("hostNetwork"):
        found.append("the node's network")
    folders = sorted({v["hostPath"]["path"] for v in pod["volumes"] if "hostPath" in v})
    return ", ".join([*found, *(f"`{folder}`" for folder in folders)])
