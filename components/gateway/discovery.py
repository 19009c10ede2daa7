"""Which pods there are, from the Kubernetes API: a list, then a watch from where the list ended.

Source: kubernetes.io/docs/reference/using-api/api-concepts, "Efficient detection of changes". Rights: get,
list and watch of pods in the namespace.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import ssl
from pathlib import Path
from typing import Any

import aiohttp

from .json_text import NotJson, read_json
from .pods import Pods
from .settings import Settings

RELEASE_LABEL = "splitserve.dev/release"
TIER_LABEL = "splitserve.dev/tier"
WATCH_S = 290
"""A watch ends by itself before proxies cut it; the next goes on from the last version seen."""
BACK_OFF_S = (0.5, 15.0)
log = logging.getLogger("gateway")


class Gone(Exception):
    """410: the version is too old to watch from. List again."""


class Discovery:
    """Keeps `pods` as the cluster has them. The last known pods stay while the API can't be asked."""

    def __init__(self, settings: Settings, pods: Pods) -> None:
        self._settings = settings
        self._pods = pods
        self._found: dict[str, tuple[str, str]] = {}  # uid -> (tier, URL), only of pods that may serve
        self.listed = asyncio.Event()

    async def run(self) -> None:
        """For ever. A failure waits, doubling, with jitter so that replicas don't ask in step."""
        wait_s = BACK_OFF_S[0]
        async with self._session() as session:
            while True:
                try:
                    version = await self._list(session)
                    wait_s = BACK_OFF_S[0]
                    while True:
                        version = await self._watch(session, version)
                except Gone:
                    continue
                except (aiohttp.ClientError, TimeoutError, OSError, NotJson, KeyError) as fault:
                    log.warning("pods can't be watched: %s; again in %.1f s", fault or type(fault).__name__, wait_s)
                    await asyncio.sleep(wait_s * random.uniform(0.5, 1.0))
                    wait_s = min(2 * wait_s, BACK_OFF_S[1])

    def _session(self) -> aiohttp.ClientSession:
        authority = Path(self._settings.service_account, "ca.crt")
        trust: Any = ssl.create_default_context(cafile=str(authority)) if authority.exists() else True
        limits = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=WATCH_S + 30)
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=trust), timeout=limits, trust_env=False, read_bufsize=2**20
        )

    def _ask(self, session: aiohttp.ClientSession, **query: str) -> Any:
        """The token is read each time: the kubelet renews it, and an old one ends being accepted."""
        token = Path(self._settings.service_account, "token")
        headers = {"Authorization": f"Bearer {token.read_text().strip()}"} if token.exists() else {}
        selector = f"{RELEASE_LABEL}={self._settings.release}"
        url = f"{self._settings.kubernetes_url or in_cluster()}/api/v1/namespaces/{self._settings.namespace}/pods"
        return session.get(url, params={"labelSelector": selector, **query}, headers=headers)

    async def _list(self, session: aiohttp.ClientSession) -> str:
        async with self._ask(session) as response:
            response.raise_for_status()
            answer = read_json(await response.read())
        self._found = {}
        for pod in answer["items"]:
            self._note(pod)
        self._hand_over()
        self.listed.set()
        return answer["metadata"]["resourceVersion"]

    async def _watch(self, session: aiohttp.ClientSession, version: str) -> str:
        """Follow until the server ends the watch. Returns the version to go on from. Raises: Gone."""
        asked = {
            "watch": "1",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_S),
        }
        async with self._ask(session, **asked) as response:
            if response.status == 410:
                raise Gone
            response.raise_for_status()
            rest = b""
            async for piece in response.content.iter_any():
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    version = self._event(read_json(line), version)
        return version

    def _event(self, event: dict[str, Any], version: str) -> str:
        pod = event["object"]
        if event["type"] == "ERROR":
            if pod.get("code") == 410:
                raise Gone
            raise aiohttp.ClientPayloadError(str(pod.get("message", "the watch failed")))
        if event["type"] == "DELETED":
            self._found.pop(pod["metadata"]["uid"], None)
        elif event["type"] != "BOOKMARK":
            self._note(pod)
        if event["type"] != "BOOKMARK":
            self._hand_over()
        return pod["metadata"].get("resourceVersion", version)

    def _note(self, pod: dict[str, Any]) -> None:
        """Keep a pod that is ready and not on its way out; drop it otherwise."""
        meta, status = pod["metadata"], pod.get("status", {})
        tier = meta.get("labels", {}).get(TIER_LABEL)
        ready = any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions", []))
        address = status.get("podIP")
        if tier in self._settings.tiers and ready and address and not meta.get("deletionTimestamp"):
            port = self._settings.render_port if tier == "render" else self._settings.engine_port
            host = f"[{address}]" if ":" in address else address
            self._found[meta["uid"]] = (tier, f"http://{host}:{port}")
        else:
            self._found.pop(meta["uid"], None)

    def _hand_over(self) -> None:
        for tier in self._settings.tiers:
            self._pods.put(tier, {uid: url for uid, (of, url) in self._found.items() if of == tier})


def in_cluster() -> str:
    """The API server by address, as the kubelet tells each container: one thing less that needs DNS."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        return "https://kubernetes.default.svc"
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
