"""Cases of policies/network.py: with ids as an update has them, and without as a preview does."""

from __future__ import annotations

from typing import Any

from policies.gpu_groups import NODE_GROUP
from policies.network import CLUSTER, GROUP_RULE, SECURITY_GROUP, SINGLE_RULES, SUBNET
from policies.nodes import LAUNCH_TEMPLATE
from tests.unit.test_policies import SATISFIES, UNDECIDED, UNKNOWN, VIOLATES, Case, Made, hold, titled

SELF = {"protocol": "-1", "fromPort": 0, "toPort": 0, "self": True}
WORLD = {"protocol": "-1", "fromPort": 0, "toPort": 0, "cidrBlocks": ["0.0.0.0/0"]}
TCP = {"protocol": "tcp", "fromPort": 0, "toPort": 65535, "self": True}


def security_group(ingress: Any, egress: Any, id: str = "sg-1") -> Made:
    return Made(SECURITY_GROUP, {"id": id, "ingress": ingress, "egress": egress, "vpcId": "vpc-1"}, "efa")


def template(groups: list[str], *sources: Made, kind: str = "efa-only") -> Made:
    plain = {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface", "securityGroups": ["sg-9"]}
    fast = {"networkCardIndex": 0, "deviceIndex": 1, "interfaceType": kind, "securityGroups": groups}
    return Made(LAUNCH_TEMPLATE, {"networkInterfaces": [plain, fast]}, "gpu", {"networkInterfaces": sources})


def single(direction: str, group: Made, id: str = "sg-1", **props: Any) -> Made:
    own = {"securityGroupId": id, "referencedSecurityGroupId": id, "ipProtocol": "-1", **props}
    depends = {key: [group] for key in ("securityGroupId", "referencedSecurityGroupId")}
    return Made(SINGLE_RULES[direction], own, f"{direction}-self", depends)


def general(direction: str, group: Made, id: str = "sg-1", **props: Any) -> Made:
    own = {"type": direction, "protocol": "-1", "fromPort": 0, "toPort": 0, "securityGroupId": id, **props}
    depends = {"securityGroupId": [group], **({"sourceSecurityGroupId": [group]} if "self" not in props else {})}
    return Made(GROUP_RULE, own, f"{direction}-rule", depends)


OPEN, WORLDLY = security_group([SELF], [SELF]), security_group([SELF], [WORLD])
BARE = security_group([], [])
FRESH = security_group(UNKNOWN, UNKNOWN, UNKNOWN)
EKS = Made(CLUSTER, {"vpcConfig": {"clusterSecurityGroupId": UNKNOWN}}, "cluster")
RULE = "efa-self-rules"
SELF_RULES = [
    Case(RULE, VIOLATES, "out to the world only", [WORLDLY, template(["sg-1"])], ["`gpu`", "`efa`", "egress"]),
    Case(RULE, VIOLATES, "TCP only", [security_group([TCP], [SELF]), template(["sg-1"])], ["missing: ingress"]),
    Case(RULE, VIOLATES, "no rules at all", [BARE, template(["sg-1"], kind="efa")], ["ingress and egress"]),
    Case(RULE, VIOLATES, "no rules, preview", [FRESH, template([UNKNOWN], FRESH)], ["ingress and egress"]),
    Case(RULE, VIOLATES, "one single rule, preview",
         [FRESH, template([UNKNOWN], FRESH), single("ingress", FRESH, UNKNOWN)], ["missing: egress"]),
    Case(RULE, VIOLATES, "no group at all", [template([])], ["the groups none"]),
    Case(RULE, VIOLATES, "another stack's group", [OPEN, template(["sg-77"])], ["sg-77"]),
    Case(RULE, VIOLATES, "rules of another group",
         [BARE, template(["sg-1"]), single("ingress", BARE, "sg-2"), single("egress", BARE, "sg-2")]),
    Case(RULE, SATISFIES, "inline", [OPEN, template(["sg-1"])]),
    Case(RULE, SATISFIES, "inline, preview", [security_group([SELF], [SELF], UNKNOWN), template(
        [UNKNOWN], security_group([SELF], [SELF], UNKNOWN))]),
    Case(RULE, SATISFIES, "inline by id", [security_group(
        [{"protocol": "-1", "securityGroups": ["sg-1"]}], [SELF]), template(["sg-1"])]),
    Case(RULE, SATISFIES, "one of two groups", [OPEN, template(["sg-77", "sg-1"])]),
    Case(RULE, SATISFIES, "single rules", [
        BARE, template(["sg-1"]), single("ingress", BARE), single("egress", BARE)]),
    Case(RULE, SATISFIES, "single rules, preview", [
        FRESH, template([UNKNOWN], FRESH), single("ingress", FRESH, UNKNOWN), single("egress", FRESH, UNKNOWN)]),
    Case(RULE, SATISFIES, "general rules, one by self", [
        BARE, template(["sg-1"]), general("ingress", BARE, self=True),
        general("egress", BARE, sourceSecurityGroupId="sg-1")]),
    Case(RULE, SATISFIES, "the cluster's group, preview", [
        EKS, template([UNKNOWN], EKS), single("ingress", EKS, UNKNOWN), single("egress", EKS, UNKNOWN)]),
    Case(RULE, SATISFIES, "checked by hand", [template(["sg-77"])], settings={"checkedGroups": ["sg-77"]}),
    Case(RULE, SATISFIES, "no EFA", [template([], kind="interface")]),
    Case(RULE, UNDECIDED, "unknown from elsewhere", [template([UNKNOWN])]),
]  # fmt: skip


def subnet(name: str, zone: str | None, id: str) -> Made:
    return Made(SUBNET, {"id": id, "availabilityZone": zone, "vpcId": "vpc-1", "cidrBlock": "10.0.0.0/18"}, name)


def nodes(tier: str, ids: Any, *sources: Made) -> Made:
    labels = {f"splitserve.dev/nodes-{tier}": "1a2b3c4d"}
    return Made(NODE_GROUP, {"labels": labels, "subnetIds": ids}, f"{tier}-group", {"subnetIds": sources})


A, B = subnet("a", "us-east-1a", "subnet-a"), subnet("b", "us-east-1b", "subnet-b")
NEW_A, NEW_B = subnet("a", "us-east-1a", UNKNOWN), subnet("b", "us-east-1b", UNKNOWN)
RULE = "one-zone"
ONE_ZONE = [
    Case(RULE, VIOLATES, "two tiers, two zones", [A, B, nodes("prefill", ["subnet-a"]), nodes("decode", ["subnet-b"])],
         ["us-east-1a: prefill-group in a", "us-east-1b: decode-group in b"]),
    Case(RULE, VIOLATES, "one group, two zones", [A, B, nodes("decode", ["subnet-a", "subnet-b"])]),
    Case(RULE, VIOLATES, "preview", [
        NEW_A, NEW_B, nodes("prefill", [UNKNOWN], NEW_A), nodes("decode", [UNKNOWN], NEW_B)]),
    Case(RULE, VIOLATES, "one group, preview", [NEW_A, NEW_B, nodes("decode", [UNKNOWN, UNKNOWN], NEW_A, NEW_B)]),
    Case(RULE, VIOLATES, "subnets of others", [nodes("prefill", ["subnet-x"]), nodes("decode", ["subnet-y"])],
         ["subnet-x", "subnetZones"]),
    Case(RULE, VIOLATES, "subnets of others in two zones", [
        nodes("prefill", ["subnet-x"]), nodes("decode", ["subnet-y"])], ["us-east-1b"],
        settings={"subnetZones": {"subnet-x": "us-east-1a", "subnet-y": "us-east-1b"}}),
    Case(RULE, SATISFIES, "one zone", [A, B, nodes("prefill", ["subnet-a"]), nodes("decode", ["subnet-a"])]),
    Case(RULE, SATISFIES, "CPU pools spread", [A, B, nodes("decode", ["subnet-a"]), nodes("render", ["subnet-b"])]),
    Case(RULE, SATISFIES, "preview", [
        NEW_A, NEW_B, nodes("prefill", [UNKNOWN], NEW_A), nodes("decode", [UNKNOWN], NEW_A)]),
    Case(RULE, SATISFIES, "whole list unknown, preview", [NEW_A, nodes("decode", UNKNOWN, NEW_A)]),
    Case(RULE, SATISFIES, "one subnet of others", [nodes("prefill", ["subnet-x"]), nodes("decode", ["subnet-x"])]),
    Case(RULE, SATISFIES, "told zones", [nodes("prefill", ["subnet-x"]), nodes("decode", ["subnet-y"])],
         settings={"subnetZones": {"subnet-x": "us-east-1a", "subnet-y": "us-east-1a"}}),
    Case(RULE, UNDECIDED, "one of two subnets, which is unknown", [
        NEW_A, NEW_B, nodes("decode", [UNKNOWN], NEW_A, NEW_B)]),
    Case(RULE, UNDECIDED, "unknown zone", [subnet("c", UNKNOWN, "subnet-c"), nodes("decode", ["subnet-c"])]),
]  # fmt: skip
CASES = [*SELF_RULES, *ONE_ZONE]


@titled(CASES)
def test_network(case: Case) -> None:
    hold(case)
