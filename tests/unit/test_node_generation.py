"""A generation's identity: what changes it, what does not, and that its pods and nodes find each other."""

from __future__ import annotations

import hashlib
from dataclasses import fields, replace
from typing import Any

import pytest

from components.hardware.catalogue import known_instance
from components.platform.node_generation import ROUTER_NODES, NodeGeneration, node_selector, tolerations
from components.platform.node_group import ami_type, node_labels, taints
from components.release.release import Release
from infra.aws_arguments import cluster_args
from infra.node_generations import node_generations, placements
from tests.unit.plans import prod
from tests.unit.test_ledger import release
from tools.awsim.shapes import service

GENERATION = NodeGeneration(
    tier="prefill", instance="p5.48xlarge", zone="us-east-1a", capacity="on-demand", reservation=None,
    placement_group="own", addresses="save", disk_gib=200, ami="al2023", ami_release=None, kubernetes_version="1.34",
    launch_template=None, security_group=None, repair=True,
)  # fmt: skip
OTHER: dict[str, Any] = {
    "tier": "decode", "instance": "p5en.48xlarge", "zone": "us-east-1b", "capacity": "reservation",
    "reservation": "cr-1", "placement_group": "none", "addresses": "bandwidth", "disk_gib": 300,
    "ami": "bottlerocket", "ami_release": "1.34.1-20251120", "kubernetes_version": "1.35",
    "launch_template": "lt-1", "security_group": "sg-1", "repair": False,
}  # fmt: skip
CANONICAL = (
    '{"addresses":"save","ami":"al2023","ami_release":null,"capacity":"on-demand","disk_gib":200,'
    '"instance":"p5.48xlarge","kubernetes_version":"1.34","launch_template":null,"placement_group":"own",'
    '"repair":true,"reservation":null,"security_group":null,"tier":"prefill","zone":"us-east-1a"}'
)


def test_the_id_stays_what_it_is() -> None:
    """Another id is another release and another node group: a change of it here replaces everyone's nodes."""
    assert GENERATION.id == hashlib.sha256(CANONICAL.encode()).hexdigest()[:8]
    assert GENERATION.name == f"prefill-{GENERATION.id}"


@pytest.mark.parametrize("name", [field.name for field in fields(NodeGeneration)])
def test_other_nodes_have_another_id(name: str) -> None:
    assert replace(GENERATION, **{name: OTHER[name]}).id != GENERATION.id


def engine(value: Any) -> Any:
    """What the engine's state keeps: no nulls, and numbers as floating point."""
    if isinstance(value, dict):
        return {key: engine(item) for key, item in value.items() if item is not None}
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


@pytest.mark.parametrize("generation", [GENERATION, replace(GENERATION, **OTHER)])
def test_a_live_releases_nodes_are_the_same_after_the_state(generation: NodeGeneration) -> None:
    """Else the update after would build another node group beside the live one."""
    proved = replace(release("a"), nodes={generation.tier: generation.to_json()})
    found = Release.from_json(proved.to_json() | {"nodes": engine(proved.nodes)}).nodes[generation.tier]
    assert NodeGeneration.from_json(found) == generation
    assert NodeGeneration.from_json(found).id == generation.id


def test_pods_of_a_tier_land_on_their_generation_and_on_no_other() -> None:
    other = replace(GENERATION, disk_gib=300)
    selector = node_selector(GENERATION).items()
    assert selector <= node_labels(GENERATION, known_instance("p5.48xlarge"), pool=False).items()
    assert not selector <= node_labels(other, known_instance("p5.48xlarge"), pool=False).items()
    assert not selector <= node_labels(GENERATION, known_instance("p5.48xlarge"), pool=True).items()


EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}
"""EKS's names of Kubernetes' taint effects (EKS API reference, Taint)."""


def tolerated(taint: Any, toleration: dict[str, str]) -> bool:
    """Kubernetes' rule (concepts, "Taints and Tolerations")."""
    same = toleration["key"] == taint.key and toleration["effect"] == EFFECTS[taint.effect]
    return same and (toleration["operator"] == "Exists" or toleration.get("value") == taint.value)


def admitted(tier: str, generation: NodeGeneration) -> bool:
    return all(any(tolerated(taint, t) for t in tolerations(tier)) for taint in taints(generation))


def test_a_tiers_pods_alone_tolerate_its_nodes() -> None:
    decode = replace(GENERATION, tier="decode")
    assert admitted("prefill", GENERATION) and admitted("decode", decode)
    assert not admitted("decode", GENERATION) and not admitted("prefill", decode)


@pytest.mark.parametrize(
    ("instance", "ami", "expected"),
    [
        ("p5.48xlarge", "al2023", "AL2023_x86_64_NVIDIA"),
        ("p5.48xlarge", "bottlerocket", "BOTTLEROCKET_x86_64_NVIDIA"),
        ("p6e-gb200.36xlarge", "bottlerocket", "BOTTLEROCKET_ARM_64_NVIDIA"),
        ("m7i.xlarge", "al2023", "AL2023_x86_64_STANDARD"),
        ("m7g.xlarge", "al2023", "AL2023_ARM_64_STANDARD"),
        ("c7gn.16xlarge", "bottlerocket", "BOTTLEROCKET_ARM_64"),
        ("im4gn.large", "al2023", "AL2023_ARM_64_STANDARD"),
        ("m7a.large", "bottlerocket", "BOTTLEROCKET_x86_64"),
    ],
)
def test_the_ami_is_one_that_eks_has_for_the_machine(instance: str, ami: Any, expected: str) -> None:
    found = ami_type(replace(GENERATION, instance=instance, ami=ami), known_instance(instance))
    assert found == expected and expected in service("eks").shape_for("AMITypes").enum  # type: ignore[attr-defined]


def test_a_plans_engines_get_nodes_with_defaults_by_what_they_are() -> None:
    groups = "platform.aws.nodeGroups"
    found = node_generations(prod())
    assert found.keys() == {"prefill", "decode"}
    assert (found["prefill"].zone, found["prefill"].disk_gib, found["prefill"].placement_group) == ("us-east-1a", 200, "own")  # fmt: skip
    given = prod((f"{groups}.prefill.zone", "us-east-1c"), (f"{groups}.prefill.diskGib", 900))
    changed = node_generations(given)["prefill"]
    assert (changed.zone, changed.disk_gib) == ("us-east-1c", 900)


def test_how_many_nodes_there_are_is_no_part_of_a_generation() -> None:
    more = prod(("platform.aws.nodeGroups.prefill.nodes", 4), ("platform.aws.nodeGroups.prefill.maxNodes", 8))
    assert node_generations(more) == node_generations(prod())


def test_routers_run_beside_no_engine() -> None:
    found = placements(prod())
    assert found["router"].node_selector == ROUTER_NODES
    pools = {pool: cluster_args(prod(*more).settings, "s").router_pool for pool, more in {
        "system": [], "router": [("platform.aws.nodeGroups.router", {"instance": "m7i.large"})]}.items()}  # fmt: skip
    assert all(pool == chosen for pool, chosen in pools.items())
    assert not found["router"].tolerations
    assert found["prefill"].node_selector != found["decode"].node_selector
