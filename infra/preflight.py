"""Ask the cluster what a plan depends on, before anything is declared.

Does it answer, is the namespace ours, which release has the traffic, and with how many replicas? The
last two correct what an update left that was killed while it moved traffic.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException
from urllib3.exceptions import HTTPError
from urllib3.util.retry import Retry

from components.release.cluster import Access, Cluster, ClusterFault, record_name
from components.serving.labels import NO_RELEASE, OWNER_LABEL, RELEASE_LABEL, SERVICE
from infra.schema.platform import Platform
from infra.settings import SettingsError

CALL_LIMIT_S = 5
LOCAL_KUBECONFIG = ".local/kubeconfig"


@dataclass(frozen=True)
class Observed:
    """The release that the front door selects, what its gate recorded, and the replicas that its
    tiers are set to; nothing before the first."""

    selected: str | None
    record: dict[str, Any] | None
    sizes: dict[str, int]


def access(platform: Platform, project: Path, where: str) -> Access:
    """Where the kubeconfig is: as given, else the local cluster's, else the user's own."""
    given = platform.kubeconfig or (LOCAL_KUBECONFIG if platform.kind == "local" else "~/.kube/config")
    path = (project / Path(given).expanduser()).resolve()
    if not path.exists():
        way_out = "start the local cluster: make up" if platform.kind == "local" else "set platform.kubeconfig"
        raise SettingsError(where, [f"platform.kubeconfig: found no file {path}; {way_out}"])
    return Access(str(path), platform.context, platform.namespace)


def observe(access: Access, owner: str, where: str) -> Observed:
    """What the cluster says. Raises SettingsError when it does not answer or is not ours to use."""
    try:
        cluster = Cluster(access)
        cluster.core.api_client.rest_client.pool_manager.connection_pool_kw["retries"] = Retry(0)
        _check_owner(cluster, owner, where)
        selected = _selected(cluster)
        if selected is None:
            return Observed(None, None, {})
        return Observed(selected, cluster.read_record(record_name(selected)), cluster.sizes(selected))
    except (ClusterFault, HTTPError, ConfigException, OSError) as error:
        raise SettingsError(where, [
            f"platform.kubeconfig: the cluster of {access.kubeconfig} does not answer: {_short(error)}; "
            "start it (local: make up) or correct kubeconfig and context"
        ]) from None  # fmt: skip
    except ApiException as error:
        raise SettingsError(where, [
            f"platform.kubeconfig: the cluster refused a read in namespace {access.namespace}: "
            f"{error.status} {error.reason}; the user of {access.kubeconfig} needs the rights of docs/reference/rights.md"
        ]) from None  # fmt: skip


def _check_owner(cluster: Cluster, owner: str, where: str) -> None:
    try:
        namespace = cluster.core.read_namespace(cluster.namespace, _request_timeout=CALL_LIMIT_S)
    except ApiException as error:
        if error.status == 404:
            return
        raise
    found = (namespace.metadata.labels or {}).get(OWNER_LABEL)
    if found != owner:
        whose = f"stack {found}" if found else "somebody else (it has no splitserve label)"
        raise SettingsError(where, [
            f"platform.namespace: found `{cluster.namespace}`, which belongs to {whose}; wanted a "
            f"namespace that does not exist yet or is this stack's ({owner}); choose another name"
        ])  # fmt: skip


def _selected(cluster: Cluster) -> str | None:
    try:
        service = cluster.core.read_namespaced_service(SERVICE, cluster.namespace, _request_timeout=CALL_LIMIT_S)
    except ApiException as error:
        if error.status == 404:
            return None
        raise
    selected = (service.spec.selector or {}).get(RELEASE_LABEL)
    return None if selected in (None, NO_RELEASE) else selected


def _short(error: Exception) -> str:
    reason = getattr(error, "reason", None)
    return str(reason or error).split(": ", 1)[-1][:200]
