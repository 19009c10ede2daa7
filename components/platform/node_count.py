"""Start and stop GPU nodes for releases, as a Pulumi resource that answers and never breaks an update.

A candidate's node group is filled before its gate, and emptied when the gate refuses it; the node group
of a release that lost the traffic is emptied, too. EKS reports missing capacity on the node group's
health, minutes after it took the new size: that becomes an answer about the candidate.
Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_Issue.html.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from pulumi import Input, Output, ResourceOptions
from pulumi import Resource as AnyResource
from pulumi.dynamic import Resource

from components.platform.node_generation import NodeGeneration
from components.release.once import OnceProvider
from components.release.progress import engine_log

POLL_S = 5.0
RETRIES = Config(retries={"mode": "standard", "total_max_attempts": 10}, connect_timeout=10, read_timeout=30)
BUSY = ("CREATING", "UPDATING")
NO_CAPACITY = "InsufficientInstanceCapacity"
FATAL = ("AsgInstanceLaunchFailures", "Ec2LaunchTemplateNotFound", "Ec2LaunchTemplateVersionMismatch",
         "InsufficientFreeAddresses", "InstanceLimitExceeded", "NodeCreationFailure", "AccessDenied")  # fmt: skip


class NodeCountProvider(OnceProvider):
    """Sets sizes; deleting it changes nothing."""

    decides = ("wanted",)

    def unsettled(self, outputs: dict[str, Any], inputs: dict[str, Any]) -> bool:
        """Somebody else changed a size, or the last try did not get what it wanted."""
        found = inputs.get("found") or {}
        drifted = any(found.get(group, count) != count for group, count in inputs["wanted"].items())
        return drifted or bool(outputs.get("fault"))

    def run(self, props: dict[str, Any]) -> dict[str, Any]:
        return set_sizes(props)


class NodeCount(Resource, module="platform", name="NodeCount"):
    """`fault` is why the nodes are not there: None, or {group, code, message}."""

    fault: Output[dict[str, Any] | None]

    def __init__(self, name: str, inputs: dict[str, Input[Any]], opts: ResourceOptions | None = None) -> None:
        super().__init__(NodeCountProvider(), name, {**inputs, "fault": None}, opts)


def node_count_inputs(name: str, region: str, cluster: Input[str], wanted: Input[dict[str, int]],
                      found: dict[str, int], limit_s: int) -> dict[str, Input[Any]]:  # fmt: skip
    """`wanted` and `found` are nodes by node group; `limit_s` is how long nodes may take to start."""
    return {
        "releaseId": name,
        "region": region,
        "cluster": cluster,
        "wanted": wanted,
        "found": found,
        "limitS": limit_s,
    }


def set_sizes(props: dict[str, Any]) -> dict[str, Any]:
    """Set every size and wait for it. Returns {fault}."""
    eks = boto3.client("eks", region_name=props["region"], config=RETRIES)
    scaling = boto3.client("autoscaling", region_name=props["region"], config=RETRIES)
    deadline = time.monotonic() + float(props["limitS"])
    wanted = {group: int(count) for group, count in props["wanted"].items()}
    try:
        for group, count in wanted.items():
            _resize(eks, props["cluster"], group, count, deadline)
        for group, count in wanted.items():
            if fault := _wait(eks, scaling, props["cluster"], group, count, deadline):
                engine_log(f"node group {group}: {fault['code']}: {fault['message']}", warn=True)
                return {"fault": {"group": group, **fault}}
    except (BotoCoreError, ClientError) as error:
        return {"fault": {"group": "", "code": type(error).__name__, "message": str(error)}}
    return {"fault": None}


def sizes(region: str, cluster: str) -> dict[str, int]:
    """The nodes that each group of the cluster is set to."""
    eks = boto3.client("eks", region_name=region, config=RETRIES)
    pages = eks.get_paginator("list_nodegroups").paginate(clusterName=cluster)
    groups = [name for page in pages for name in page["nodegroups"]]
    return {group: _described(eks, cluster, group)["scalingConfig"]["desiredSize"] for group in groups}


def _described(eks: Any, cluster: str, group: str) -> dict[str, Any]:
    return eks.describe_nodegroup(clusterName=cluster, nodegroupName=group)["nodegroup"]


def _resize(eks: Any, cluster: str, group: str, count: int, deadline: float) -> None:
    try:
        current = _described(eks, cluster, group)["scalingConfig"]
    except eks.exceptions.ResourceNotFoundException:
        if count == 0:
            return  # a group that is gone has no nodes
        raise
    if current["desiredSize"] == count:
        return
    # EKS refuses a change while another one is under way, such as the stop of an update just before.
    while _described(eks, cluster, group)["status"] in BUSY and time.monotonic() < deadline:
        time.sleep(POLL_S)
    engine_log(f"node group {group}: from {current['desiredSize']} to {count} nodes")
    scaling = {"minSize": 0, "maxSize": max(current["maxSize"], count), "desiredSize": count}
    eks.update_nodegroup_config(clusterName=cluster, nodegroupName=group, scalingConfig=scaling)


def _wait(eks: Any, scaling: Any, cluster: str, group: str, count: int, deadline: float) -> dict[str, str] | None:
    """Until `count` nodes run, or EKS says why they don't."""
    while count:
        described = _described(eks, cluster, group)
        issues = described.get("health", {}).get("issues", [])
        for issue in issues:
            if issue["code"] in FATAL:
                code = NO_CAPACITY if NO_CAPACITY in issue.get("message", "") else issue["code"]
                return {"code": code, "message": issue.get("message", "")}
        if described["status"] == "ACTIVE" and _running(scaling, described) >= count:
            return None
        if time.monotonic() > deadline:
            told = [f"{issue['code']}: {issue.get('message', '')}" for issue in issues]
            running = f"{_running(scaling, described)} of {count} nodes run"
            return {"code": "TimedOut", "message": "; ".join([running, *told])}
        time.sleep(POLL_S)
    return None


def _running(scaling: Any, described: dict[str, Any]) -> int:
    names = [g["name"] for g in described.get("resources", {}).get("autoScalingGroups", [])]
    if not names:
        return 0
    groups = scaling.describe_auto_scaling_groups(AutoScalingGroupNames=names)["AutoScalingGroups"]
    return sum(entry["LifecycleState"] == "InService" for group in groups for entry in group["Instances"])


class EksNodes:
    """Node groups of one cluster: what a release switch asks of `components/release/nodes.Nodes`.

    `sizes` is the full size of each tier's groups, `found` what the groups are set to now; `prefix`
    begins the groups' names.
    """

    def __init__(self, region: str, cluster: Input[str], prefix: str, full: Mapping[str, int], found: dict[str, int],
                 limit_s: int, ready: Sequence[AnyResource]) -> None:  # fmt: skip
        self._region, self._cluster, self._prefix = region, cluster, prefix
        self._full, self._found, self._limit_s, self._ready = full, found, limit_s, ready

    def start(self, wanted: Mapping[str, int], opts: ResourceOptions) -> tuple[AnyResource, Output[str | None]]:
        started = self._count("nodes-start", dict(wanted), ResourceOptions.merge(opts, self._after()))
        return started, started.fault.apply(lambda fault: f"{fault['code']}: {fault['message']}" if fault else None)

    def stop(self, wanted: Input[Mapping[str, int]], opts: ResourceOptions) -> AnyResource:
        return self._count("nodes-stop", wanted, ResourceOptions.merge(opts, self._after()))

    def group(self, generation: Mapping[str, Any]) -> tuple[str, int]:
        found = NodeGeneration.from_json(dict(generation))
        return group_name(self._prefix, found), self._full.get(found.tier, 0)

    def _after(self) -> ResourceOptions:
        return ResourceOptions(depends_on=list(self._ready))

    def _count(self, name: str, wanted: Input[Any], opts: ResourceOptions) -> NodeCount:
        found = self._found if name == "nodes-start" else {}
        inputs = node_count_inputs(name, self._region, self._cluster, wanted, found, self._limit_s)
        return NodeCount(name, inputs, opts)


def group_name(prefix: str, generation: NodeGeneration) -> str:
    return f"{prefix}-{generation.name}"
