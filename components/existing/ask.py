"""Ask a cluster, read-only: every answer as the API server's own JSON, for `read.py` to understand.

Nodes must be answered; anything else that is refused or not served is noted and left out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kubernetes import config as kubernetes_config
from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException
from urllib3.exceptions import HTTPError
from urllib3.util.retry import Retry

from components.existing.answers import Answers
from components.existing.found import Right
from components.observability.operator_api import API_VERSION as OPERATOR_API
from components.serving.groups import API_VERSION

CALL_LIMIT_S = 20
PAGE = 500
_LISTS = {
    "nodes": "/api/v1/nodes",
    "pods": "/api/v1/pods",
    "daemon_sets": "/apis/apps/v1/daemonsets",
    "deployments": "/apis/apps/v1/deployments",
    "services": "/api/v1/services",
    "storage_classes": "/apis/storage.k8s.io/v1/storageclasses",
}
_QUERIES = {"pods": [("fieldSelector", "status.phase!=Succeeded,status.phase!=Failed")]}
_DRA_VERSIONS = ("v1", "v1beta2", "v1beta1")
_REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class CannotAsk(Exception):
    """The cluster does not answer, or refuses what nothing can be said without."""


@dataclass
class Asker:
    """One cluster, by a kubeconfig (None: the environment's, then the user's own) and a context."""

    kubeconfig: str | None
    context: str | None
    unknown: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        try:
            self._api: Any = kubernetes_config.new_client_from_config(self.kubeconfig, context=self.context)
        except (ConfigException, OSError) as error:
            raise CannotAsk(f"the kubeconfig can't be used: {error}") from None
        self._api.rest_client.pool_manager.connection_pool_kw["retries"] = Retry(0)

    def answers(self, namespace: str, rights: Sequence[Right], topology_keys: Sequence[str] = ()) -> Answers:
        """Everything, in some dozen calls and one for each right. Raises CannotAsk."""
        try:
            version, nodes = self._get("/version"), self._list(_LISTS["nodes"])
        except ApiException as error:
            raise CannotAsk(f"the cluster refused to say its version or nodes: {_reason(error)}") from None
        except (HTTPError, OSError) as error:
            raise CannotAsk(f"the cluster does not answer: {error}") from None
        lists = {name: self._try_list(name, path) for name, path in _LISTS.items() if name != "nodes"}
        claims = self._try_list("claims", f"/api/v1/namespaces/{namespace}/persistentvolumeclaims")
        dra_api, classes, slices = self._dra()
        return Answers(
            version, nodes, **lists, claims=claims, dra_api=dra_api, device_classes=classes, resource_slices=slices,
            leader_worker_sets=self._serves(f"/apis/{API_VERSION}"),
            operator_kinds=self._kinds(f"/apis/{OPERATOR_API}"),
            rights=tuple(self._review(right) for right in rights), unknown=tuple(self.unknown), namespace=namespace,
            topology_keys=tuple(topology_keys),
        )  # fmt: skip

    def _dra(self) -> tuple[str | None, list[Any], list[Any]]:
        """The newest version of resource.k8s.io that is served; older clusters have none, which is no fault."""
        for version in _DRA_VERSIONS:
            base = f"/apis/resource.k8s.io/{version}"
            try:
                return version, self._list(f"{base}/deviceclasses"), self._list(f"{base}/resourceslices")
            except ApiException as error:
                if error.status != 404:
                    self.unknown.append(f"resource.k8s.io: {_reason(error)}")
                    return version, [], []
            except (HTTPError, OSError) as error:
                self.unknown.append(f"resource.k8s.io: {error}")
                return None, [], []
        return None, [], []

    def _serves(self, path: str) -> bool | None:
        """Whether a group of the API is there, which every authenticated user may ask."""
        kinds = self._kinds(path)
        return None if kinds is None else bool(kinds)

    def _kinds(self, path: str) -> tuple[str, ...] | None:
        """The kinds of a group, as in a URL; none where the group is not served, None where that can't be asked."""
        try:
            found = self._get(path)
        except ApiException as error:
            if error.status == 404:
                return ()
            self.unknown.append(f"{path}: {_reason(error)}")
            return None
        except (HTTPError, OSError) as error:
            self.unknown.append(f"{path}: {error}")
            return None
        return tuple(kind["name"] for kind in found.get("resources") or [])

    def _try_list(self, name: str, path: str) -> list[Any] | None:
        try:
            return self._list(path, _QUERIES.get(name, []))
        except ApiException as error:
            self.unknown.append(f"{name}: {_reason(error)}")
        except (HTTPError, OSError) as error:
            self.unknown.append(f"{name}: {error}")
        return None

    def _list(self, path: str, query: Sequence[tuple[str, str]] = ()) -> list[Any]:
        """Page by page, so that a large cluster's answer stays small."""
        items: list[Any] = []
        more: list[tuple[str, str]] = []
        while True:
            page = self._get(path, [*query, ("limit", str(PAGE)), *more])
            items += page.get("items") or []
            after = page.get("metadata", {}).get("continue")
            if not after:
                return items
            more = [("continue", after)]

    def _get(self, path: str, query: Sequence[tuple[str, str]] = ()) -> Any:
        return self._api.call_api(
            path, "GET", query_params=list(query), auth_settings=["BearerToken"], response_type="object",
            header_params={"Accept": "application/json"}, _return_http_data_only=True, _request_timeout=CALL_LIMIT_S,
        )  # fmt: skip

    def _review(self, right: Right) -> Right:
        """SelfSubjectAccessReview, which every authenticated user may create."""
        resource, _, subresource = right.resource.partition("/")
        attributes = {"verb": right.verb, "group": right.group, "resource": resource, "subresource": subresource}
        if right.namespace:
            attributes["namespace"] = right.namespace
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": attributes}}  # fmt: skip
        try:
            answer = self._api.call_api(
                _REVIEW, "POST", body=body, auth_settings=["BearerToken"], response_type="object",
                header_params={"Accept": "application/json", "Content-Type": "application/json"},
                _return_http_data_only=True, _request_timeout=CALL_LIMIT_S,
            )  # fmt: skip
        except (ApiException, HTTPError, OSError):
            return right
        return Right(right.verb, right.resource, right.group, right.namespace, bool(answer["status"].get("allowed")))


def _reason(error: ApiException) -> str:
    try:
        return str(json.loads(error.body or "")["message"])
    except (ValueError, KeyError, TypeError):
        return f"{error.status} {error.reason}"
