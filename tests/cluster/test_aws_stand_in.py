"""The whole dev stack on AWS's stand-in, on the local cluster and real vLLM: as `make up-aws-sim` runs it.

One story in order, since a release takes most of a minute to start: up, no capacity for other nodes,
other nodes beside the live ones, and everything away again.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tools.aws_sim import another_instance, cluster_alone, on_cpu, serving_on, simulated
from tools.awsim.running import AwsStandIn
from tools.cache import CHECKOUT
from tools.deployment import Deployment

LARGER = "g6e.48xlarge"
Simulated = tuple[AwsStandIn, Deployment]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulated]:
    with simulated("aws-test", tmp_path_factory.mktemp("aws")) as (aws, deployment):
        yield aws, deployment


def node_groups(aws: AwsStandIn) -> dict[str, tuple[str, int]]:
    """Instance type and desired size of each tier's groups: those of GPU nodes."""
    eks = aws.client("eks")
    (cluster,) = eks.list_clusters()["clusters"]
    found = {}
    for name in eks.list_nodegroups(clusterName=cluster)["nodegroups"]:
        group = eks.describe_nodegroup(clusterName=cluster, nodegroupName=name)["nodegroup"]
        if group["taints"]:
            found[name] = (_instance_type(aws, group), group["scalingConfig"]["desiredSize"])
    return found


def _instance_type(aws: AwsStandIn, group: dict[str, Any]) -> str:
    template = group["launchTemplate"]
    (version,) = aws.client("ec2").describe_launch_template_versions(
        LaunchTemplateId=template["id"], Versions=[template["version"]]
    )["LaunchTemplateVersions"]
    return version["LaunchTemplateData"]["InstanceType"]


def in_cluster(deployment: Deployment, *what: str) -> list[dict[str, Any]]:
    command = ["kubectl", "get", *what, "-o", "json"]
    return json.loads(subprocess.check_output(command, env=dict(deployment.environment)))["items"]


def test_the_stack_comes_up_with_its_plugins_and_passes_its_policies(stack: Simulated) -> None:
    aws, deployment = stack
    finished = deployment.up(on_cpu)
    assert finished.code == 0, finished.text
    outputs = deployment.outputs()
    assert outputs["verdict"] == "pass" and 0 < outputs["kvTransferMs"] < 200
    assert sorted(node_groups(aws).values()) == [("g6e.24xlarge", 1), ("g6e.24xlarge", 1)]
    daemons = {item["metadata"]["name"] for item in in_cluster(deployment, "daemonsets", "--all-namespaces")}
    assert {"splitserve-nvidia-device-plugin", "splitserve-efa-device-plugin", "splitserve-dcgm-exporter"} <= daemons
    again = deployment.up(on_cpu)
    assert again.code == 0, again.text
    assert all(word not in again.text for word in ("created", "updated", "deleted", "replaced")), again.text
    seen = deployment.run("preview", "--policy-pack", "policies", "--config-file", str(deployment.stack_file(on_cpu)))
    assert seen.code == 0 and "unchanged" in seen.text and "create" not in seen.text, seen.text


def test_without_capacity_the_candidate_is_removed_and_the_live_release_untouched(stack: Simulated) -> None:
    aws, deployment = stack
    before, groups = deployment.outputs(), node_groups(aws)
    with aws.failing({"kind": "insufficient-capacity", "match": LARGER}):
        finished = deployment.up(on_cpu, another_instance)
    assert finished.code == 1
    for words in (
        "no-nodes",
        "InsufficientInstanceCapacity",
        LARGER,
        "run `pulumi up` again when the zone has capacity",
    ):
        assert words in finished.text, finished.text
    after = deployment.outputs()
    assert (after["live"], after["endpoint"]) == (before["live"], before["endpoint"])
    still = node_groups(aws)
    assert {name: still[name] for name in groups} == groups
    assert [size for kind, size in still.values() if kind == LARGER] == [0, 0], "the candidate's nodes cost nothing"
    deployments = in_cluster(deployment, "deployments", "-n", deployment.namespace)
    running = {item["metadata"]["name"]: item["spec"]["replicas"] for item in deployments}
    assert all(count == (1 if name.endswith(before["live"]) else 0) for name, count in running.items()), running


def test_other_nodes_are_built_beside_the_live_ones_and_take_over(stack: Simulated) -> None:
    aws, deployment = stack
    live = deployment.outputs()["live"]
    finished = deployment.up(on_cpu, another_instance)
    assert finished.code == 0, finished.text
    outputs = deployment.outputs()
    assert outputs["verdict"] == "pass" and outputs["live"] != live
    assert sorted(node_groups(aws).values()) == [
        ("g6e.24xlarge", 0), ("g6e.24xlarge", 0), (LARGER, 1), (LARGER, 1),
    ]  # fmt: skip
    assert "replac" not in finished.text, "nothing under the live release may be replaced"


def test_nothing_is_left_after_a_destroy(stack: Simulated) -> None:
    aws, deployment = stack
    destroyed = deployment.run("destroy", "--yes", "--skip-preview", "--suppress-progress")
    assert destroyed.code == 0, destroyed.text
    assert aws.leftovers() == []
    assert in_cluster(deployment, "daemonsets", "--all-namespaces") == []
    assert json.loads(deployment.run("stack", "export").text)["deployment"].get("resources", []) == []


@pytest.fixture
def cluster(stack: Simulated) -> Iterator[Deployment]:
    """A second stack on the same stand-in, destroyed after what serves on it."""
    _, serving = stack
    found = replace(serving, stack="aws-cluster-test", namespace="splitserve-aws-cluster-test")
    assert found.run("stack", "init").code == 0
    yield found
    for one in (serving, found):
        destroyed = one.run("destroy", "--yes", "--skip-preview", "--suppress-progress")
        assert destroyed.code == 0, destroyed.text
    (CHECKOUT / "stacks" / f"Pulumi.{found.stack}.yaml").unlink(missing_ok=True)


def test_a_cluster_of_one_stack_serves_another_s_releases(stack: Simulated, cluster: Deployment) -> None:
    """Layers: the second stack learns of the cluster by stack reference alone, and leaves it as it is."""
    _, serving = stack
    made = cluster.up(cluster_alone)
    assert made.code == 0, made.text
    assert "gpu" in cluster.outputs()["nodePlugins"]["installed"]
    reference = serving_on("organization/splitserve/aws-cluster-test")
    served = serving.up(reference)
    assert served.code == 0, served.text
    outputs = serving.outputs()
    assert outputs["verdict"] == "pass"
    assert outputs["cluster"] == cluster.outputs()["cluster"]
    kinds = {r["type"] for r in json.loads(serving.run("stack", "export").text)["deployment"]["resources"]}
    assert "aws:eks/nodeGroup:NodeGroup" in kinds and not kinds & {"aws:eks/cluster:Cluster", "aws:ec2/vpc:Vpc"}
