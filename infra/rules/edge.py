"""The way in from outside on AWS: who may come, by what protection, and how long a connection may be idle."""

from __future__ import annotations

from collections.abc import Iterator

from infra.plan import Plan
from infra.rules.rule import Finding, rule

IDLE_TIMEOUTS_S = {"application": (1, 4000), "network": (60, 6000)}
"""What load balancers take (https://docs.aws.amazon.com/elasticloadbalancing/latest/)."""


@rule("internet-facing-on-purpose", "error", "A balancer that faces the internet has a certificate and names its clients.",
      "https://docs.aws.amazon.com/elasticloadbalancing/latest/application/create-https-listener.html; policies/balancer.py: "
      "prompts and API keys would be readable on the way, from whatever range they come")  # fmt: skip
def internet_facing(plan: Plan) -> Iterator[Finding]:
    edge, aws = plan.settings.edge, plan.settings.platform.aws
    if not edge.internet_facing:
        return
    if not aws or edge.service_type != "LoadBalancer":
        yield Finding("edge.internetFacing", "true, without a load balancer of the stack",
                      "edge.serviceType: LoadBalancer, on AWS", "or leave it out")  # fmt: skip
        return
    if not edge.certificate:
        yield Finding("edge.certificate", "nothing, with internetFacing", "the ARN of a TLS certificate of the region",
                      "request one in AWS Certificate Manager, or leave internetFacing out")  # fmt: skip
    if not edge.client_cidrs:
        yield Finding("edge.clientCidrs", "nothing, with internetFacing: the VPC's own range alone may connect",
                      "the public ranges of the clients", "0.0.0.0/0 admits everybody")  # fmt: skip


@rule("idle-timeout-possible", "error", "The load balancer takes the idle timeout.",
      "https://docs.aws.amazon.com/elasticloadbalancing/latest/network/update-idle-timeout.html")  # fmt: skip
def idle_timeout(plan: Plan) -> Iterator[Finding]:
    edge = plan.settings.edge
    if not plan.settings.platform.aws or edge.service_type != "LoadBalancer" or edge.idle_timeout_s is None:
        return
    least, most = IDLE_TIMEOUTS_S[edge.load_balancer]
    if edge.load_balancer == "network" and edge.certificate:
        yield Finding("edge.idleTimeoutS", f"{edge.idle_timeout_s}, on the TLS listener of a network balancer",
                      "nothing: it always has 350 s", "leave it out, or set edge.loadBalancer: application")  # fmt: skip
    elif not least <= edge.idle_timeout_s <= most:
        yield Finding("edge.idleTimeoutS", f"{edge.idle_timeout_s}", f"{least} to {most} s for a balancer of kind {edge.load_balancer}",
                      "leave it out for its own")  # fmt: skip
