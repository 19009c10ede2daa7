"""The load balancer: what clients send reaches it encrypted, is written down, and it stays."""

from __future__ import annotations

from collections.abc import Iterator

from pulumi_policy import PolicyResource

from policies.amounts import yes
from policies.references import References
from policies.rule import Finding, Resource, Setting, Stack, resource_rule, stack_rule
from policies.stacks import PRODUCTION_STACKS, is_production
from policies.unknown import independently

LOAD_BALANCER = "aws:lb/loadBalancer:LoadBalancer"
LISTENER = "aws:lb/listener:Listener"
ENCRYPTED = ("HTTPS", "TLS")


@stack_rule(
    "tls", "mandatory", "Clients on the internet speak TLS to the load balancer: their API key is on the wire.",
    fix="set protocol HTTPS (application) or TLS (network) with a certificateArn, or redirect to such a listener",
    source="https://docs.aws.amazon.com/elasticloadbalancing/latest/application/create-https-listener.html",
    settings=[Setting("internalBalancers", [], "ARNs of load balancers of others that the internet does not reach")],
)  # fmt: skip
def tls(stack: Stack) -> Iterator[Finding]:
    references = References(stack.resources, LOAD_BALANCER)
    yield from independently(_plain(listener, references, stack) for listener in stack.of(LISTENER))


def _plain(listener: PolicyResource, references: References, stack: Stack) -> Iterator[Finding]:
    """A load balancer of another stack may face the internet."""
    protocol = listener.props.get("protocol")
    if protocol in ENCRYPTED or _redirects(listener):
        return
    reference = references.of(listener, "loadBalancerArn", lambda: listener.props.get("loadBalancerArn"))
    internal = reference.foreign in stack.settings["internalBalancers"] or (
        bool(reference.resources) and all(yes(balancer.props.get("internal")) for balancer in reference.resources)
    )
    if not internal:
        yield Finding(f"protocol {protocol or 'not set'} towards the internet", "HTTPS or TLS", at=listener)


def _redirects(listener: PolicyResource) -> bool:
    actions = listener.props.get("defaultActions") or []
    return bool(actions) and all(
        action.get("type") == "redirect" and (action.get("redirect") or {}).get("protocol") == "HTTPS"
        for action in actions
    )


@resource_rule(
    "balancer-logs", "advisory", "The load balancer writes down who asked.",
    kinds=(LOAD_BALANCER,), fix="set accessLogs.bucket and accessLogs.enabled: true",
    source="https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-access-logs.html",
)  # fmt: skip
def balancer_logs(resource: Resource) -> Iterator[Finding]:
    """A gateway load balancer has none."""
    if resource.props.get("loadBalancerType") != "gateway" and not yes(
        (resource.props.get("accessLogs") or {}).get("enabled")
    ):
        yield Finding("no access logs", "accessLogs.enabled true")


@resource_rule(
    "balancer-stays", "advisory", "The load balancer of a production stack can't be deleted by mistake.",
    kinds=(LOAD_BALANCER,), fix="set enableDeletionProtection: true",
    source="https://docs.aws.amazon.com/elasticloadbalancing/latest/application/edit-load-balancer-attributes.html",
    settings=[PRODUCTION_STACKS],
)  # fmt: skip
def balancer_stays(resource: Resource) -> Iterator[Finding]:
    if not is_production(resource.stack, resource.settings["productionStacks"]):
        return
    if not yes(resource.props.get("enableDeletionProtection")):
        yield Finding("enableDeletionProtection not set", "true")
