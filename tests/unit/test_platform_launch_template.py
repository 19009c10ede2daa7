"""Launch templates and node groups of every kind of capacity, and what a user brings along."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pulumi
import pulumi.runtime
import pytest

from components.hardware.interfaces import LayoutUnknown
from components.platform.launch_template import launch_template
from components.platform.node_generation import Capacity, NodeGeneration
from components.platform.node_group import NodeGroup, NodeGroupArgs
from tests.unit.test_node_generation import GENERATION
from tools.awsim.shapes import convert, faults, input_shape, service

GROUPS = ["sg-cluster", "sg-efa"]
RESERVATION = "cr-0123456789abcdef0"


def generation(**more: Any) -> NodeGeneration:
    return replace(GENERATION, **more)


def template(found: NodeGeneration, placement_group: str | None = "pg") -> dict[str, Any]:
    return launch_template(found, GROUPS, placement_group, {"Name": "n"})


def market(capacity: Capacity) -> tuple[Any, Any]:
    reserved = capacity in ("reservation", "block")
    made = template(generation(capacity=capacity, reservation=RESERVATION if reserved else None))
    return made.get("capacity_reservation_specification"), made.get("instance_market_options")


def test_a_reservation_is_named_and_bought_as_usual() -> None:
    assert market("reservation") == ({"capacity_reservation_target": {"capacity_reservation_id": RESERVATION}}, None)


def test_a_capacity_block_is_named_and_a_market_of_its_own() -> None:
    """EC2 user guide, "Launch instances using Capacity Blocks"."""
    named, options = market("block")
    assert named == {"capacity_reservation_target": {"capacity_reservation_id": RESERVATION}}
    assert options == {"market_type": "capacity-block"}
    assert "capacity-block" in service("ec2").shape_for("MarketType").enum  # type: ignore[attr-defined]


@pytest.mark.parametrize("capacity", ["on-demand", "spot"])
def test_other_capacity_is_for_the_node_group_to_say(capacity: Capacity) -> None:
    """EKS refuses a template that asks for Spot (EKS user guide, "Launch templates")."""
    assert market(capacity) == (None, None)


def test_a_placement_group_is_the_templates_or_there_is_none() -> None:
    assert template(GENERATION, "theirs")["placement"] == {"group_name": "theirs"}
    assert "placement" not in template(GENERATION, None)


def test_bottlerockets_data_volume_is_its_second() -> None:
    """bottlerocket.dev, "Volumes": /dev/xvda is the system's, /dev/xvdb holds images and pods."""
    [disk] = template(generation(ami="bottlerocket"))["block_device_mappings"]
    assert disk["device_name"] == "/dev/xvdb" and disk["ebs"]["encrypted"] == "true"


def test_a_cpu_node_has_one_interface_and_a_gpu_node_without_efa_too() -> None:
    for instance in ("m7i.large", "g5.2xlarge"):
        [interface] = template(generation(instance=instance))["network_interfaces"]
        assert interface["interface_type"] == "interface" and interface["security_groups"] == GROUPS


def test_a_type_whose_layout_is_unpublished_is_refused_with_the_way_out() -> None:
    with pytest.raises(LayoutUnknown, match="launch template yourself"):
        template(generation(instance="p6e-gb200.36xlarge"))


RENAMES = {"networkInterfaces.securityGroups": "Groups"}


@pytest.mark.parametrize("capacity", ["on-demand", "reservation", "block", "spot"])
@pytest.mark.parametrize("ami", ["al2023", "bottlerocket"])
@pytest.mark.parametrize("instance", ["p5.48xlarge", "g6e.48xlarge", "m7i.large"])
def test_ec2_knows_every_field_and_value(capacity: Capacity, ami: Any, instance: str) -> None:
    """Against botocore's model of EC2's API."""
    members: Any = input_shape("ec2", "CreateLaunchTemplate").members
    shape = members["LaunchTemplateData"]
    made = template(generation(capacity=capacity, ami=ami, instance=instance, reservation=RESERVATION))
    tags = [{"resource_type": s["resource_type"], "tags": []} for s in made["tag_specifications"]]
    given = {_camel(key): _camels(value) for key, value in {**made, "tag_specifications": tags}.items()}
    assert list(faults(convert(given, shape, RENAMES), shape)) == []


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _camels(value: Any) -> Any:
    if isinstance(value, dict):
        return {_camel(key): _camels(item) for key, item in value.items()}
    return [_camels(item) for item in value] if isinstance(value, list) else value


class Recorder(pulumi.runtime.Mocks):
    """Keeps the inputs of what is registered, by type."""

    def __init__(self) -> None:
        self.made: dict[str, list[dict[str, Any]]] = {}

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str | None, dict[Any, Any]]:
        self.made.setdefault(args.typ, []).append(args.inputs)
        return f"{args.name}-id", {**args.inputs, "latestVersion": 3}

    def call(self, args: pulumi.runtime.MockCallArgs) -> tuple[dict[Any, Any], list[tuple[str, str]] | None]:
        return {}, None


def registered(declare: Callable[[], pulumi.Output[Any]], recorder: Recorder | None = None) -> Recorder:
    """What a program registers that ends when its output is known."""
    recorder = recorder or Recorder()
    pulumi.runtime.set_mocks(recorder, project="splitserve", stack="test", preview=False)
    pulumi.runtime.test(declare)()
    return recorder


TEMPLATE, PLACEMENT = "aws:ec2/launchTemplate:LaunchTemplate", "aws:ec2/placementGroup:PlacementGroup"


def group(found: NodeGeneration, **more: Any) -> tuple[dict[str, Any], Recorder]:
    """The node group's inputs, and everything that was made with it."""
    args = {"nodes": 0, "max_nodes": 2, "security_groups": GROUPS, **more}
    recorder = registered(lambda: NodeGroup("n", NodeGroupArgs("c", "arn:role", found, "subnet-1", **args)).name)
    [made] = recorder.made["aws:eks/nodeGroup:NodeGroup"]
    return made, recorder


@pytest.mark.parametrize(
    ("capacity", "eks", "strategy"),
    [
        ("on-demand", "ON_DEMAND", "DEFAULT"),
        ("reservation", "ON_DEMAND", "MINIMAL"),
        ("block", "CAPACITY_BLOCK", "MINIMAL"),
        ("spot", "SPOT", "DEFAULT"),
    ],
)
def test_full_reservations_lose_a_node_before_they_get_one(capacity: Capacity, eks: str, strategy: str) -> None:
    made, _ = group(generation(capacity=capacity, reservation=RESERVATION))
    assert (made["capacityType"], made["updateConfig"]["updateStrategy"]) == (eks, strategy)
    assert eks in service("eks").shape_for("CapacityTypes").enum  # type: ignore[attr-defined]


def test_a_security_group_of_the_users_takes_the_place_of_ours_beside_the_clusters() -> None:
    """Without the cluster's own a node can't reach its control plane."""
    _, recorder = group(generation(security_group="sg-theirs"))
    interfaces = recorder.made[TEMPLATE][0]["networkInterfaces"]
    assert len(interfaces) == 33
    assert all(i["securityGroups"] == ["sg-theirs", "sg-cluster"] for i in interfaces)


def test_a_launch_template_of_the_users_is_taken_as_it_is() -> None:
    made, recorder = group(generation(launch_template="lt-theirs"))
    assert made["launchTemplate"] == {"id": "lt-theirs", "version": "$Latest"}
    assert TEMPLATE not in recorder.made and PLACEMENT not in recorder.made


def test_our_template_is_used_in_its_newest_version() -> None:
    made, _ = group(GENERATION)
    assert made["launchTemplate"] == {"id": "n-id", "version": "3"}


@pytest.mark.parametrize(("given", "made"), [("own", 1), ("none", 0), ("theirs", 0)])
def test_a_placement_group_is_made_where_it_is_to_be_our_own(given: str, made: int) -> None:
    _, recorder = group(generation(placement_group=given))
    assert len(recorder.made.get(PLACEMENT, [])) == made
    named = recorder.made[TEMPLATE][0].get("placement")
    assert (named is None) == (given == "none")
    assert given != "theirs" or named == {"groupName": "theirs"}


def test_a_gpu_group_starts_empty_and_a_pool_full() -> None:
    gpu, _ = group(GENERATION, nodes=5, max_nodes=5)
    pool, _ = group(generation(instance="m7i.large", tier="system"), nodes=2, max_nodes=3, pool=True)
    assert gpu["scalingConfig"] == {"desiredSize": 0, "minSize": 0, "maxSize": 5}
    assert pool["scalingConfig"] == {"desiredSize": 2, "minSize": 2, "maxSize": 3}
    assert not pool["taints"] and len(gpu["taints"]) == 2


def test_repair_can_be_left_to_people() -> None:
    repaired, _ = group(GENERATION)
    left, _ = group(generation(repair=False))
    assert repaired["nodeRepairConfig"] == {"enabled": True, "maxParallelNodesRepairedCount": 1}
    assert left["nodeRepairConfig"] == {"enabled": False}
