"""The EKS cluster: who reaches its API, and what it writes down."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from policies.rule import Finding, Resource, Setting, resource_rule
from policies.stacks import PRODUCTION_STACKS, is_production

CLUSTER = "aws:eks/cluster:Cluster"
SOURCE = "https://docs.aws.amazon.com/eks/latest/userguide/cluster-endpoint.html: public by default"
FIX = "set vpcConfig.endpointPublicAccess: false, or publicAccessCidrs to the addresses that need it"
WORLD_PREFIX = 8
"""A block of 2^24 IPv4 addresses or more is nobody's office."""


@resource_rule(
    "no-public-endpoint", "mandatory", "The API of a production cluster is not open to the world.",
    kinds=(CLUSTER,), fix=FIX, source=SOURCE, settings=[PRODUCTION_STACKS],
)  # fmt: skip
def no_public_endpoint(resource: Resource) -> Iterator[Finding]:
    if is_production(resource.stack, resource.settings["productionStacks"]):
        yield from _public(resource)


@resource_rule(
    "no-public-endpoint-elsewhere", "advisory", "The API of a cluster is not open to the world outside production either.",
    kinds=(CLUSTER,), fix=FIX, source=SOURCE, settings=[PRODUCTION_STACKS],
)  # fmt: skip
def no_public_endpoint_elsewhere(resource: Resource) -> Iterator[Finding]:
    if not is_production(resource.stack, resource.settings["productionStacks"]):
        yield from _public(resource)


def _public(resource: Resource) -> Iterator[Finding]:
    """EKS's default for both properties is open."""
    network = resource.props.get("vpcConfig") or {}
    if network.get("endpointPublicAccess", True) is False:
        return
    wide = [block for block in network.get("publicAccessCidrs") or ["0.0.0.0/0"] if _is_wide(block)]
    if wide:
        yield Finding(f"a public endpoint open to {', '.join(wide)}", "none, or named addresses")


def _is_wide(block: str) -> bool:
    network = ipaddress.ip_network(block, strict=False)
    return network.prefixlen < (WORLD_PREFIX if network.version == 4 else 2 * WORLD_PREFIX)


@resource_rule(
    "control-plane-logs", "advisory", "The control plane writes down who did what.",
    kinds=(CLUSTER,), fix="add them to enabledClusterLogTypes",
    source="https://docs.aws.amazon.com/eks/latest/userguide/control-plane-logs.html",
    settings=[Setting("logTypes", ["api", "audit", "authenticator"], "the log types that must be on")],
)  # fmt: skip
def control_plane_logs(resource: Resource) -> Iterator[Finding]:
    on = list(resource.props.get("enabledClusterLogTypes") or [])
    missing = [kind for kind in resource.settings["logTypes"] if kind not in on]
    if missing:
        yield Finding(f"no {', '.join(missing)} logs", "all of " + ", ".join(resource.settings["logTypes"]))
