"""Start, stop and describe the one-node cluster from the host.

The node is one process (`node.py`) in namespaces of its own, joined to the host by one virtual
link. Stopping it leaves only the control groups to remove; `clean` removes the files as well.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kubernetes import client as k8s
from kubernetes import config as k8s_config
from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException
from tenacity import RetryError, retry, retry_if_exception_type, stop_after_delay, wait_fixed
from urllib3.exceptions import HTTPError

from tools.localcluster import configuration
from tools.localcluster.certificates import ensure_certificates
from tools.localcluster.layout import (
    CGROUP,
    CLUSTER_RANGE,
    HOST_ADDRESS,
    HOST_LINK,
    LINK_PREFIX,
    NODE_ADDRESS,
    NODE_NAME,
    RUN_RECORD,
    Layout,
)

READY_LIMIT_S = 120
STOP_LIMIT_S = 30


class ClusterError(Exception):
    """The cluster can't be started or reached; the message says what to do."""


@dataclass(frozen=True)
class RunningCluster:
    """The machine's record of the node: its process, that process's start, and its checkout."""

    pid: int
    started_ticks: int
    checkout: str


def running() -> RunningCluster | None:
    """The cluster that runs on this machine, if any, whichever checkout started it."""
    try:
        record = RunningCluster(**json.loads(RUN_RECORD.read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None
    return record if _started_ticks(record.pid) == record.started_ticks else None


def start(layout: Layout, say: Callable[[str], None] = lambda _: None) -> bool:
    """Start the node and wait until it is Ready. Returns whether it had to be started.

    Raises ClusterError when another checkout's cluster runs, or the node does not get ready.
    """
    record = running()
    if record and record.checkout != str(layout.checkout):
        raise ClusterError(
            f"the local cluster of another checkout runs on this machine: {record.checkout}; "
            f"stop it first: make -C {record.checkout} down"
        )
    if record is None:
        ensure_certificates(layout.pki)
        configuration.write_configuration(layout)
        _make_cgroups()
        say("starting the node")
        _launch(layout)
    say("waiting for the API server and the node")
    _wait_ready(layout)
    return record is None


def stop(layout: Layout) -> bool:
    """Stop the node, and with it every process, mount and link of it. Returns whether it ran."""
    record = running()
    if record is None or record.checkout != str(layout.checkout):
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(record.pid, signal.SIGTERM)
    _wait_gone(record)
    RUN_RECORD.unlink(missing_ok=True)
    _remove_cgroups()
    return True


def clean(layout: Layout) -> None:
    """Stop the node and remove everything that it wrote."""
    stop(layout)
    shutil.rmtree(layout.state, ignore_errors=True)
    layout.kubeconfig.unlink(missing_ok=True)


def api(layout: Layout) -> k8s.ApiClient:
    """A client for the cluster, by its own kubeconfig and verified certificates."""
    return k8s_config.new_client_from_config(str(layout.kubeconfig))


def node_command(arguments: list[str], namespaces: tuple[str, ...] = ("mount", "net", "pid")) -> list[str]:
    """A command line that runs `arguments` inside the node."""
    record = running()
    if record is None:
        raise ClusterError("the local cluster does not run; start it: make up")
    flags = [f"--{name}" for name in namespaces]
    return ["nsenter", f"--target={record.pid}", *flags, "--", *arguments]


def _launch(layout: Layout) -> None:
    layout.logs.mkdir(parents=True, exist_ok=True)
    log = (layout.logs / "node.log").open("ab")
    command = [
        "unshare", "--mount", "--net", "--pid", "--uts", "--fork", "--kill-child",
        sys.executable, "-S", str(layout.etc / "node.py"), "enter", str(layout.node_plan),
    ]  # fmt: skip
    unshare = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    log.close()
    pid = _child_of(unshare.pid, layout)
    RUN_RECORD.write_text(json.dumps(asdict(RunningCluster(pid, _started_ticks(pid) or 0, str(layout.checkout)))))
    _link(pid)


def _child_of(parent: int, layout: Layout) -> int:
    """The process that `unshare` forked: process 1 of the node."""
    children = Path(f"/proc/{parent}/task/{parent}/children")

    @retry(stop=stop_after_delay(10), wait=wait_fixed(0.05), retry=retry_if_exception_type(ValueError))
    def first() -> int:
        if not children.exists():
            raise ClusterError(f"the node ended at once; see {layout.logs / 'node.log'}")
        return int(children.read_text().split()[0] if children.read_text().strip() else "none")

    return first()


def _link(pid: int) -> None:
    """Join host and node by a pair of virtual interfaces; the pair ends with the node."""
    for command in (
        f"ip link add {HOST_LINK} type veth peer name eth0 netns {pid}",
        f"ip address add {HOST_ADDRESS}/{LINK_PREFIX} dev {HOST_LINK}",
        f"ip link set {HOST_LINK} up",
        f"ip route replace {CLUSTER_RANGE} via {NODE_ADDRESS} dev {HOST_LINK}",
        f"nsenter --target={pid} --net -- ip link set eth0 up",
        f"nsenter --target={pid} --net -- ip address add {NODE_ADDRESS}/{LINK_PREFIX} dev eth0",
        f"nsenter --target={pid} --net -- ip route replace default via {HOST_ADDRESS}",
    ):
        done = subprocess.run(command.split(), capture_output=True, text=True)
        if done.returncode != 0:
            raise ClusterError(f"`{command}` failed: {done.stderr.strip()}")


def is_ready(layout: Layout) -> bool:
    """Whether the API server answers and the node is Ready."""
    try:
        node: Any = k8s.CoreV1Api(api(layout)).read_node(NODE_NAME, _request_timeout=5)
    except (ApiException, HTTPError, ConfigException):
        return False
    return any(c.type == "Ready" and c.status == "True" for c in node.status.conditions or [])


def _wait_ready(layout: Layout) -> None:
    deadline = time.monotonic() + READY_LIMIT_S
    while not is_ready(layout):
        if running() is None:
            raise ClusterError(f"the node ended while starting; see {layout.logs / 'node.log'}")
        if time.monotonic() > deadline:
            raise ClusterError(f"the node was not Ready within {READY_LIMIT_S} s; logs: {layout.logs}")
        time.sleep(0.5)
    _grant_names(layout)


def _grant_names(layout: Layout) -> None:
    """Let CoreDNS read what it serves names for."""
    rbac = k8s.RbacAuthorizationV1Api(api(layout))
    name = "splitserve:coredns"
    rules = [
        {"apiGroups": [""], "resources": ["services", "namespaces", "pods"], "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ]
    group = "rbac.authorization.k8s.io"
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": group, "kind": "User", "name": name}],
    }
    for create, body in (
        (rbac.create_cluster_role, {"metadata": {"name": name}, "rules": rules}),
        (rbac.create_cluster_role_binding, binding),
    ):
        try:
            create(body, _request_timeout=10)
        except ApiException as error:
            if error.status != 409:
                raise


def _started_ticks(pid: int) -> int | None:
    """When the process started, in clock ticks since boot; tells a process from a reused number."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] == "Z" else int(fields[19])


def _wait_gone(record: RunningCluster) -> None:
    def gone() -> None:
        if _started_ticks(record.pid) == record.started_ticks:
            raise RuntimeError("still running")

    try:
        retry(stop=stop_after_delay(STOP_LIMIT_S), wait=wait_fixed(0.1))(gone)()
    except RetryError:
        os.kill(record.pid, signal.SIGKILL)
        retry(stop=stop_after_delay(STOP_LIMIT_S), wait=wait_fixed(0.1))(gone)()


def _cgroup_parents() -> list[Path]:
    """The roots under which the kubelet's group must exist: one, or one a controller (v1)."""
    root = Path("/sys/fs/cgroup")
    if (root / "cgroup.controllers").exists():
        return [root]
    return [folder for folder in root.iterdir() if folder.is_dir() and not folder.is_symlink()]


def _make_cgroups() -> None:
    for parent in _cgroup_parents():
        group = parent / CGROUP
        group.mkdir(exist_ok=True)
        for setting in ("cpuset.cpus", "cpuset.mems"):  # v1: empty until copied from the parent
            if (parent / setting).exists() and not (group / setting).read_text().strip():
                (group / setting).write_text((parent / setting).read_text())
        if (group / "cgroup.subtree_control").exists():  # v2: hand every controller down
            names = (group / "cgroup.controllers").read_text().split()
            (group / "cgroup.subtree_control").write_text(" ".join(f"+{n}" for n in names))


def _remove_cgroups() -> None:
    for parent in _cgroup_parents():
        top = parent / CGROUP
        for folder, _, _ in os.walk(top, topdown=False):
            with contextlib.suppress(OSError):  # busy: a process of it has not quite ended
                os.rmdir(folder)
