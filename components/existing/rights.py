"""What the deploying user needs to be allowed: docs/reference/rights.md is made from it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from components.existing.found import Right
from components.nodes.leader_worker_set_crd import GROUP as LWS_GROUP
from components.nodes.names import LWS_NAMESPACE, NAMESPACE, Plugin
from components.observability.operator_api import GROUP as OPERATOR_GROUP
from components.observability.operator_api import PLURALS as OPERATOR_KINDS

_CHANGE = ("create", "get", "list", "patch", "delete")
_RBAC = "rbac.authorization.k8s.io"
_IN_NAMESPACE: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("apps", "deployments", _CHANGE),
    ("apps", "deployments/scale", ("get", "patch")),
    ("apps", "daemonsets", _CHANGE),
    ("", "services", _CHANGE),
    ("", "serviceaccounts", _CHANGE),
    ("", "configmaps", (*_CHANGE, "update", "deletecollection")),
    (_RBAC, "roles", _CHANGE),
    (_RBAC, "rolebindings", _CHANGE),
    ("networking.k8s.io", "networkpolicies", _CHANGE),
    ("batch", "jobs", (*_CHANGE, "deletecollection")),
    # `watch` and `patch`: nobody may give the routers' or the autoscaler's Role a right that he has not himself.
    # `delete`: the pods of a release that is taken back had no traffic, and need no time to drain.
    ("", "pods", ("get", "list", "watch", "patch", "delete")),
    ("", "events", ("get", "list")),
    ("", "pods/log", ("get",)),
    ("", "pods/proxy", ("get",)),
)
_READ_OF_CLUSTER: tuple[tuple[str, str], ...] = (
    ("", "nodes"), ("", "pods"), ("apps", "daemonsets"), ("apps", "deployments"), ("", "services"),
    ("", "persistentvolumeclaims"), ("storage.k8s.io", "storageclasses"), ("resource.k8s.io", "deviceclasses"),
    ("resource.k8s.io", "resourceslices"),
)  # fmt: skip
PAGE = """# Rights that the deploying user needs

Made by `python -m components.existing.rights` from what the stack does, and proved by a test that deploys with
nothing else. As rules of a ClusterRole; those of the namespace may be a Role, once the namespace is there.

## In the stack's namespace

```yaml
{namespaced}```

The namespace itself, which the stack makes and removes:

```yaml
{namespace}```

## To see what the cluster has

On a cluster of yours (`kind: existing`) the stack looks first at nodes and what runs on them. Without these
rights it says so in a warning and checks nothing of it; where it would install node plugins, it stops.

```yaml
{read}```

## To install node plugins

Only where some are missing; `nodeSoftware` and `layers: serving` leave them to somebody else.

```yaml
{plugins}```

## For observability

In the stack's namespace, each kind where the stack file's `observability` asks for it:

```yaml
{observability}```

## For engines over several nodes

In the stack's namespace:

```yaml
{groups}```

To install their controller, where the cluster has none and `nodeSoftware.leaderWorkerSets` leaves it to the stack.
Nobody may give the controller a right that he has not himself: its own (`components/nodes/leader_worker_set.py`,
`cluster_rules`) come on top, or `escalate` and `bind` on roles.

```yaml
{controller}```
"""


def serving_rights(namespace: str, *, rdma: bool = True) -> list[Right]:
    """For the stack itself; without RDMA it has no DaemonSet of its own."""
    needed = [entry for entry in _IN_NAMESPACE if rdma or entry[1] != "daemonsets"]
    rights = [Right(verb, resource, group, namespace) for group, resource, verbs in needed for verb in verbs]
    # Pulumi's provider watches a namespace until it is gone; without the right it waits in vain for ten minutes.
    return rights + [Right(verb, "namespaces") for verb in (*_CHANGE, "watch")]


def group_rights(namespace: str) -> list[Right]:
    """Beside `serving_rights`, for engines over several nodes."""
    kinds = (("leaderworkersets", _CHANGE), ("leaderworkersets/scale", ("get", "patch")))
    return [Right(verb, kind, LWS_GROUP, namespace) for kind, verbs in kinds for verb in verbs]


def observability_rights(namespace: str, kinds: Iterable[str], *, idle_probe: bool) -> list[Right]:
    """Beside `serving_rights`: for the Prometheus operator's `kinds` that are asked for, and for the idle probe."""
    asked = [(OPERATOR_GROUP, kind) for kind in kinds] + ([("batch", "cronjobs")] if idle_probe else [])
    return [Right(verb, kind, group, namespace) for group, kind in asked for verb in _CHANGE]


def group_controller_rights() -> list[Right]:
    """For installing the controller of such engines. Nobody may give it a right that he has not himself: those of
    `cluster_rules` in components/nodes/leader_worker_set.py come on top, or `escalate` and `bind` on roles."""
    admission = "admissionregistration.k8s.io"
    everywhere = [("apiextensions.k8s.io", "customresourcedefinitions"), (admission, "mutatingwebhookconfigurations"),
                  (admission, "validatingwebhookconfigurations"), (_RBAC, "clusterroles"), (_RBAC, "clusterrolebindings"),
                  ("", "namespaces")]  # fmt: skip
    own = [("apps", "deployments"), ("", "services"), ("", "serviceaccounts"), ("", "secrets"), (_RBAC, "roles"),
           (_RBAC, "rolebindings")]  # fmt: skip
    return [
        *(Right(verb, kind, group) for group, kind in everywhere for verb in _CHANGE),
        *(Right(verb, kind, group, LWS_NAMESPACE) for group, kind in own for verb in _CHANGE),
    ]


def reading_rights() -> list[Right]:
    """For the look at a cluster before anything is declared."""
    return [Right("list", resource, group) for group, resource in _READ_OF_CLUSTER]


def plugin_rights(plugins: frozenset[Plugin]) -> list[Right]:
    """For installing node plugins."""
    if not plugins:
        return []
    rights = [Right(verb, "daemonsets", "apps", NAMESPACE) for verb in _CHANGE]
    if "rdma-shared" in plugins:
        rights += [Right(verb, "configmaps", "", NAMESPACE) for verb in _CHANGE]
    if any(plugin.endswith("-dra") for plugin in plugins):
        rights += [Right(verb, "serviceaccounts", "", NAMESPACE) for verb in _CHANGE]
        cluster = [(_RBAC, "clusterroles"), (_RBAC, "clusterrolebindings"), ("resource.k8s.io", "deviceclasses"),
                   ("resource.k8s.io", "resourceclaimtemplates")]  # fmt: skip
        rights += [Right(verb, resource, group) for group, resource in cluster for verb in _CHANGE]
    return rights


def rules(rights: Iterable[Right]) -> list[dict[str, Any]]:
    """Rules of a Role: one for each set of verbs in a group."""
    verbs: dict[tuple[str, str], list[str]] = {}
    for right in rights:
        verbs.setdefault((right.group, right.resource), []).append(right.verb)
    grouped: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (group, resource), allowed in verbs.items():
        grouped.setdefault((group, tuple(dict.fromkeys(allowed))), []).append(resource)
    return [
        {"apiGroups": [group], "resources": resources, "verbs": list(allowed)}
        for (group, allowed), resources in grouped.items()
    ]


def page(plugins: frozenset[Plugin]) -> str:
    """docs/reference/rights.md; `plugins` are all that there are."""
    namespaced = [right for right in serving_rights("n") if right.namespace]
    namespace = [right for right in serving_rights("n") if not right.namespace]
    parts = {
        "namespaced": namespaced,
        "namespace": namespace,
        "read": reading_rights(),
        "plugins": plugin_rights(plugins),
        "observability": observability_rights("n", OPERATOR_KINDS, idle_probe=True),
        "groups": group_rights("n"),
        "controller": group_controller_rights(),
    }
    return PAGE.format(**{name: _written(rights) for name, rights in parts.items()})


def _written(rights: Iterable[Right]) -> str:
    lines = []
    for rule in rules(rights):
        lines += [f"- apiGroups: [{rule['apiGroups'][0] or chr(34) * 2}]", f"  resources: [{', '.join(rule['resources'])}]",
                  f"  verbs: [{', '.join(rule['verbs'])}]"]  # fmt: skip
    return "".join(f"{line}\n" for line in lines)


if __name__ == "__main__":
    from components.nodes.names import PLUGINS

    print(page(frozenset(PLUGINS)), end="")
