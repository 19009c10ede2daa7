"""A node on paper: pods that are bound to it are said to run, and a probe's to have ended with evidence."""

from __future__ import annotations

import json
import ssl
import threading
from contextlib import suppress
from dataclasses import asdict, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from components.release.probe_job import EVIDENCE_MARK, PROBED_LABEL
from tests.unit.test_verdict import GOOD

NAME = "paper"
POLL_S = 0.3
NOWHERE = "127.0.0.1"
"""The API server refuses at once to fetch a page from there; of another address it would wait for one."""


class PaperNode:
    """`transfer_ms` is what its pods' transfers take from now on; `probed` the releases that were measured."""

    def __init__(self, api: Any, pki: Path) -> None:
        # The generated client has no useful types.
        self._core: Any = client.CoreV1Api(api)
        self._pki = pki
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._kubelet = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.transfer_ms = 20.0
        self.bytes_per_token = 0
        self.probed: list[str] = []

    def __enter__(self) -> PaperNode:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._pki / "kubelet.crt", self._pki / "kubelet.key")
        self._kubelet.socket = context.wrap_socket(self._kubelet.socket, server_side=True)
        threading.Thread(target=self._kubelet.serve_forever, daemon=True).start()
        self._register()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._kubelet.shutdown()

    def _register(self) -> None:
        self._core.create_node({"metadata": {"name": NAME}})
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self._kubelet.server_port}},
            "conditions": [{"type": "Ready", "status": "True"}],
            "allocatable": {"cpu": "64", "memory": "256Gi"},
        }
        self._core.patch_node_status(NAME, {"status": status})

    def _run(self) -> None:
        while not self._stop.wait(POLL_S):
            for pod in self._core.list_pod_for_all_namespaces().items:
                # Whoever made it may have deleted it meanwhile.
                with suppress(ApiException):
                    self._carry_on(pod)

    def _carry_on(self, pod: Any) -> None:
        name, namespace = pod.metadata.name, pod.metadata.namespace
        if pod.metadata.deletion_timestamp:
            self._core.delete_namespaced_pod(name, namespace, grace_period_seconds=0)
        elif not pod.spec.node_name:
            binding = {"metadata": {"name": name}, "target": {"apiVersion": "v1", "kind": "Node", "name": NAME}}
            self._core.create_namespaced_pod_binding(name, namespace, binding, _preload_content=False)
        elif pod.status.phase == "Pending":
            self._core.patch_namespaced_pod_status(name, namespace, {"status": self._status(pod)})

    def _status(self, pod: Any) -> dict[str, Any]:
        probe = PROBED_LABEL in (pod.metadata.labels or {})
        ended = {"terminated": {"exitCode": 0, "reason": "Completed"}}
        running = {"running": {"startedAt": pod.metadata.creation_timestamp.isoformat()}}
        containers = [
            {"name": container.name, "image": container.image, "imageID": "", "restartCount": 0, "ready": not probe,
             "state": ended if probe else running} for container in pod.spec.containers
        ]  # fmt: skip
        return {
            "phase": "Succeeded" if probe else "Running",
            "podIP": NOWHERE,
            "podIPs": [{"ip": NOWHERE}],
            "conditions": [{"type": "Ready", "status": "False" if probe else "True"}],
            "containerStatuses": containers,
        }

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        node = self

        class Kubelet(BaseHTTPRequestHandler):
            """`/containerLogs/NAMESPACE/POD/CONTAINER` alone."""

            def do_GET(self) -> None:
                _, _, namespace, pod, *_ = self.path.partition("?")[0].split("/")
                body = node.log(namespace, pod).encode()
                self.send_response(200)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Not on the test's output."""

        return Kubelet

    def log(self, namespace: str, name: str) -> str:
        """A probe's evidence, by its own plan; of other pods nothing."""
        pod = self._core.read_namespaced_pod(name, namespace)
        release = (pod.metadata.labels or {}).get(PROBED_LABEL)
        if release is None:
            return ""
        files = self._core.read_namespaced_config_map(
            pod.metadata.labels["batch.kubernetes.io/job-name"], namespace
        ).data
        self.probed.append(release)
        return f"{EVIDENCE_MARK}{json.dumps(self._evidence(json.loads(files['plan.json'])))}\n"

    def _evidence(self, plan: dict[str, Any]) -> dict[str, Any]:
        tokens = plan["prompt_tokens"]
        sample = replace(
            GOOD, tokens=tokens, ms=self.transfer_ms, bytes=tokens * self.bytes_per_token, external_tokens=tokens,
            prefill_tokens=tokens, decode_tokens=tokens,
        )  # fmt: skip
        samples = [asdict(sample)] * plan["samples"]
        pairs = [
            {"prefill": prefill["name"], "decode": decode["name"], "fresh": samples, "aged": samples, "error": None}
            for prefill, decode in plan["pairs"]
        ]
        return {"pairs": pairs, "router": {"tokens": tokens, "external_tokens": tokens, "error": None}}
