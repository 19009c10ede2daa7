"""What runs on the node and how: component command lines and their configuration files.

Pure apart from `write_configuration`: every function returns text or data for one component.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tools.localcluster.certificates import kubeconfig, write_private
from tools.localcluster.layout import (
    API_PORT,
    CGROUP,
    HOST_ADDRESS,
    NODE_ADDRESS,
    NODE_NAME,
    POD_RANGE,
    SERVICE_RANGE,
    TOKEN_WEBHOOK_PORT,
    VLLM_MOUNT,
    Layout,
)

ETC = "/splitserve"
"""Where the node sees `Layout.etc`."""
PKI = f"{ETC}/pki"
BIN = "/opt/splitserve/bin"
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
PAUSE_IMAGE = "splitserve.local/base:pause"


def components() -> list[dict[str, Any]]:
    """The node's processes in starting order: name and command line."""
    return [
        {"name": name, "argv": [f"{BIN}/{name}" if own else f"/usr/bin/{name}", *arguments]}
        for name, own, arguments in (
            ("etcd", True, _etcd()),
            ("kube-apiserver", True, _apiserver()),
            ("containerd", False, ["--config", f"{ETC}/containerd.toml"]),
            ("kubelet", True, _kubelet()),
            ("kube-controller-manager", True, _controller_manager()),
            ("kube-scheduler", True, _scheduler()),
            ("kube-proxy", True, ["--config", f"{ETC}/kube-proxy.yaml"]),
            ("coredns", True, ["-conf", f"{ETC}/Corefile"]),
        )
    ]


def _etcd() -> list[str]:
    return [
        "--data-dir=/var/lib/etcd",
        "--listen-client-urls=http://127.0.0.1:2379",
        "--advertise-client-urls=http://127.0.0.1:2379",
        "--listen-peer-urls=http://127.0.0.1:2380",
        "--log-level=warn",
    ]


def _apiserver() -> list[str]:
    return [
        "--etcd-servers=http://127.0.0.1:2379",
        f"--advertise-address={NODE_ADDRESS}",
        f"--secure-port={API_PORT}",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--anonymous-auth=false",
        "--allow-privileged=true",
        "--endpoint-reconciler-type=lease",
        f"--client-ca-file={PKI}/ca.crt",
        # Tokens of the AWS stand-in (tools/awsim); where it does not run they are refused.
        f"--authentication-token-webhook-config-file={ETC}/token-webhook.yaml",
        "--authentication-token-webhook-version=v1",
        "--authentication-token-webhook-cache-ttl=10s",
        f"--tls-cert-file={PKI}/apiserver.crt",
        f"--tls-private-key-file={PKI}/apiserver.key",
        f"--kubelet-certificate-authority={PKI}/ca.crt",
        f"--kubelet-client-certificate={PKI}/apiserver-kubelet.crt",
        f"--kubelet-client-key={PKI}/apiserver-kubelet.key",
        "--kubelet-preferred-address-types=InternalIP",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={PKI}/service-account.key",
        f"--service-account-signing-key-file={PKI}/service-account.key",
    ]


def _kubelet() -> list[str]:
    return [
        f"--config={ETC}/kubelet.yaml",
        f"--kubeconfig={ETC}/kubelet.kubeconfig",
        f"--hostname-override={NODE_NAME}",
        f"--node-ip={NODE_ADDRESS}",
        "--root-dir=/var/lib/kubelet",
        f"--node-labels=topology.kubernetes.io/zone=local,kubernetes.io/hostname={NODE_NAME}",
    ]


def _controller_manager() -> list[str]:
    return [
        f"--kubeconfig={ETC}/controller-manager.kubeconfig",
        f"--service-account-private-key-file={PKI}/service-account.key",
        f"--root-ca-file={PKI}/ca.crt",
        "--use-service-account-credentials=true",
        "--leader-elect=false",
        # Two cores: the default of 5 to 50 workers for each controller gains nothing here.
        "--concurrent-deployment-syncs=2",
    ]


def _scheduler() -> list[str]:
    return [f"--kubeconfig={ETC}/scheduler.kubeconfig", "--leader-elect=false"]


def kubelet_configuration() -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{CGROUP}",
        # The kernel may still mount cgroup v1; kubelets from 1.35 on refuse it altogether.
        "failCgroupV1": False,
        "failSwapOn": False,
        "clusterDNS": [NODE_ADDRESS],
        "clusterDomain": "cluster.local",
        "resolvConf": f"{ETC}/resolv.conf",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{PKI}/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": f"{PKI}/kubelet.crt",
        "tlsPrivateKeyFile": f"{PKI}/kubelet.key",
        "serializeImagePulls": False,
        # Images can't be pulled again here, so none is ever collected, and a full disk evicts late.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {
            "memory.available": "200Mi",
            "nodefs.available": "1%",
            "imagefs.available": "1%",
        },
    }


def token_webhook() -> dict[str, Any]:
    """Whom the API server asks about bearer tokens that are not its own."""
    server = f"http://{HOST_ADDRESS}:{TOKEN_WEBHOOK_PORT}/authenticate"
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "tokens", "cluster": {"server": server}}],
        "users": [{"name": "tokens", "user": {}}],
        "contexts": [{"name": "tokens", "context": {"cluster": "tokens", "user": "tokens"}}],
        "current-context": "tokens",
    }


def kube_proxy_configuration() -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "hostnameOverride": NODE_NAME,
        "clusterCIDR": POD_RANGE,
        "clientConnection": {"kubeconfig": f"{ETC}/proxy.kubeconfig"},
        # Zero leaves the machine's conntrack limits as they are; they are not the namespace's.
        "conntrack": {"maxPerCore": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }


def containerd_configuration() -> str:
    """containerd 1.6's CRI plugin.

    `restrict_oom_score_adj`: where the host lacks CAP_SYS_RESOURCE, runc dies when it may not lower
    oom_score_adj. `base_runtime_spec` carries the node's vLLM mount (docs/decisions/0002).
    """
    return f"""\
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "{CONTAINERD_SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{ETC}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    base_runtime_spec = "{ETC}/runtime.json"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
"""


def cni_configuration() -> dict[str, Any]:
    """A routed link per pod (`ptp`), so that no bridge lets replies bypass a Service's address."""
    return {
        "cniVersion": "1.0.0",
        "name": "splitserve",
        "plugins": [
            {
                "type": "ptp",
                "ipMasq": False,
                "ipam": {
                    "type": "host-local",
                    "dataDir": "/var/lib/cni",
                    "ranges": [[{"subnet": POD_RANGE}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }


def corefile() -> str:
    return f"""\
.:53 {{
    bind {NODE_ADDRESS}
    errors
    kubernetes cluster.local in-addr.arpa {{
        kubeconfig {ETC}/coredns.kubeconfig
    }}
    cache 5
}}
"""


def node_plan(layout: Layout) -> dict[str, Any]:
    """What `node.py` mounts, sets and runs."""
    rootfs = layout.rootfs

    def entry(source: Path, target: str, read_only: bool = True) -> dict[str, Any]:
        return {"source": str(source), "target": target, "read_only": read_only}

    return {
        "root": str(layout.state / "root"),
        "hostname": NODE_NAME,
        "script": f"{ETC}/node.py",
        "plan": f"{ETC}/node.json",
        "path": BIN,
        "link": "eth0",
        "log_folder": "/var/log/splitserve",
        "sysctls": {"net.ipv4.ip_forward": "1"},
        "binds": [
            entry(rootfs / "usr", "/usr"),
            entry(rootfs / "etc", "/etc"),
            entry(layout.etc, ETC),
            entry(layout.pki, PKI),
            entry(layout.binaries, BIN),
            entry(layout.vllm, VLLM_MOUNT),
            entry(layout.var, "/var", read_only=False),
            # Same path inside and outside, so that a hostPath volume means what it says.
            entry(layout.models, str(layout.models)),
        ],
        "components": components(),
    }


def write_configuration(layout: Layout) -> None:
    """Write every configuration file; the folders that the node mounts exist afterwards."""
    for folder in (layout.etc / "cni", layout.etc / "pki", layout.logs, layout.models):
        folder.mkdir(parents=True, exist_ok=True)
    for folder in ("lib/etcd", "lib/containerd", "lib/kubelet", "lib/cni", "tmp", "cache"):
        (layout.var / folder).mkdir(parents=True, exist_ok=True)
    (layout.var / "lib/etcd").chmod(0o700)
    for user in ("kubelet", "controller-manager", "scheduler", "proxy", "coredns"):
        write_private(layout.etc / f"{user}.kubeconfig", kubeconfig(layout.pki, user))
    write_private(layout.kubeconfig, kubeconfig(layout.pki, "admin"))
    files: dict[str, str] = {
        "kubelet.yaml": yaml.safe_dump(kubelet_configuration()),
        "token-webhook.yaml": yaml.safe_dump(token_webhook()),
        "kube-proxy.yaml": yaml.safe_dump(kube_proxy_configuration()),
        "containerd.toml": containerd_configuration(),
        "cni/10-splitserve.conflist": json.dumps(cni_configuration(), indent=2),
        "Corefile": corefile(),
        "resolv.conf": f"nameserver {NODE_ADDRESS}\n",
        "runtime.json": json.dumps(_runtime_spec(layout.rootfs)),
        "node.json": json.dumps(node_plan(layout), indent=2),
    }
    for name, text in files.items():
        (layout.etc / name).write_text(text)
    shutil.copyfile(Path(__file__).with_name("node.py"), layout.etc / "node.py")


def _runtime_spec(rootfs: Path) -> dict[str, Any]:
    """containerd's own default spec plus the vLLM mount, which every container then has."""
    printed = subprocess.run(
        ["chroot", str(rootfs), "/usr/bin/ctr", "oci", "spec"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    spec = json.loads(printed.stdout)
    spec["mounts"].append(
        {
            "destination": VLLM_MOUNT,
            "type": "bind",
            "source": VLLM_MOUNT,
            "options": ["rbind", "ro"],
        }
    )
    return spec
