"""Who may talk to whom in the namespace: nobody but those who must.

vLLM's side channel, metrics and administration have no password of their own. They bind where a
cluster's network plugin enforces policies (on EKS the VPC CNI, switched on by its add-on); elsewhere
they are stored and do nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from components.nodes.daemon import NAME
from components.nodes.rdma_counters import NAME as RDMA_COUNTERS
from components.nodes.rdma_counters import PORT as RDMA_COUNTERS_PORT
from components.serving.autoscaler import LABELS as AUTOSCALER
from components.serving.autoscaler import METRICS_PORT
from components.serving.labels import MANAGED_BY, TIER_LABEL, worker_tier
from components.serving.spec import ENCODER, RENDER, ROUTER, TIERS

ENGINE_TIERS = tuple(tier for tiers in TIERS.values() for tier in tiers)
RANKS = (*ENGINE_TIERS, *(worker_tier(tier) for tier in ENGINE_TIERS))
"""Of all pods that hold a part of a model."""
PROBE = {"matchLabels": {"app.kubernetes.io/component": "probe"}}


@dataclass(frozen=True)
class NetworkPoliciesArgs:
    namespace: pulumi.Input[str]
    engine_port: int
    router_port: int
    router_metrics_port: int
    render_port: int
    bootstrap_port: int | None = None
    """Where whatever routes asks prefillers for their engine's id (Mooncake)."""


class NetworkPolicies(pulumi.ComponentResource):
    """Ingress alone is limited: what pods may call is their cluster's business."""

    def __init__(self, name: str, args: NetworkPoliciesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("splitserve:serving:NetworkPolicies", name, None, opts)
        for policy, spec in policies(args).items():
            k8s.networking.v1.NetworkPolicy(
                policy,
                metadata={"name": policy, "namespace": args.namespace, "labels": MANAGED_BY},
                spec=spec,
                opts=pulumi.ResourceOptions(parent=self),
            )
        self.register_outputs({})


def policies(args: NetworkPoliciesArgs) -> dict[str, Any]:
    """NetworkPolicy specs by name."""
    asked = [{"from": [{"podSelector": _tiers(ROUTER)}], "ports": _ports(args.bootstrap_port or 0)}]
    bootstrap = {"bootstrap": _policy(_tiers("prefill"), asked)} if args.bootstrap_port else {}
    return bootstrap | {
        "deny-by-default": {"podSelector": {}, "policyTypes": ["Ingress"]},
        "clients-to-router": _policy(_tiers(ROUTER), [{"ports": _ports(args.router_port)}]),
        "metrics": _policy(
            _tiers(*ENGINE_TIERS, ENCODER, RENDER, ROUTER),
            # Scrapers live in other namespaces, and the API server's proxy outside all of them.
            [{"ports": _ports(args.engine_port, args.render_port, args.router_metrics_port)}],
        ),
        # The side channel's ports, one a rank, and those that a transport without RDMA picks itself.
        # And those by which the pods of one engine find each other.
        "kv-transfer": _policy(_tiers(*RANKS), [{"from": [{"podSelector": _tiers(*RANKS)}]}]),
        # Engines read embeddings at the encoder's side channel and a port that the transport picks; the transport
        # may open its way back, as between engines.
        "embedding-transfer": _policy(_tiers(ENCODER), [{"from": [{"podSelector": _tiers(*ENGINE_TIERS)}]}]),
        "embedding-readers": _policy(_tiers(*ENGINE_TIERS), [{"from": [{"podSelector": _tiers(ENCODER)}]}]),
        "autoscaler": _policy({"matchLabels": AUTOSCALER}, [{"ports": _ports(METRICS_PORT)}]),
        "rdma-counters": _policy({"matchLabels": {NAME: RDMA_COUNTERS}}, [{"ports": _ports(RDMA_COUNTERS_PORT)}]),
        "probe": _policy(_tiers(*ENGINE_TIERS, ENCODER, RENDER, ROUTER), [{"from": [{"podSelector": PROBE}]}]),
    }


def _tiers(*tiers: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": TIER_LABEL, "operator": "In", "values": list(tiers)}]}


def _policy(selector: dict[str, Any], ingress: list[dict[str, Any]]) -> dict[str, Any]:
    return {"podSelector": selector, "policyTypes": ["Ingress"], "ingress": ingress}


def _ports(*ports: int) -> list[dict[str, Any]]:
    return [{"protocol": "TCP", "port": port} for port in ports]
