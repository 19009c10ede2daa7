"""Cases of policies/balancer.py and policies/cost.py."""

from __future__ import annotations

import json
from typing import Any

from policies.balancer import LISTENER, LOAD_BALANCER
from policies.gpu_groups import NODE_GROUP
from policies.nodes import LAUNCH_TEMPLATE
from tests.unit.test_policies import SATISFIES, UNDECIDED, UNKNOWN, VIOLATES, Case, Made, hold, titled


def balancer(**props: Any) -> Made:
    return Made(LOAD_BALANCER, {"loadBalancerType": "network", **props}, "edge")


def listener(protocol: str, arn: str = "arn:1", *sources: Made, **props: Any) -> Made:
    action = {"type": "forward", "targetGroupArn": UNKNOWN}
    own = {"loadBalancerArn": arn, "port": 443, "protocol": protocol, "defaultActions": [action], **props}
    return Made(LISTENER, own, "front", {"loadBalancerArn": sources})


PUBLIC, INTERNAL = balancer(arn="arn:1", internal=False), balancer(arn="arn:1", internal=True)
NEW, NEW_INTERNAL = balancer(arn=UNKNOWN, internal=False), balancer(arn=UNKNOWN, internal=True)
TO_HTTPS = [{"type": "redirect", "redirect": {"protocol": "HTTPS", "port": "443", "statusCode": "HTTP_301"}}]
TLS = [
    Case("tls", VIOLATES, "HTTP", [PUBLIC, listener("HTTP")], ["`front`", "HTTP"]),
    Case("tls", VIOLATES, "TCP", [PUBLIC, listener("TCP")]),
    Case("tls", VIOLATES, "preview", [NEW, listener("TCP", UNKNOWN, NEW)]),
    Case("tls", VIOLATES, "another stack's", [listener("TCP", "arn:9")]),
    Case("tls", VIOLATES, "a redirect to HTTP", [PUBLIC, listener(
        "HTTP", defaultActions=[{"type": "redirect", "redirect": {"protocol": "HTTP"}}])]),
    Case("tls", SATISFIES, "HTTPS", [PUBLIC, listener("HTTPS")]),
    Case("tls", SATISFIES, "TLS", [PUBLIC, listener("TLS")]),
    Case("tls", SATISFIES, "internal", [INTERNAL, listener("TCP")]),
    Case("tls", SATISFIES, "internal, preview", [NEW_INTERNAL, listener("TCP", UNKNOWN, NEW_INTERNAL)]),
    Case("tls", SATISFIES, "a redirect to HTTPS", [PUBLIC, listener("HTTP", defaultActions=TO_HTTPS)]),
    Case("tls", SATISFIES, "another stack's, internal", [listener("TCP", "arn:9")],
         settings={"internalBalancers": ["arn:9"]}),
    Case("tls", UNDECIDED, "unknown from elsewhere", [listener("TCP", UNKNOWN)]),
]  # fmt: skip
LOGS = [
    Case("balancer-logs", VIOLATES, "none", [balancer()], ["`edge`"]),
    Case("balancer-logs", VIOLATES, "off", [balancer(accessLogs={"bucket": "b", "enabled": False})]),
    Case("balancer-logs", SATISFIES, "on", [balancer(accessLogs={"bucket": UNKNOWN, "enabled": True})]),
    Case("balancer-logs", SATISFIES, "a gateway", [balancer(loadBalancerType="gateway")]),
    Case("balancer-stays", VIOLATES, "unprotected", [balancer()], stack="prod"),
    Case("balancer-stays", SATISFIES, "protected", [balancer(enableDeletionProtection=True)], stack="prod"),
    Case("balancer-stays", SATISFIES, "elsewhere", [balancer()], stack="dev"),
]
OURS = {"splitserve:stack": "dev"}
STARTED = [{"resourceType": kind, "tags": OURS} for kind in ("instance", "volume")]


def template(**props: Any) -> Made:
    return Made(LAUNCH_TEMPLATE, props, "gpu")


RULE = "cost-tags"
GROUP = "aws:autoscaling/group:Group"
TAGS = [
    Case(RULE, VIOLATES, "none", [balancer()], ["`edge`", "splitserve:stack"]),
    Case(RULE, VIOLATES, "others", [balancer(tags={"Name": "x"}, tagsAll={"Name": "x"})]),
    Case(RULE, VIOLATES, "set", [balancer(tags=OURS)], ["without team"], settings={"tags": ["team"]}),
    Case(RULE, VIOLATES, "nothing on the instances", [template(tags=OURS)], ["each instance", "each volume"]),
    Case(RULE, VIOLATES, "the provider's are others", [Made(LOAD_BALANCER, {}, default_tags={"tags": {"a": "b"}})]),
    Case(RULE, SATISFIES, "its own", [balancer(tags={**OURS, "Name": UNKNOWN})]),
    Case(RULE, SATISFIES, "with defaults", [balancer(tagsAll=OURS)]),
    Case(RULE, SATISFIES, "the provider's", [Made(LOAD_BALANCER, {}, default_tags={"tags": OURS})]),
    Case(RULE, SATISFIES, "the provider's as text", [Made(LOAD_BALANCER, {}, default_tags=json.dumps({"tags": OURS}))]),
    Case(RULE, SATISFIES, "a launch template", [template(tags=OURS, tagSpecifications=STARTED)]),
    Case(RULE, SATISFIES, "a list of tags", [Made(GROUP, {"tags": [{"key": "splitserve:stack", "value": "dev"}]})]),
    Case(RULE, SATISFIES, "not on the bill", [Made("aws:iam/role:Role", {})]),
    Case(RULE, UNDECIDED, "unknown", [balancer(tags=UNKNOWN)]),
]


def nodes(tier: str, size: Any) -> Made:
    labels = {f"splitserve.dev/nodes-{tier}": "1a2b3c4d"}
    unknown = {"amiType": UNKNOWN, "instanceTypes": UNKNOWN}
    return Made(NODE_GROUP, {"labels": labels, "scalingConfig": {"maxSize": size}, **unknown}, tier)


CEILING = [
    Case("gpu-ceiling", VIOLATES, "together", [nodes("prefill", 32), nodes("decode", 33)], ["65", "decode 33"]),
    Case("gpu-ceiling", VIOLATES, "beside an unknown one", [nodes("prefill", 65), nodes("decode", UNKNOWN)], ["65"]),
    Case("gpu-ceiling", VIOLATES, "set", [nodes("decode", 5)], ["at most 4"], settings={"ceiling": 4.0}),
    Case("gpu-ceiling", SATISFIES, "below", [nodes("prefill", 32), nodes("decode", 32), nodes("render", 100)]),
    Case("gpu-ceiling", UNDECIDED, "unknown", [nodes("prefill", UNKNOWN)]),
]
CASES = [*TLS, *LOGS, *TAGS, *CEILING]


@titled(CASES)
def test_balancer_and_cost(case: Case) -> None:
    hold(case)
