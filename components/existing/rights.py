"""What the deploying user needs to be allowed, as docs/reference/rights.md lists it. Pure."""

from __future__ import annotations

from components.existing.found import Right
from components.nodes.names import NAMESPACE, Plugin

_CHANGE = ("create", "get", "list", "patch", "delete")
_READ = ("get", "list")
_RBAC = "rbac.authorization.k8s.io"


def serving_rights(namespace: str) -> list[Right]:
    """For the stack itself."""
    made = [("apps", "deployments"), ("", "services"), ("", "serviceaccounts"), (_RBAC, "roles"),
            (_RBAC, "rolebindings"), ("", "configmaps"), ("batch", "jobs")]  # fmt: skip
    rights = [Right(verb, resource, group, namespace) for group, resource in made for verb in _CHANGE]
    rights += [Right(verb, "deployments/scale", "apps", namespace) for verb in ("get", "patch")]
    rights.append(Right("deletecollection", "jobs", "batch", namespace))
    rights += [Right(verb, resource, "", namespace) for resource in ("pods", "events") for verb in _READ]
    rights += [Right("get", resource, "", namespace) for resource in ("pods/log", "pods/proxy")]
    return rights + [Right(verb, "namespaces") for verb in ("create", "get")]


def plugin_rights(plugins: frozenset[Plugin]) -> list[Right]:
    """For installing node plugins."""
    if not plugins:
        return []
    rights = [Right(verb, "daemonsets", "apps", NAMESPACE) for verb in _CHANGE]
    if "rdma-shared" in plugins:
        rights += [Right(verb, "configmaps", "", NAMESPACE) for verb in _CHANGE]
    if any(plugin.endswith("-dra") for plugin in plugins):
        rights += [Right(verb, "serviceaccounts", "", NAMESPACE) for verb in _CHANGE]
        cluster = [(_RBAC, "clusterroles"), (_RBAC, "clusterrolebindings"), ("resource.k8s.io", "deviceclasses")]
        rights += [Right(verb, resource, group) for group, resource in cluster for verb in _CHANGE]
    return rights
