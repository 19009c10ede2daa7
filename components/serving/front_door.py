"""The front door: the one Service that clients use, and what the routers may ask the cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from components.serving.labels import MANAGED_BY, NO_RELEASE, RELEASE_LABEL, SERVICE, TIER_LABEL
from components.serving.router import SERVICE_ACCOUNT
from components.serving.workloads import SKIP_AWAIT


@dataclass(frozen=True)
class FrontDoorArgs:
    """`release_id` is the release that gets the traffic, None while none may have it."""

    namespace: pulumi.Input[str]
    release_id: pulumi.Input[str | None]
    port: int
    router_port: int
    service_type: str
    node_port: int | None = None
    outside: pulumi.Input[str] | None = None
    """The address that clients use, where a load balancer stands before the node port."""


class FrontDoor(pulumi.ComponentResource):
    """A Service whose selector names one release; moving traffic is one small update."""

    endpoint: pulumi.Output[str]
    service: k8s.core.v1.Service

    def __init__(self, name: str, args: FrontDoorArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("splitserve:serving:FrontDoor", name, None, opts)
        self.service = self._service(args)
        # A preview by a user who may do little knows the Service without the address that it will get.
        address = self.service.spec.apply(lambda spec: spec.cluster_ip)
        balancer = self.service.status.apply(lambda status: status.load_balancer if status else None)
        parts = (address, balancer, args.outside)
        self.endpoint = pulumi.Output.all(*parts).apply(lambda p: p[2] or _endpoint(p[0], p[1], args.port))
        self.register_outputs({"endpoint": self.endpoint})

    def _service(self, args: FrontDoorArgs) -> k8s.core.v1.Service:
        selected = pulumi.Output.from_input(args.release_id).apply(lambda r: r or NO_RELEASE)
        return k8s.core.v1.Service(
            SERVICE,
            metadata=k8s.meta.v1.ObjectMetaArgs(
                name=SERVICE,
                namespace=args.namespace,
                labels=MANAGED_BY,
                # While no release has passed there is no endpoint to wait for.
                annotations=SKIP_AWAIT,
            ),
            spec=k8s.core.v1.ServiceSpecArgs(
                type=args.service_type,
                selector={RELEASE_LABEL: selected, TIER_LABEL: "router"},
                ports=[
                    k8s.core.v1.ServicePortArgs(
                        name="http", port=args.port, target_port=args.router_port, node_port=args.node_port
                    )
                ],
            ),
            opts=pulumi.ResourceOptions(parent=self),
        )


class RouterAccess(pulumi.ComponentResource):
    """The routers' identity: it may list pods in its own namespace, and nothing else."""

    def __init__(self, name: str, namespace: pulumi.Input[str], opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("splitserve:serving:RouterAccess", name, None, opts)
        metadata = k8s.meta.v1.ObjectMetaArgs(name=SERVICE_ACCOUNT, namespace=namespace, labels=MANAGED_BY)
        child = pulumi.ResourceOptions(parent=self)
        k8s.core.v1.ServiceAccount(SERVICE_ACCOUNT, metadata=metadata, opts=child)
        k8s.rbac.v1.Role(
            SERVICE_ACCOUNT,
            metadata=metadata,
            rules=[k8s.rbac.v1.PolicyRuleArgs(api_groups=[""], resources=["pods"], verbs=["get", "list", "watch"])],
            opts=child,
        )
        k8s.rbac.v1.RoleBinding(
            SERVICE_ACCOUNT,
            metadata=metadata,
            role_ref=k8s.rbac.v1.RoleRefArgs(api_group="rbac.authorization.k8s.io", kind="Role", name=SERVICE_ACCOUNT),
            subjects=[k8s.rbac.v1.SubjectArgs(kind="ServiceAccount", name=SERVICE_ACCOUNT, namespace=namespace)],
            opts=child,
        )
        self.register_outputs({})


def _endpoint(cluster_ip: str | None, balancer: dict[str, Any] | None, port: int) -> str:
    """The address that clients use: the load balancer's if there is one, else the Service's own."""
    host = cluster_ip or SERVICE
    for entry in (balancer or {}).get("ingress") or []:
        host = entry.get("hostname") or entry.get("ip") or host
    return f"http://{host}" + ("" if port == 80 else f":{port}")
