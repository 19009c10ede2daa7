"""What the idle probe asks of the Kubernetes API: the live release, its pods, its gate's record. Nothing is changed.

Standard library alone, by the pod's own service account. Rights: get the one Service, get ConfigMaps, list pods.
"""

from __future__ import annotations

import json
import os
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.serving.labels import NO_RELEASE, RELEASE_LABEL, TIER_LABEL

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
CALL_LIMIT_S = 20


class CannotTell(Exception):
    """Nothing was measured; the message says what stood in the way."""


@dataclass(frozen=True)
class Pod:
    """A ready pod of the live release."""

    name: str
    tier: str
    ip: str


class Cluster:
    """One namespace, over HTTPS in a pod or over whatever `url` says."""

    def __init__(self, url: str, namespace: str, account: Path = ACCOUNT) -> None:
        self._url, self._namespace, self._account = url.rstrip("/"), namespace, account

    @staticmethod
    def of_pod(namespace: str) -> Cluster:
        """By the variables that the kubelet sets in every container."""
        host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
        return Cluster(f"https://{f'[{host}]' if ':' in host else host}:{port}", namespace)

    def live_release(self, service: str) -> str:
        """The release that the front door sends its traffic to. Raises CannotTell where there is none."""
        found = self._get(f"services/{service}")
        release = ((found.get("spec") or {}).get("selector") or {}).get(RELEASE_LABEL)
        if release in (None, "", NO_RELEASE):
            raise CannotTell(f"Service {service} selects no release: none is live")
        return release

    def pods(self, release: str) -> list[Pod]:
        """The release's ready pods, without those that end."""
        found = self._get("pods", {"labelSelector": f"{RELEASE_LABEL}={release},{TIER_LABEL}"}).get("items") or []
        return [Pod(item["metadata"]["name"], item["metadata"]["labels"][TIER_LABEL], item["status"]["podIP"])
                for item in found if _ready(item)]  # fmt: skip

    def record(self, release: str) -> dict[str, Any]:
        """What the gate kept of the release: {release, gate, …} (components/release/gate.py)."""
        return json.loads(self._get(f"configmaps/release-{release}")["data"]["record.json"])

    def _get(self, path: str, query: Mapping[str, str] | None = None) -> dict[str, Any]:
        where = f"/api/v1/namespaces/{self._namespace}/{path}"
        url = self._url + where + (f"?{urllib.parse.urlencode(query)}" if query else "")
        try:
            request = urllib.request.Request(url, headers=self._headers())
            with urllib.request.urlopen(request, timeout=CALL_LIMIT_S, context=self._tls()) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise CannotTell(f"GET {where}: {error.code} {error.reason}") from None
        except (OSError, ValueError) as error:
            raise CannotTell(f"GET {where}: {error}") from None

    def _headers(self) -> dict[str, str]:
        token = self._account / "token"
        return {"Authorization": f"Bearer {token.read_text().strip()}"} if token.exists() else {}

    def _tls(self) -> ssl.SSLContext | None:
        """The API server's certificate is signed by the cluster itself."""
        if not self._url.startswith("https"):
            return None
        return ssl.create_default_context(cafile=str(self._account / "ca.crt"))


def _ready(item: Mapping[str, Any]) -> bool:
    status = item.get("status") or {}
    conditions = status.get("conditions") or []
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    return ready and bool(status.get("podIP")) and not item["metadata"].get("deletionTimestamp")
