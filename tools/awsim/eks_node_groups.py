"""EKS managed node groups.

https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html says what may not be in both the
node group and its launch template.
"""

from __future__ import annotations

from typing import Any

from tools.awsim import neighbours
from tools.awsim.eks_access import make_node_entry
from tools.awsim.eks_state import Cluster, Region, Thing, in_use, invalid, new_id, not_found, now, update
from tools.awsim.launch_rules import template_faults

DEFAULT_TYPES = ["t3.medium"]
NOT_WITH_TEMPLATE = {"diskSize": "Disk size must be specified within the launch template.",
                     "remoteAccess": "Remote access configuration cannot be specified with a launch template."}  # fmt: skip
IN_TEMPLATE_NOT_ALLOWED = ("IamInstanceProfile", "HibernationOptions", "InstanceMarketOptions")


def create_nodegroup(region: Region, call: dict[str, Any]) -> dict[str, Any]:
    cluster = region.active_cluster(call["name"])
    name = call["nodegroupName"]
    known = cluster.node_groups.get(name)
    if known and not known.gone:
        if known.token and known.token == call.get("clientRequestToken"):
            return {"nodegroup": _shown(known)}
        raise in_use(f"NodeGroup already exists with name {name} and cluster name {cluster.name}")
    neighbours.require_role(call["nodeRole"], "ec2.amazonaws.com", "The role")
    _require_network(region, cluster, call["subnets"])
    scaling = {"minSize": 1, "maxSize": 2, "desiredSize": 2, **call.get("scalingConfig", {})}
    _require_sizes(scaling)
    template, types, custom = _template(region, call)
    fields = {
        "nodegroupName": name, "nodegroupArn": region.arn("nodegroup", cluster.name, name, new_id()),
        "clusterName": cluster.name, "version": call.get("version", cluster.fields["version"]),
        "releaseVersion": call.get("releaseVersion", "" if custom else f"{cluster.fields['version']}.1-20251120"),
        "createdAt": now(), "modifiedAt": now(), "capacityType": call.get("capacityType", "ON_DEMAND"),
        "scalingConfig": scaling, "instanceTypes": types, "subnets": call["subnets"], "nodeRole": call["nodeRole"],
        "amiType": "CUSTOM" if custom else call.get("amiType", "AL2023_x86_64_STANDARD"),
        "labels": call.get("labels", {}), "taints": call.get("taints", []), "tags": call.get("tags", {}),
        "updateConfig": call.get("updateConfig", {"maxUnavailable": 1}),
        "nodeRepairConfig": call.get("nodeRepairConfig", {"enabled": False}),
        "resources": {"autoScalingGroups": [{"name": f"eks-{name}-{new_id()}"}]},
        **({"launchTemplate": template} if template else {"diskSize": call.get("diskSize", 20)}),
    }  # fmt: skip
    group = Thing(fields, token=call.get("clientRequestToken", ""))
    group.failure = _capacity_issue(region, name, fields)
    if not group.failure:
        neighbours.create_scaling_group(region.name, _scaling_group(group), fields)
    cluster.node_groups[name] = group
    make_node_entry(region, cluster, call["nodeRole"])
    return {"nodegroup": _shown(group)}


def _require_network(region: Region, cluster: Cluster, ids: list[str]) -> None:
    vpc = cluster.fields["resourcesVpcConfig"]["vpcId"]
    for subnet in neighbours.subnets(region.name, ids):
        if subnet.vpc_id != vpc:
            raise invalid(f"Subnet {subnet.id} is not in the cluster's VPC {vpc}")


def _require_sizes(scaling: dict[str, int]) -> None:
    if not scaling["minSize"] <= scaling["desiredSize"] <= scaling["maxSize"] or scaling["maxSize"] < 1:
        raise invalid(f"Minimum, desired and maximum capacity do not fit each other: {scaling}")


def _template(region: Region, call: dict[str, Any]) -> tuple[dict[str, Any] | None, list[str], bool]:
    """(launch template as answered, instance types, whether the template brings its own image)."""
    if "launchTemplate" not in call:
        return None, call.get("instanceTypes", DEFAULT_TYPES), False
    for key, message in NOT_WITH_TEMPLATE.items():
        if key in call:
            raise invalid(message)
    number, name, data = neighbours.launch_template_data(region.name, call["launchTemplate"])
    for key in IN_TEMPLATE_NOT_ALLOWED:
        if data.get(key) and not (key == "InstanceMarketOptions" and call.get("capacityType") == "CAPACITY_BLOCK"):
            raise invalid(f"Launch template {number} should not specify {key}.")
    if any("SubnetId" in interface for interface in data.get("NetworkInterfaces", [])):
        raise invalid("Launch template network interfaces should not specify a subnet; give subnets to the node group.")
    if data.get("InstanceType") and call.get("instanceTypes"):
        raise invalid("Instance types cannot be specified in both the launch template and the API request")
    types = [data["InstanceType"]] if data.get("InstanceType") else call.get("instanceTypes", DEFAULT_TYPES)
    for instance_type in types:
        faults = template_faults({**data, "InstanceType": instance_type}, region.name)
        if faults:
            raise invalid(f"Launch template {number} can't start {instance_type}: {'; '.join(faults)}")
    if data.get("ImageId") and call.get("amiType", "CUSTOM") != "CUSTOM":
        raise invalid("The AMI type can't be given where the launch template has an image")
    if data.get("ImageId") and (call.get("version") or call.get("releaseVersion")):
        raise invalid("You cannot specify the field version or releaseVersion when using a custom AMI.")
    version = str(call["launchTemplate"].get("version") or "$Default")
    return {"id": number, "name": name, "version": version}, types, bool(data.get("ImageId"))


def _capacity_issue(region: Region, name: str, fields: dict[str, Any]) -> list[dict[str, Any]]:
    """A group that wants no node launches none, and so lacks nothing."""
    wants = fields["scalingConfig"]["desiredSize"]
    missing = region.faults.capacity_fault(name, fields["instanceTypes"]) if wants else None
    if missing is None:
        return []
    message = (f"Could not launch On-Demand Instances. InsufficientInstanceCapacity - We currently do not have sufficient"
               f" {missing} capacity in the Availability Zone you requested. Launching EC2 instance failed.")  # fmt: skip
    resource = fields["resources"]["autoScalingGroups"][0]["name"]
    return [{"code": "AsgInstanceLaunchFailures", "message": message, "resourceIds": [resource]}]


def _scaling_group(group: Thing) -> str:
    return group.fields["resources"]["autoScalingGroups"][0]["name"]


def _shown(group: Thing) -> dict[str, Any]:
    issues = [] if group.busy else [*group.failure, *group.issues]
    return {**group.fields, "status": group.settled_status(), "health": {"issues": issues}}


def _find(region: Region, call: dict[str, Any]) -> tuple[Cluster, Thing]:
    cluster = region.cluster(call["name"])
    group = cluster.node_groups.get(call["nodegroupName"])
    if group is None or group.gone:
        raise not_found(f"No node group found for name: {call['nodegroupName']}.")
    return cluster, group


def describe_nodegroup(region: Region, call: dict[str, Any]) -> dict[str, Any]:
    return {"nodegroup": _shown(_find(region, call)[1])}


def list_nodegroups(region: Region, call: dict[str, Any]) -> dict[str, Any]:
    groups = region.cluster(call["name"]).node_groups
    return {"nodegroups": sorted(name for name, group in groups.items() if not group.gone)}


def _changeable(group: Thing) -> None:
    if group.busy:
        raise in_use("Nodegroup cannot be updated as it is currently not in Active State")
    if group.settled_status() == "CREATE_FAILED":
        raise in_use("Nodegroup cannot be updated as it is currently in CREATE_FAILED State")


def update_nodegroup_config(region: Region, call: dict[str, Any]) -> dict[str, Any]:
    cluster, group = _find(region, call)
    _changeable(group)
    fields = group.fields
    labels, taints = call.get("labels", {}), call.get("taints", {})
    removed = labels.get("removeLabels", [])
    kept = {key: value for key, value in fields["labels"].items() if key not in removed}
    fields["labels"] = {**kept, **labels.get("addOrUpdateLabels", {})}
    dropped = [*taints.get("removeTaints", []), *taints.get("addOrUpdateTaints", [])]
    places = {(taint["key"], taint["effect"]) for taint in dropped}
    fields["taints"] = [taint for taint in fields["taints"] if (taint["key"], taint["effect"]) not in places]
    fields["taints"] += taints.get("addOrUpdateTaints", [])
    if "scalingConfig" in call:
        scaling = {**fields["scalingConfig"], **call["scalingConfig"]}
        _require_sizes(scaling)
        fields["scalingConfig"] = scaling
        group.issues = _capacity_issue(region, call["nodegroupName"], fields)
        group.failed_status = "DEGRADED"
        if not group.issues:
            neighbours.resize_scaling_group(region.name, _scaling_group(group), scaling)
    fields.update({key: call[key] for key in ("updateConfig", "nodeRepairConfig") if key in call}, modifiedAt=now())
    group.change("UPDATING")
    return update(cluster, "ConfigUpdate", {key: call.get(key) for key in ("labels", "taints", "scalingConfig")})


def update_nodegroup_version(region: Region, call: dict[str, Any]) -> dict[str, Any]:
    cluster, group = _find(region, call)
    _changeable(group)
    if "launchTemplate" in call:
        if "launchTemplate" not in group.fields:
            raise invalid("The node group was made without a launch template")
        old = group.fields["launchTemplate"]["id"]
        number, name, data = neighbours.launch_template_data(region.name, call["launchTemplate"])
        if number != old:
            raise invalid("The launch template of a node group can't be replaced by another, only its version")
        for instance_type in group.fields["instanceTypes"]:
            faults = template_faults({**data, "InstanceType": instance_type}, region.name)
            if faults:
                raise invalid(f"Launch template {number} can't start {instance_type}: {'; '.join(faults)}")
        version = str(call["launchTemplate"].get("version") or "$Default")
        group.fields["launchTemplate"] = {"id": number, "name": name, "version": version}
    group.fields.update({key: call[key] for key in ("version", "releaseVersion") if key in call}, modifiedAt=now())
    group.change("UPDATING")
    return update(cluster, "VersionUpdate", {key: call.get(key) for key in ("version", "releaseVersion")})


def delete_nodegroup(region: Region, call: dict[str, Any]) -> dict[str, Any]:
    _, group = _find(region, call)
    if group.status != "DELETING":
        neighbours.delete_scaling_group(region.name, _scaling_group(group))
        group.failure = []
        group.change("DELETING")
    return {"nodegroup": _shown(group)}
