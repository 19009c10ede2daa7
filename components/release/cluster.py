"""What the gate does to and asks of a cluster: scale, read pods and their words, keep records.

With `probe_job.py` the only module of `components/release` that talks to Kubernetes itself. Every
call has a limit; what fails raises ClusterFault with the object's name, so that a caller can report
it as "could not measure".
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kubernetes import client
from kubernetes import config as kubernetes_config
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from components.serving.groups import API_VERSION, KIND
from components.serving.labels import MANAGED_BY, RELEASE_LABEL, TIER_LABEL, workload_name

CALL_LIMIT_S = 20
GROUPS = dict(zip(("group", "version"), API_VERSION.split("/"), strict=True)) | {"plural": "leaderworkersets"}
FIELD_MANAGER = "splitserve-gate"
SHORTEST_GRACE_S = 1
"""With 0, Kubernetes forgets a pod whose containers may still run."""
LAST_WORDS_LINES = 60
WORDS_LINES = 20_000
"""An engine that has served for days has logged more than is worth reading."""
RESTARTS_ARE_FATAL = 2
"""A container that ended this often while starting will not start by waiting."""
HOPELESS_WAITING = {
    "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName",
    "CreateContainerConfigError", "CreateContainerError",
}  # fmt: skip
ERROR_LINE = re.compile(r"[Ee]rror\b ?[:,]")
"""`ValueError: …`, `error: …`, pydantic's `Value error, …`; a traceback's last line is one."""


class ClusterFault(Exception):
    """A call to the cluster failed or took too long; the message names the object."""


@dataclass(frozen=True)
class Access:
    """How to reach the cluster: a kubeconfig file and a context in it, and our namespace."""

    kubeconfig: str
    context: str | None
    namespace: str

    @staticmethod
    def of(inputs: dict[str, Any]) -> Access:
        """The access among a dynamic resource's inputs; the engine leaves out what is None."""
        return Access(inputs["kubeconfig"], inputs.get("context"), inputs["namespace"])


@dataclass(frozen=True)
class Pod:
    name: str
    tier: str
    ip: str | None
    ready: bool
    trouble: str | None
    """Why the pod will not get ready by waiting; None while it may."""
    state: str
    restarts: int = 0
    last_end: str | None = None
    """How its container ended last, if it ever did: "exit code 137 (OOMKilled)"."""
    uid: str = ""
    """Another pod of the same name has another."""
    ending: bool = False
    """Whether it is being deleted."""


class Cluster:
    """One namespace of one cluster."""

    def __init__(self, access: Access) -> None:
        self.namespace = access.namespace
        api = kubernetes_config.new_client_from_config(access.kubeconfig, context=access.context)
        # The generated client has no useful types.
        self.core: Any = client.CoreV1Api(api)
        self.apps: Any = client.AppsV1Api(api)
        self.batch: Any = client.BatchV1Api(api)
        self.custom: Any = client.CustomObjectsApi(api)

    def scale(self, release_id: str, replicas: dict[str, int], groups: Collection[str] = ()) -> None:
        """Set replica counts through the scale subresource; a missing tier is left out of account. `groups`
        are the tiers that are LeaderWorkerSets, where a replica is a whole group."""
        for tier, count in replicas.items():
            self._scale_one(workload_name(tier, release_id), count, tier in groups)

    def _scale_one(self, name: str, count: int, group: bool) -> None:
        body, more = {"spec": {"replicas": count}}, {"field_manager": FIELD_MANAGER, "_request_timeout": CALL_LIMIT_S}
        try:
            if group:
                self.custom.patch_namespaced_custom_object_scale(
                    **GROUPS, namespace=self.namespace, name=name, body=body, **more
                )
            else:
                self.apps.patch_namespaced_deployment_scale(name, self.namespace, body, **more)
        except ApiException as error:
            if error.status != 404:
                raise ClusterFault(f"{KIND if group else 'Deployment'} {name}: {error.reason}") from None
        except HTTPError as error:
            raise ClusterFault(f"{KIND if group else 'Deployment'} {name}: {error}") from None

    def sizes(self, release_id: str) -> dict[str, int]:
        """The replicas that each of the release's workloads is set to, by tier."""
        selector = f"{RELEASE_LABEL}={release_id}"
        found = call(f"Deployments of release {release_id}", lambda: self.apps.list_namespaced_deployment(
            self.namespace, label_selector=selector, _request_timeout=CALL_LIMIT_S))  # fmt: skip
        return {d.metadata.labels[TIER_LABEL]: d.spec.replicas for d in found.items} | self._group_sizes(selector)

    def _group_sizes(self, selector: str) -> dict[str, int]:
        """Nothing where the cluster has no such kind, or the user may not see it: then he made none either."""
        try:
            found = self.custom.list_namespaced_custom_object(
                **GROUPS, namespace=self.namespace, label_selector=selector, _request_timeout=CALL_LIMIT_S
            )
        except ApiException as error:
            if error.status in (403, 404):
                return {}
            raise ClusterFault(f"{KIND}s ({selector}): {_reason(error)}") from None
        except HTTPError as error:
            raise ClusterFault(f"{KIND}s ({selector}): the API server does not answer: {error}") from None
        return {item["metadata"]["labels"][TIER_LABEL]: item["spec"].get("replicas", 1) for item in found["items"]}

    def pods(self, release_id: str, *, ending: bool = False) -> list[Pod]:
        """The release's pods; with `ending` also those that are being deleted."""
        return self.select(f"{RELEASE_LABEL}={release_id},{TIER_LABEL}", ending=ending)

    def select(self, selector: str, *, ending: bool = False) -> list[Pod]:
        """The pods that carry some labels; with `ending` also those that are being deleted."""
        return [_read_pod(p) for p in self._listed(selector) if ending or p.metadata.deletion_timestamp is None]

    def _listed(self, selector: str) -> list[Any]:
        found = call(f"pods ({selector})", lambda: self.core.list_namespaced_pod(
            self.namespace, label_selector=selector, _request_timeout=CALL_LIMIT_S))  # fmt: skip
        return found.items

    def end_at_once(self, release_id: str) -> None:
        """Cut short what the release's ending pods have left of their grace. One that may not be deleted, or is
        gone by now, ends in its own time."""
        for pod in (p.metadata for p in self._listed(f"{RELEASE_LABEL}={release_id},{TIER_LABEL}")):
            if pod.deletion_timestamp and (pod.deletion_grace_period_seconds or 0) > SHORTEST_GRACE_S:
                with suppress(ApiException, HTTPError):
                    self.core.delete_namespaced_pod(
                        pod.name, self.namespace, grace_period_seconds=SHORTEST_GRACE_S, _request_timeout=CALL_LIMIT_S
                    )

    def pod(self, name: str) -> Pod | None:
        """One pod, also while it is being deleted; None where there is none. Needs the right to list alone."""
        found = call(f"pod {name}", lambda: self.core.list_namespaced_pod(
            self.namespace, field_selector=f"metadata.name={name}", _request_timeout=CALL_LIMIT_S))  # fmt: skip
        return next(map(_read_pod, found.items), None)

    def log(self, pod: str) -> str:
        return call(f"log of pod {pod}", lambda: self.core.read_namespaced_pod_log(
            pod, self.namespace, _request_timeout=CALL_LIMIT_S))  # fmt: skip

    def words(self, pod: str) -> str:
        """The ends of the logs of the pod's previous run, if any, and of this one; what can't be read is left out."""
        return "\n".join(self._runs(pod, WORDS_LINES))

    def last_words(self, pod: str) -> str:
        """What the pod's log says of its end, of its previous run first."""
        return next((line for text in self._runs(pod, LAST_WORDS_LINES) if (line := telling_line(text))), "")

    def _runs(self, pod: str, lines: int) -> Iterator[str]:
        """The ends of the logs of the previous run and of this one, as far as they can be read."""
        for previous in (True, False):
            try:
                yield self.core.read_namespaced_pod_log(
                    pod, self.namespace, previous=previous, tail_lines=lines, _request_timeout=CALL_LIMIT_S
                )
            except (ApiException, HTTPError):
                continue

    def last_warning(self, pod: str) -> str:
        """The newest warning event about the pod: a volume that can't be mounted, a full node."""
        try:
            found = self.core.list_namespaced_event(
                self.namespace,
                field_selector=f"involvedObject.name={pod},type=Warning",
                _request_timeout=CALL_LIMIT_S,
            )
        except (ApiException, HTTPError):
            return ""
        newest = max(found.items, key=lambda event: str(event.last_timestamp or event.event_time), default=None)
        return f"{newest.reason}: {newest.message}"[:300] if newest else ""

    def pod_page(self, pod: str, port: int, path: str) -> str:
        """A page that the pod serves, fetched through the API server."""
        return call(
            f"pod {pod}",
            lambda: self.core.connect_get_namespaced_pod_proxy_with_path(
                f"{pod}:{port}", self.namespace, path, _request_timeout=CALL_LIMIT_S
            ),
        )

    def record(self, name: str, content: dict[str, Any]) -> None:
        """Keep a JSON document in a ConfigMap of ours."""
        labels = {**MANAGED_BY, "app.kubernetes.io/component": "record"}
        body = {"metadata": {"name": name, "labels": labels}, "data": {"record.json": json.dumps(content)}}
        try:
            self.core.create_namespaced_config_map(self.namespace, body, _request_timeout=CALL_LIMIT_S)
        except ApiException as error:
            if error.status != 409:
                raise ClusterFault(f"ConfigMap {name}: {error.reason}") from None
            call(f"ConfigMap {name}", lambda: self.core.replace_namespaced_config_map(
                name, self.namespace, body, _request_timeout=CALL_LIMIT_S))  # fmt: skip

    def read_record(self, name: str) -> dict[str, Any] | None:
        """A document that `record` kept, or None."""
        try:
            found = self.core.read_namespaced_config_map(name, self.namespace, _request_timeout=CALL_LIMIT_S)
        except ApiException as error:
            if error.status == 404:
                return None
            raise ClusterFault(f"ConfigMap {name}: {error.reason}") from None
        return json.loads(found.data["record.json"])

    def remove_record(self, name: str) -> None:
        """Remove a document; it may be gone already."""
        try:
            self.core.delete_namespaced_config_map(name, self.namespace, _request_timeout=CALL_LIMIT_S)
        except ApiException as error:
            if error.status != 404:
                raise ClusterFault(f"ConfigMap {name}: {_reason(error)}") from None


def telling_line(log: str) -> str:
    """The last line of a log that states an error, else its last line; at most 300 characters."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if ERROR_LINE.search(line) and "WARNING" not in line]
    return (errors or lines or [""])[-1][-300:]


def record_name(release_id: str) -> str:
    """The ConfigMap that keeps a release's verdict and evidence."""
    return f"release-{release_id}"


def describe(pods: Iterable[Pod]) -> str:
    return "; ".join(f"{pod.name}: {pod.state}" for pod in pods)


def call(what: str, ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except ApiException as error:
        raise ClusterFault(f"{what}: {_reason(error)}") from None
    except HTTPError as error:
        raise ClusterFault(f"{what}: the API server does not answer: {error}") from None


def _reason(error: ApiException) -> str:
    try:
        return str(json.loads(error.body or "")["message"])
    except (ValueError, KeyError, TypeError):
        return f"{error.status} {error.reason}"


def _read_pod(pod: Any) -> Pod:
    conditions = {c.type: c for c in pod.status.conditions or []}
    statuses = pod.status.container_statuses or []
    trouble = next((t for t in map(_container_trouble, statuses) if t), None)
    scheduled = conditions.get("PodScheduled")
    if scheduled is not None and scheduled.status == "False":
        state = f"not scheduled: {scheduled.message}"
    else:
        state = trouble or next((s for s in map(_container_state, statuses) if s), pod.status.phase)
    ready = conditions.get("Ready")
    return Pod(
        name=pod.metadata.name,
        tier=(pod.metadata.labels or {}).get(TIER_LABEL, ""),
        ip=pod.status.pod_ip,
        ready=ready is not None and ready.status == "True",
        trouble=trouble,
        state=state,
        restarts=sum(status.restart_count for status in statuses),
        last_end=next((end for end in map(_last_end, statuses) if end), None),
        uid=pod.metadata.uid or "",
        ending=pod.metadata.deletion_timestamp is not None,
    )


def _container_trouble(status: Any) -> str | None:
    waiting = status.state.waiting
    if waiting and waiting.reason in HOPELESS_WAITING:
        return f"{waiting.reason}: {waiting.message or ''}".strip()
    end = _last_end(status)
    if status.restart_count >= RESTARTS_ARE_FATAL and end and not status.ready:
        return f"its container ended {status.restart_count} times, last with {end}"
    return None


def _last_end(status: Any) -> str | None:
    ended = status.state.terminated or status.last_state.terminated
    return f"exit code {ended.exit_code} ({ended.reason})" if ended else None


def _container_state(status: Any) -> str | None:
    if status.state.waiting:
        return status.state.waiting.reason
    if status.state.running and not status.ready:
        return "running, not ready"
    return None
