"""Pulumi's inputs as API parameters, judged by AWS's own service models; the kinds' names against the SDK's."""

from __future__ import annotations

import ast
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tools.awsim.kind import Kind
from tools.awsim.kinds import KINDS
from tools.awsim.shapes import UNKNOWN, ConversionFault, convert, faults, input_shape

TEMPLATE = KINDS["aws:ec2/launchTemplate:LaunchTemplate"]
CLUSTER = KINDS["aws:eks/cluster:Cluster"]
NODE_GROUP = KINDS["aws:eks/nodeGroup:NodeGroup"]


def test_a_launch_template_is_converted() -> None:
    interfaces = [{"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "efa", "securityGroups": ["sg-1"],
                   "associatePublicIpAddress": "false"}]  # fmt: skip
    found = TEMPLATE.parameters({
        "name": "gpu", "instanceType": "p5.48xlarge", "networkInterfaces": interfaces, "tags": {"a": "b"},
        "tagSpecifications": [{"resourceType": "instance", "tags": {"Name": "gpu"}}], "updateDefaultVersion": True,
    })  # fmt: skip
    assert found == {
        "LaunchTemplateName": "gpu",
        "LaunchTemplateData": {
            "InstanceType": "p5.48xlarge",
            "NetworkInterfaces": [{"NetworkCardIndex": 0, "DeviceIndex": 0, "InterfaceType": "efa", "Groups": ["sg-1"],
                                   "AssociatePublicIpAddress": False}],
            "TagSpecifications": [{"ResourceType": "instance", "Tags": [{"Key": "Name", "Value": "gpu"}]}],
        },
        "TagSpecifications": [{"ResourceType": "launch-template", "Tags": [{"Key": "a", "Value": "b"}]}],
    }  # fmt: skip


def test_an_object_becomes_a_list_where_the_api_wants_one() -> None:
    key = {"provider": {"keyArn": "arn:aws:kms:us-east-1:1:key/1"}, "resources": ["secrets"]}
    assert CLUSTER.parameters({"name": "c", "encryptionConfig": key})["encryptionConfig"] == [key]


@pytest.mark.parametrize(
    ("kind", "inputs", "words"),
    [
        (TEMPLATE, {"name": "a", "instanceTyp": "p5.48xlarge"}, "LaunchTemplateData.instanceTyp"),
        (CLUSTER, {"name": "a", "vpcConfig": {"subnetId": "subnet-1"}}, "vpcConfig.subnetId"),
        (KINDS["aws:eks/accessPolicyAssociation:AccessPolicyAssociation"], {"tags": {"a": "b"}}, "tags"),
    ],
)
def test_an_input_that_the_api_lacks_is_an_error(kind: Kind, inputs: dict[str, Any], words: str) -> None:
    with pytest.raises(ConversionFault, match=re.escape(words)):
        kind.parameters(inputs)


GROUP = {"clusterName": "c", "nodeGroupName": "g", "nodeRoleArn": "arn:aws:iam::1:role/n", "subnetIds": ["subnet-1"],
         "scalingConfig": {"desiredSize": 1, "minSize": 0, "maxSize": 2}}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"taints": [{"key": "a", "effect": "NoSchedule"}]}, "need one of NO_SCHEDULE"),
        ({"capacityType": "DEMAND"}, "need one of ON_DEMAND"),
        ({"scalingConfig": {"desiredSize": -1, "minSize": 0, "maxSize": 2}}, "need at least 0"),
        ({"subnetIds": "subnet-1", "labels": {"a": ["b"]}}, "need a string"),
        ({"labels": {"a": "x" * 64}}, "need at most 63"),
    ],
)
def test_what_the_model_forbids_is_told(change: dict[str, Any], words: str) -> None:
    assert words in "; ".join(NODE_GROUP.check({**GROUP, **change}))


def test_what_is_required_patterned_or_unknown() -> None:
    assert NODE_GROUP.check(GROUP) == []
    assert "nodeRole is required" in NODE_GROUP.check({k: v for k, v in GROUP.items() if k != "nodeRoleArn"})[0]
    assert "does not match" in CLUSTER.check({"name": "a.b", "roleArn": "r", "vpcConfig": {"subnetIds": ["s"]}})[0]
    unknown = {"clusterName": UNKNOWN, "subnetIds": UNKNOWN, "launchTemplate": {"id": UNKNOWN, "version": UNKNOWN}}
    assert NODE_GROUP.check({**GROUP, **unknown}) == []


def test_whole_numbers_and_booleans_are_told_apart() -> None:
    shape = input_shape("eks", "CreateNodegroup")
    assert convert({"diskSize": 20.0}, shape, {}) == {"diskSize": 20}
    assert any("diskSize" in fault for fault in faults({"diskSize": True}, shape))


def _sdk_names(token: str) -> tuple[set[str], set[str]]:
    """(inputs, outputs) of the SDK's class, by the wire's names, from its source."""
    module, name = token.split(":")[1].split("/")
    spec = find_spec("pulumi_aws")
    assert spec and spec.submodule_search_locations
    snake = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
    tree = ast.parse((Path(spec.submodule_search_locations[0]) / module / f"{snake}.py").read_text())
    inputs: set[str] = set()
    outputs: set[str] = set()
    for found in tree.body:
        if isinstance(found, ast.ClassDef) and not found.name.endswith("State"):
            (inputs if found.name.endswith("Args") else outputs).update(_properties(found))
    return inputs, outputs


def _properties(found: ast.ClassDef) -> set[str]:
    names = set()
    for function in found.body:
        if not isinstance(function, ast.FunctionDef):
            continue
        written = [ast.unparse(decorator) for decorator in function.decorator_list]
        renamed = [re.findall(r"getter\(name='(\w+)'\)", text) for text in written]
        if any(text.endswith("property") for text in written):
            names.add(next((name[0] for name in renamed if name), function.name))
    return names


@pytest.mark.parametrize("token", sorted(KINDS))
def test_a_kind_uses_the_sdks_names(token: str) -> None:
    kind, (inputs, outputs) = KINDS[token], _sdk_names(token)
    named = {name for name in (kind.name_input, kind.prefix_input) if name}
    assert {name.split(".")[0] for name in kind.forces_new} | set(kind.told) | named <= inputs
    assert kind.aside | kind.defaults.keys() <= inputs
    assert {name.split(".")[0] for name in kind.computed} <= outputs
    assert (kind.tagging is not None) == ("tags" in inputs)
