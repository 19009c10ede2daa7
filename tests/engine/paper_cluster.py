"""A cluster without machines: the real API server and controllers, and a node on paper.

Deployments, Jobs and namespaces are Kubernetes' own. Pods are only written down as running; a probe's pod has
ended at once, and its log is the evidence that the test wants. No vLLM and no container runs.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import yaml
from kubernetes import client
from kubernetes import config as kubernetes_config

from tests.engine.paper_node import PaperNode
from tests.unit.ports import free_port
from tools.cache import cache
from tools.localcluster.certificates import ensure_certificates

START_LIMIT_S = 180
CONTROLLERS = (
    "deployment-controller", "replicaset-controller", "job-controller", "namespace-controller",
    "garbage-collector-controller",
)  # fmt: skip


@contextmanager
def paper_cluster(folder: Path) -> Iterator[tuple[Path, PaperNode]]:
    """A kubeconfig of a running cluster below `folder`, and its node."""
    processes: list[subprocess.Popen[bytes]] = []
    kubeconfig = folder / "kubeconfig"
    try:
        _start(folder, kubeconfig, processes)
        api = kubernetes_config.new_client_from_config(str(kubeconfig))
        _wait_ready(api, processes)
        with PaperNode(api, folder / "pki") as node:
            yield kubeconfig, node
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in reversed(processes):
            process.wait(30)


def _start(folder: Path, kubeconfig: Path, processes: list[subprocess.Popen[bytes]]) -> None:
    etcd, peers, api, controllers = (free_port() for _ in range(4))
    pki = folder / "pki"
    ensure_certificates(pki)
    _write_kubeconfig(pki, kubeconfig, api)
    store = f"http://127.0.0.1:{etcd}"
    commands = {
        "etcd": [f"--data-dir={folder}/etcd", f"--listen-client-urls={store}", f"--advertise-client-urls={store}",
                 f"--listen-peer-urls=http://127.0.0.1:{peers}", "--unsafe-no-fsync", "--log-level=error"],
        "kube-apiserver": _api_server(pki, store, api),
        "kube-controller-manager": [f"--kubeconfig={kubeconfig}", "--leader-elect=false", f"--secure-port={controllers}",
                                    f"--controllers={','.join(CONTROLLERS)}", f"--cert-dir={folder}/controllers"],
    }  # fmt: skip
    for name, arguments in commands.items():
        processes.append(_process(cache().kubernetes / name, arguments, (folder / f"{name}.log").open("wb")))


def _process(program: Path, arguments: list[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
    assert program.exists(), f"no {program}: run `make test-engine`, which builds it"
    with log:
        return subprocess.Popen([program, *arguments], stdout=log, stderr=subprocess.STDOUT)


def _api_server(pki: Path, store: str, port: int) -> list[str]:
    return [
        f"--etcd-servers={store}", "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
        f"--secure-port={port}", "--service-cluster-ip-range=198.19.0.0/16", "--endpoint-reconciler-type=none",
        "--authorization-mode=AlwaysAllow", "--disable-admission-plugins=ServiceAccount",
        f"--client-ca-file={pki}/ca.crt", f"--tls-cert-file={pki}/apiserver.crt",
        f"--tls-private-key-file={pki}/apiserver.key", "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={pki}/service-account.key",
        f"--service-account-signing-key-file={pki}/service-account.key", "--kubelet-preferred-address-types=InternalIP",
    ]  # fmt: skip


def _write_kubeconfig(pki: Path, kubeconfig: Path, port: int) -> None:
    server = {"server": f"https://127.0.0.1:{port}", "certificate-authority": f"{pki}/ca.crt"}
    user = {"client-certificate": f"{pki}/admin.crt", "client-key": f"{pki}/admin.key"}
    content = {
        "apiVersion": "v1", "kind": "Config", "current-context": "paper",
        "clusters": [{"name": "paper", "cluster": server}],
        "users": [{"name": "paper", "user": user}],
        "contexts": [{"name": "paper", "context": {"cluster": "paper", "user": "paper"}}],
    }  # fmt: skip
    kubeconfig.write_text(yaml.safe_dump(content))


def _wait_ready(api: Any, processes: list[subprocess.Popen[bytes]]) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline:
        ended = [process.args for process in processes if process.poll() is not None]
        assert not ended, f"ended: {ended}"
        # Until then it refuses connections, or knows no default namespace yet.
        with suppress(Exception):
            client.CoreV1Api(api).read_namespace("default", _request_timeout=5)
            return
        time.sleep(0.5)
    raise AssertionError(f"the API server did not answer within {START_LIMIT_S} s")
