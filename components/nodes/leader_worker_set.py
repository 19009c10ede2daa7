"""The controller of LeaderWorkerSets: engines over several nodes are made of them. After lws 0.7.0 `config/`.

Names are upstream's: the controller looks its webhooks, Secret and Service up by them (`pkg/cert/cert.go`,
`api/config/v1alpha1/defaults.go`), and others tell by them that it is there. It makes its own certificates.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from components.nodes import images
from components.nodes.leader_worker_set_crd import GROUP, NAME, render_crd
from components.nodes.names import LWS_NAMESPACE as NAMESPACE
from components.nodes.names import PART_OF, PART_OF_VALUE
from components.serving.labels import MANAGED_BY, OWNER_LABEL

CONTROLLER = "lws-controller-manager"
SERVICE = "lws-webhook-service"
SECRET = "lws-webhook-server-cert"
CERTIFICATES = "/tmp/k8s-webhook-server/serving-certs"
WEBHOOK_PORT, HEALTH_PORT = 9443, 8081
USER = 65532
"""Upstream's image is distroless/static:nonroot (its Dockerfile)."""
START_LIMIT = "10m"
"""The kubelet shows a Secret's new content to a pod that is running after up to a minute."""
_RBAC = "rbac.authorization.k8s.io"
_SELECTOR = {"control-plane": "controller-manager", "app.kubernetes.io/name": "lws"}
_LOOK = ["get", "list", "watch"]
_CHANGE = [*_LOOK, "create", "delete", "patch", "update"]


@dataclass(frozen=True)
class LeaderWorkerSetArgs:
    """`image` in place of upstream's, where nodes can't pull that."""

    owner: str
    image: str = images.LEADER_WORKER_SET.reference
    cpu: str = "100m"
    memory: str = "256Mi"
    pod_labels: dict[str, str] = field(default_factory=lambda: dict(_SELECTOR))


def cluster_rules() -> list[dict[str, Any]]:
    """lws 0.7.0 `config/rbac/role.yaml`."""
    return [
        _rule("", ["events"], ["create", "patch", "update", *_LOOK]),
        _rule("", ["nodes"], [*_LOOK, "patch", "update"]),
        _rule("", ["pods", "services"], _CHANGE),
        _rule("", ["pods/finalizers"], ["update"]),
        _rule("", ["secrets"], [*_LOOK, "update"]),
        _rule("admissionregistration.k8s.io", ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
              [*_LOOK, "update"]),
        _rule("apps", ["controllerrevisions", "statefulsets"], _CHANGE),
        _rule("apps", ["controllerrevisions/finalizers", "statefulsets/finalizers"], ["update"]),
        _rule("apps", ["controllerrevisions/status", "statefulsets/status"], ["get", "patch", "update"]),
        _rule(GROUP, ["leaderworkersets"], _CHANGE),
        _rule(GROUP, ["leaderworkersets/finalizers"], ["update"]),
        _rule(GROUP, ["leaderworkersets/status"], ["get", "patch", "update"]),
    ]  # fmt: skip


def election_rules() -> list[dict[str, Any]]:
    """lws 0.7.0 `config/rbac/leader_election_role.yaml`, without the ConfigMaps of older client libraries."""
    return [_rule("coordination.k8s.io", ["leases"], _CHANGE), _rule("", ["events"], ["create", "patch"])]


def _rule(group: str, resources: list[str], verbs: list[str]) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


def webhooks(kind: str) -> list[dict[str, Any]]:
    """`mutate` or `validate`: lws 0.7.0 `config/webhook/`. Pods that belong to no set never pass through them."""
    update = [] if kind == "mutate" else ["UPDATE"]
    letter = kind[0]
    return [
        _webhook(f"{letter}leaderworkerset.kb.io", f"/{kind}-leaderworkerset-x-k8s-io-v1-leaderworkerset", GROUP,
                 "leaderworkersets", ["CREATE", "UPDATE"]),
        _webhook(f"{letter}pod.kb.io", f"/{kind}--v1-pod", "", "pods", ["CREATE", *update]) | {
            "objectSelector": {
                "matchExpressions": [{"key": "leaderworkerset.sigs.k8s.io/name", "operator": "Exists"}]}},
    ]  # fmt: skip


def _webhook(name: str, path: str, group: str, resource: str, operations: list[str]) -> dict[str, Any]:
    return {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {"name": SERVICE, "namespace": NAMESPACE, "path": path}},
        "failurePolicy": "Fail",
        "rules": [{"apiGroups": [group], "apiVersions": ["v1"], "operations": operations, "resources": [resource]}],
        "sideEffects": "None",
    }


def deployment_spec(args: LeaderWorkerSetArgs) -> dict[str, Any]:
    """One replica: while it is away groups go on serving. Ready is who answers the API server's webhook calls, which
    it does once its certificates are made."""
    container = {
        "name": "manager",
        "image": args.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/manager"],
        "args": ["--metrics-bind-address=0", "--zap-log-level=2"],
        "ports": [{"name": "webhooks", "containerPort": WEBHOOK_PORT}],
        "readinessProbe": {"tcpSocket": {"port": WEBHOOK_PORT}, "periodSeconds": 2},
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": HEALTH_PORT}, "initialDelaySeconds": 15,
                          "periodSeconds": 20, "timeoutSeconds": 5},
        "resources": {"requests": {"cpu": args.cpu, "memory": args.memory}, "limits": {"memory": "1Gi"}},
        "securityContext": {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                            "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "certificates", "mountPath": CERTIFICATES, "readOnly": True}],
    }  # fmt: skip
    return {
        "replicas": 1,
        "selector": {"matchLabels": args.pod_labels},
        "template": {
            "metadata": {"labels": {**args.pod_labels, **_labels(args.owner)}},
            "spec": {
                "serviceAccountName": CONTROLLER,
                "terminationGracePeriodSeconds": 10,
                "securityContext": {"runAsNonRoot": True, "runAsUser": USER, "fsGroup": USER,
                                    "seccompProfile": {"type": "RuntimeDefault"}},
                "containers": [container],
                "volumes": [{"name": "certificates", "secret": {"secretName": SECRET}}],
            },
        },
    }  # fmt: skip


def _labels(owner: str) -> dict[str, str]:
    return {PART_OF: PART_OF_VALUE, **MANAGED_BY, OWNER_LABEL: owner}


class LeaderWorkerSetController(pulumi.ComponentResource):
    """The kind and its controller. `ready` is what a LeaderWorkerSet has to wait for.

    The kind outlives the stack: to delete it would delete every LeaderWorkerSet of the cluster, whoever made it.
    """

    ready: list[pulumi.Resource]
    image: pulumi.Output[str]

    def __init__(self, name: str, args: LeaderWorkerSetArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("splitserve:nodes:LeaderWorkerSetController", name, None, opts)
        self._args = args
        kind = self._kind()
        namespace = k8s.core.v1.Namespace(
            NAMESPACE, metadata=self._metadata(NAMESPACE, None), opts=pulumi.ResourceOptions(parent=self)
        )
        inside = pulumi.ResourceOptions(parent=self, depends_on=[namespace])
        access = self._access(inside)
        # The controller writes its certificates there; what is not declared here is nobody's to take away.
        secret = k8s.core.v1.Secret(SECRET, metadata=self._metadata(SECRET), opts=inside)
        hooks = self._webhooks(inside)
        after = pulumi.ResourceOptions(
            parent=self, depends_on=[kind, secret, *hooks, *access],
            custom_timeouts=pulumi.CustomTimeouts(create=START_LIMIT, update=START_LIMIT),
        )  # fmt: skip
        spec: Any = deployment_spec(args)
        controller = k8s.apps.v1.Deployment(CONTROLLER, metadata=self._metadata(CONTROLLER), spec=spec, opts=after)
        self.ready = [controller, self._service(inside)]
        self.image = pulumi.Output.from_input(args.image)
        self.register_outputs({"image": self.image})

    def _metadata(self, name: str, namespace: str | None = NAMESPACE) -> k8s.meta.v1.ObjectMetaArgs:
        return k8s.meta.v1.ObjectMetaArgs(name=name, namespace=namespace, labels=_labels(self._args.owner))

    def _kind(self) -> pulumi.Resource:
        """Over one that an earlier stack left, of whatever version."""
        manifest: dict[str, Any] = render_crd()
        metadata: Any = {**manifest["metadata"], "annotations": {"pulumi.com/patchForce": "true"}}
        return k8s.apiextensions.v1.CustomResourceDefinition(
            NAME, metadata=metadata, spec=manifest["spec"],
            opts=pulumi.ResourceOptions(parent=self, retain_on_delete=True),
        )  # fmt: skip

    def _access(self, inside: pulumi.ResourceOptions) -> list[pulumi.Resource]:
        account = k8s.core.v1.ServiceAccount(CONTROLLER, metadata=self._metadata(CONTROLLER), opts=inside)
        subject = k8s.rbac.v1.SubjectArgs(kind="ServiceAccount", name=CONTROLLER, namespace=NAMESPACE)
        everywhere, election = self._metadata("lws-manager-role", None), self._metadata("lws-leader-election-role")
        rules: Any = cluster_rules()
        of_election: Any = election_rules()
        role = k8s.rbac.v1.ClusterRole("lws-manager-role", metadata=everywhere, rules=rules, opts=inside)
        locks = k8s.rbac.v1.Role("lws-leader-election-role", metadata=election, rules=of_election, opts=inside)
        return [
            account,
            k8s.rbac.v1.ClusterRoleBinding(
                "lws-manager-rolebinding", metadata=self._metadata("lws-manager-rolebinding", None), subjects=[subject],
                role_ref=k8s.rbac.v1.RoleRefArgs(api_group=_RBAC, kind="ClusterRole", name="lws-manager-role"),
                opts=pulumi.ResourceOptions.merge(inside, pulumi.ResourceOptions(depends_on=[role])),
            ),
            k8s.rbac.v1.RoleBinding(
                "lws-leader-election-rolebinding", metadata=self._metadata("lws-leader-election-rolebinding"),
                subjects=[subject],
                role_ref=k8s.rbac.v1.RoleRefArgs(api_group=_RBAC, kind="Role", name="lws-leader-election-role"),
                opts=pulumi.ResourceOptions.merge(inside, pulumi.ResourceOptions(depends_on=[locks])),
            ),
        ]  # fmt: skip

    def _webhooks(self, opts: pulumi.ResourceOptions) -> list[pulumi.Resource]:
        admission = k8s.admissionregistration.v1
        mutate: Any = webhooks("mutate")
        validate: Any = webhooks("validate")
        names = ("lws-mutating-webhook-configuration", "lws-validating-webhook-configuration")
        return [
            admission.MutatingWebhookConfiguration(
                names[0], metadata=self._metadata(names[0], None), webhooks=mutate, opts=opts),
            admission.ValidatingWebhookConfiguration(
                names[1], metadata=self._metadata(names[1], None), webhooks=validate, opts=opts),
        ]  # fmt: skip

    def _service(self, inside: pulumi.ResourceOptions) -> pulumi.Resource:
        port = k8s.core.v1.ServicePortArgs(port=443, target_port=WEBHOOK_PORT, protocol="TCP")
        spec = k8s.core.v1.ServiceSpecArgs(selector=self._args.pod_labels, ports=[port])
        return k8s.core.v1.Service(SERVICE, metadata=self._metadata(SERVICE), spec=spec, opts=inside)
