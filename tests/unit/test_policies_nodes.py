"""Cases of policies/nodes.py."""

from __future__ import annotations

from typing import Any

from components.hardware.catalogue import instance
from components.hardware.interfaces import layout
from policies.gpu_groups import NODE_GROUP
from policies.nodes import INSTANCE, LAUNCH_TEMPLATE
from tests.unit.test_policies import SATISFIES, UNDECIDED, UNKNOWN, VIOLATES, Case, Made, hold, titled


def template(**props: Any) -> Made:
    return Made(LAUNCH_TEMPLATE, props, "gpu")


def group(*, labels: dict[str, str] | None = None, **props: Any) -> Made:
    return Made(NODE_GROUP, {**({"labels": labels} if labels else {}), **props}, "group")


def interfaces(name: str) -> list[dict[str, Any]]:
    return [
        {"networkCardIndex": i.card, "deviceIndex": i.device, "interfaceType": i.kind, "securityGroups": ["sg-1"]}
        for i in layout(instance(name))
    ]


def pulumi_eks_interfaces(cards: int) -> list[dict[str, Any]]:
    """As pulumi-eks makes them: `efa` as the primary, `efa-only` on device 1 of the others, one a card."""
    first = {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "efa"}
    return [first, *({"networkCardIndex": c, "deviceIndex": 1, "interfaceType": "efa-only"} for c in range(1, cards))]


def encrypted(value: Any) -> dict[str, Any]:
    return {"deviceName": "/dev/xvda", "ebs": {"volumeSize": 200, "volumeType": "gp3", "encrypted": value}}


PREFILL = {"splitserve.dev/nodes-prefill": "1a2b3c4d"}
UNNAMED = template(networkInterfaces=interfaces("p5.48xlarge"))
WITHOUT = template(instanceType="p4d.24xlarge")
IN_GROUP = Made(
    NODE_GROUP,
    {"instanceTypes": ["p4d.24xlarge"], "launchTemplate": {"id": UNKNOWN}},
    "group",
    {"launchTemplate": [UNNAMED]},
)
TIER_GROUP = Made(
    NODE_GROUP, {"labels": PREFILL, "launchTemplate": {"id": UNKNOWN}}, "tier", {"launchTemplate": [WITHOUT]}
)

IMDS = [
    Case(
        "imds-v2", VIOLATES, "optional", [template(metadataOptions={"httpTokens": "optional"})], ["`gpu`", "optional"]
    ),
    Case("imds-v2", VIOLATES, "no options", [template(instanceType="p5.48xlarge")], ["not set"]),
    Case("imds-v2", VIOLATES, "an instance", [Made(INSTANCE, {"instanceType": "g6e.8xlarge"})]),
    Case("imds-v2", SATISFIES, "required", [template(metadataOptions={"httpTokens": "required"})]),
    Case("imds-v2", SATISFIES, "no metadata at all", [template(metadataOptions={"httpEndpoint": "disabled"})]),
    Case("imds-v2", UNDECIDED, "unknown", [template(metadataOptions={"httpTokens": UNKNOWN})]),
]
RULE = "gpu-group-has-maximum"
MAXIMUM = [
    Case(RULE, VIOLATES, "none", [group(instanceTypes=["p5.48xlarge"], scalingConfig={"minSize": 1})], ["maxSize"]),
    Case(RULE, VIOLATES, "no scaling", [group(labels=PREFILL)], ["at most 64"]),
    Case(RULE, VIOLATES, "huge", [group(amiType="AL2023_x86_64_NVIDIA", scalingConfig={"maxSize": 65})], ["maxSize 65"]),
    Case(RULE, VIOLATES, "set", [group(labels=PREFILL, scalingConfig={"maxSize": 3})], ["at most 2"],
         settings={"maximum": 2.0}),
    Case(RULE, SATISFIES, "small", [group(labels=PREFILL, scalingConfig={"maxSize": 64})]),
    Case(RULE, SATISFIES, "CPU pool", [group(instanceTypes=["m7i.4xlarge"], scalingConfig={"maxSize": 500})]),
    Case(RULE, UNDECIDED, "unknown", [group(labels=PREFILL, scalingConfig={"maxSize": UNKNOWN})]),
]  # fmt: skip
RULE = "encrypted-volumes"
VOLUMES = [
    Case(RULE, VIOLATES, "open", [template(blockDeviceMappings=[encrypted("false")])], ["/dev/xvda"]),
    Case(RULE, VIOLATES, "not said", [template(blockDeviceMappings=[encrypted(True), encrypted(None)])], ["not set"]),
    Case(RULE, VIOLATES, "the image's own", [template(instanceType="g6e.8xlarge")], ["encryptedByDefault"]),
    Case(RULE, VIOLATES, "beside an unknown one",
         [template(blockDeviceMappings=[encrypted(UNKNOWN), encrypted(False)])], ["/dev/xvda"]),
    Case(RULE, SATISFIES, "as text", [template(blockDeviceMappings=[encrypted("true")])]),
    Case(RULE, SATISFIES, "yes", [template(blockDeviceMappings=[encrypted(True)])]),
    Case(RULE, SATISFIES, "instance store",
         [template(blockDeviceMappings=[encrypted(True), {"deviceName": "/dev/sdb", "virtualName": "ephemeral0"}])]),
    Case(RULE, SATISFIES, "the account's default", [template()], settings={"encryptedByDefault": True}),
    Case(RULE, UNDECIDED, "unknown", [template(blockDeviceMappings=[encrypted(UNKNOWN)])]),
]  # fmt: skip
RULE = "efa-layout"
LAYOUT = [
    Case(RULE, VIOLATES, "17 EFAs on p6-b300",
         [template(instanceType="p6-b300.48xlarge", networkInterfaces=pulumi_eks_interfaces(17))],
         ["card 0 of p6-b300.48xlarge takes no EFA", "17 EFAs"]),
    Case(RULE, VIOLATES, "half of the EFAs",
         [template(instanceType="g6e.24xlarge", networkInterfaces=interfaces("g6e.8xlarge"))], ["1 of 2 EFAs"]),
    Case(RULE, VIOLATES, "none on a tier's nodes", [WITHOUT, TIER_GROUP], ["p4d.24xlarge", "primary"]),
    Case(RULE, VIOLATES, "the type is in the group", [UNNAMED, IN_GROUP], ["for p4d.24xlarge"]),
    Case(RULE, VIOLATES, "a type that nobody knows",
         [template(instanceType="p9.48xlarge", networkInterfaces=interfaces("p5.48xlarge"))], ["--refresh"]),
    *(Case(RULE, SATISFIES, name, [template(instanceType=name, networkInterfaces=interfaces(name))])
      for name in ("g6e.12xlarge", "g6e.48xlarge", "p4d.24xlarge", "p5.48xlarge", "p5en.48xlarge", "p6-b200.48xlarge",
                   "p6-b300.48xlarge")),
    Case(RULE, SATISFIES, "bandwidth layout of p5", [template(
        instanceType="p5.48xlarge",
        networkInterfaces=[{"networkCardIndex": i.card, "deviceIndex": i.device, "interfaceType": i.kind}
                           for i in layout(instance("p5.48xlarge"), "bandwidth")])]),
    Case(RULE, SATISFIES, "a CPU pool", [template(instanceType="m7i.4xlarge")]),
    Case(RULE, SATISFIES, "a GPU node that exchanges nothing", [template(instanceType="p4d.24xlarge")]),
    Case(RULE, SATISFIES, "a layout that AWS has not published",
         [template(instanceType="p6e-gb200.36xlarge", networkInterfaces=pulumi_eks_interfaces(4))]),
    Case(RULE, UNDECIDED, "unknown interfaces", [template(instanceType="p5.48xlarge", networkInterfaces=UNKNOWN)]),
]  # fmt: skip
CASES = [*IMDS, *MAXIMUM, *VOLUMES, *LAYOUT]


@titled(CASES)
def test_nodes(case: Case) -> None:
    hold(case)
