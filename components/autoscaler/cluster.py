"""What the autoscaler asks of the Kubernetes API, and the two things that it changes there.

Rights: get the one Service, list pods and Deployments, get and patch `deployments/scale`, patch pods.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

RELEASE_LABEL = "splitserve.dev/release"
TIER_LABEL = "splitserve.dev/tier"
"""As components/serving/labels.py has them, which is not here at run time."""
NO_RELEASE = "none"
"""What the Service selects while no release has passed the gate."""
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
"""https://kubernetes.io/docs/concepts/workloads/controllers/replicaset/#pod-deletion-cost"""
LEAVES_FIRST = "-1000"
FIELD_MANAGER = "splitserve-autoscaler"
MERGE = "application/merge-patch+json"
ENDED = ("Succeeded", "Failed")


class ClusterFault(Exception):
    """A call to the API server failed; the message names what was asked and what came back."""


class Changed(ClusterFault):
    """Somebody else changed the Deployment meanwhile: what was decided is out of date."""


@dataclass(frozen=True)
class Pod:
    """`created` is RFC 3339 in UTC, so the greater string is the younger pod."""

    name: str
    uid: str
    tier: str
    ip: str | None
    ready: bool
    created: str = ""
    deletion_cost: str | None = None


@dataclass(frozen=True)
class Workload:
    """A tier's Deployment: what it is set to, and whether its controller has done all that it was told."""

    name: str
    replicas: int
    observed: bool


class Cluster:
    """One namespace, seen through the pod's own service account."""

    def __init__(self, url: str, namespace: str, service_account: str, call_limit_s: float) -> None:
        self._url, self._namespace = url.rstrip("/"), namespace
        self._account = Path(service_account)
        self._limit = aiohttp.ClientTimeout(total=call_limit_s)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Cluster:
        # The API server's certificate is signed by the cluster itself.
        tls = (
            ssl.create_default_context(cafile=str(self._account / "ca.crt")) if self._url.startswith("https") else True
        )
        connector = aiohttp.TCPConnector(ssl=tls)
        self._session = aiohttp.ClientSession(connector=connector, timeout=self._limit, trust_env=False)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session:
            await self._session.close()

    async def live_release(self, service: str) -> str | None:
        """The release that the Service sends its traffic to; None while it sends it nowhere."""
        found = await self._call(
            "GET", f"/api/v1/namespaces/{self._namespace}/services/{service}", missing_is_none=True
        )
        release = ((found or {}).get("spec", {}).get("selector") or {}).get(RELEASE_LABEL)
        return None if release in (None, "", NO_RELEASE) else release

    async def pods(self, release: str) -> list[Pod]:
        """The release's pods, without those that end or have ended."""
        found = await self._list("/api/v1", "pods", release)
        going = (item for item in found if not item["metadata"].get("deletionTimestamp"))
        return [_read_pod(item) for item in going if item.get("status", {}).get("phase") not in ENDED]

    async def workloads(self, release: str) -> dict[str, Workload]:
        """The release's Deployments by tier."""
        found = await self._list("/apis/apps/v1", "deployments", release)
        return {item["metadata"]["labels"][TIER_LABEL]: _read_workload(item) for item in found}

    async def scale(self, name: str, before: int, wanted: int) -> None:
        """Set a Deployment from `before` to `wanted` replicas.

        Raises: Changed when it is not at `before` any more, or somebody else sets it at the same moment.
        """
        path = f"/apis/apps/v1/namespaces/{self._namespace}/deployments/{name}/scale"
        found = await self._call("GET", path) or {}
        replicas = found.get("spec", {}).get("replicas", 0)
        if replicas != before:
            raise Changed(f"Deployment {name}: found {replicas} replicas, wanted {before} as decided upon")
        # With the version the API server refuses the patch (409) if anything was written since that look.
        version = found.get("metadata", {}).get("resourceVersion")
        await self._call("PATCH", path, {"metadata": {"resourceVersion": version}, "spec": {"replicas": wanted}})

    async def set_deletion_cost(self, pod: str, cost: str | None) -> None:
        """Among ready pods the ReplicaSet takes those of the lowest cost first; None takes the mark away."""
        path = f"/api/v1/namespaces/{self._namespace}/pods/{pod}"
        await self._call("PATCH", path, {"metadata": {"annotations": {DELETION_COST: cost}}})

    async def _list(self, group: str, kind: str, release: str) -> list[dict[str, Any]]:
        path = f"{group}/namespaces/{self._namespace}/{kind}"
        # Version 0: from the API server's memory, not from etcd each round; `scale` looks again.
        query = {"labelSelector": f"{RELEASE_LABEL}={release},{TIER_LABEL}", "resourceVersion": "0"}
        return (await self._call("GET", path, query=query) or {}).get("items") or []

    async def _call(self, method: str, path: str, body: dict[str, Any] | None = None,
                    query: dict[str, str] | None = None, missing_is_none: bool = False) -> dict[str, Any] | None:  # fmt: skip
        if self._session is None:
            raise ClusterFault(f"{method} {path}: not connected")
        if body is not None:
            query = {"fieldManager": FIELD_MANAGER}
        try:
            headers = self._headers(body is not None)
            async with self._session.request(
                method, self._url + path, json=body, params=query, headers=headers
            ) as answer:
                if answer.status == 404 and missing_is_none:
                    return None
                if answer.status >= 400:
                    text = (await answer.text())[:300]
                    raise (Changed if answer.status == 409 else ClusterFault)(
                        f"{method} {path}: {answer.status} {text}"
                    )
                return await answer.json(content_type=None)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise ClusterFault(f"{method} {path}: {error or type(error).__name__}") from None

    def _headers(self, patch: bool) -> dict[str, str]:
        """The token is read anew each time, since the kubelet replaces it before it runs out (an hour)."""
        headers = {"Content-Type": MERGE} if patch else {}
        token = self._account / "token"
        if token.exists():
            headers["Authorization"] = f"Bearer {token.read_text().strip()}"
        return headers


def _read_pod(item: dict[str, Any]) -> Pod:
    metadata, status = item["metadata"], item.get("status", {})
    conditions = status.get("conditions") or []
    return Pod(
        name=metadata["name"],
        uid=metadata["uid"],
        tier=metadata["labels"][TIER_LABEL],
        ip=status.get("podIP"),
        ready=any(c["type"] == "Ready" and c["status"] == "True" for c in conditions),
        created=metadata.get("creationTimestamp", ""),
        deletion_cost=(metadata.get("annotations") or {}).get(DELETION_COST),
    )


def _read_workload(item: dict[str, Any]) -> Workload:
    metadata, status = item["metadata"], item.get("status", {})
    replicas = item["spec"].get("replicas", 1)
    seen = status.get("observedGeneration", 0) >= metadata.get("generation", 0)
    return Workload(metadata["name"], replicas, seen and status.get("replicas", 0) == replicas)
