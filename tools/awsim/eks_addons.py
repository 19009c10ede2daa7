"""EKS add-ons."""

from __future__ import annotations

import json
import re
from typing import Any

from tools.awsim import neighbours
from tools.awsim.eks_state import Cluster, Refused, Region, Thing, in_use, invalid, new_id, not_found, now, update

VERSIONS = {
    "vpc-cni": ["v1.21.1-eksbuild.1", "v1.20.4-eksbuild.2"],
    "kube-proxy": ["v1.34.1-eksbuild.2", "v1.33.5-eksbuild.2"],
    "coredns": ["v1.12.4-eksbuild.1", "v1.12.2-eksbuild.4"],
    "eks-pod-identity-agent": ["v1.3.10-eksbuild.1", "v1.3.9-eksbuild.3"],
    "eks-node-monitoring-agent": ["v1.4.2-eksbuild.1"],
    "aws-ebs-csi-driver": ["v1.53.0-eksbuild.1"],
    "aws-efs-csi-driver": ["v2.1.15-eksbuild.1"],
    "aws-fsx-csi-driver": ["v1.7.0-eksbuild.1"],
    "aws-mountpoint-s3-csi-driver": ["v2.2.0-eksbuild.1"],
    "metrics-server": ["v0.8.0-eksbuild.5"],
    "amazon-cloudwatch-observability": ["v4.7.0-eksbuild.1"],
    "snapshot-controller": ["v8.3.0-eksbuild.3"],
}
"""A few real add-ons, each with versions of the usual form; the first is the default. Not AWS's list."""
NEEDS_NODES = ("coredns", "metrics-server", "aws-ebs-csi-driver")
"""Add-ons of Deployments: they are not ACTIVE before a node runs their pods."""
VERSION_FORM = re.compile(r"v\d+\.\d+\.\d+-eksbuild\.\d+")


def _status(cluster: Cluster, addon: Thing) -> tuple[str, list[dict[str, Any]]]:
    if addon.busy or addon.fields["addonName"] not in NEEDS_NODES:
        return addon.settled_status(), []
    ready = any(group.settled_status() == "ACTIVE" and group.fields["scalingConfig"]["desiredSize"]
                for group in cluster.node_groups.values())  # fmt: skip
    if ready:
        return addon.settled_status(), []
    issue = {"code": "InsufficientNumberOfReplicas", "resourceIds": [],
             "message": "The add-on is unhealthy because it doesn't have the desired number of replicas."}  # fmt: skip
    return "DEGRADED", [issue]


def _shown(cluster: Cluster, addon: Thing) -> dict[str, Any]:
    status, issues = _status(cluster, addon)
    return {"addon": {**addon.fields, "status": status, "health": {"issues": issues}}}


def _find(region: Region, call: dict[str, Any]) -> tuple[Cluster, Thing]:
    cluster = region.cluster(call["name"])
    addon = cluster.addons.get(call["addonName"])
    if addon is None or addon.gone:
        raise not_found(f"No addon: {call['addonName']} found in cluster: {call['name']}")
    return cluster, addon


def _require_values(call: dict[str, Any]) -> None:
    version, values = call.get("addonVersion"), call.get("configurationValues")
    if version and not VERSION_FORM.fullmatch(version):
        raise invalid(f"Addon version specified is not supported: {version}")
    if values:
        try:
            json.loads(values)
        except ValueError:
            if "\n" not in values and ":" not in values:
                raise invalid(
                    "ConfigurationValue provided in request is not supported: neither JSON nor YAML"
                ) from None
    if call.get("serviceAccountRoleArn"):
        neighbours.require_role(call["serviceAccountRoleArn"], "sts", "ServiceAccountRoleArn")
    for association in call.get("podIdentityAssociations", []):
        neighbours.require_role(association["roleArn"], "pods.eks.amazonaws.com", "Role")


def create_addon(region: Region, call: dict[str, Any]) -> dict[str, Any]:
    cluster = region.active_cluster(call["name"])
    name = call["addonName"]
    if name not in VERSIONS:
        raise invalid(f"Addon {name} specified is not supported")
    if name in cluster.addons and not cluster.addons[name].gone:
        raise in_use("Addon already exists.")
    _require_values(call)
    keep = ("serviceAccountRoleArn", "configurationValues", "namespaceConfig")
    addon = Thing({
        "addonName": name, "clusterName": cluster.name, "addonVersion": call.get("addonVersion", VERSIONS[name][0]),
        "addonArn": region.arn("addon", cluster.name, name, new_id()), "createdAt": now(), "modifiedAt": now(),
        "tags": call.get("tags", {}), **{key: call[key] for key in keep if key in call},
        "podIdentityAssociations": [_pod_arn(region, cluster, a) for a in call.get("podIdentityAssociations", [])],
    })  # fmt: skip
    cluster.addons[name] = addon
    return _shown(cluster, addon)


def _pod_arn(region: Region, cluster: Cluster, wanted: dict[str, Any]) -> str:
    """An add-on's associations are pod identity associations of the cluster, owned by the add-on."""
    number = "a-" + new_id().replace("-", "")[:17]
    arn = region.arn("podidentityassociation", cluster.name, number)
    cluster.associations[number] = {
        "clusterName": cluster.name, "namespace": "kube-system", "serviceAccount": wanted["serviceAccount"],
        "roleArn": wanted["roleArn"], "associationId": number, "associationArn": arn, "tags": {},
        "createdAt": now(), "modifiedAt": now(), "disableSessionTags": False,
    }  # fmt: skip
    return arn


def describe_addon(region: Region, call: dict[str, Any]) -> dict[str, Any]:
    return _shown(*_find(region, call))


def list_addons(region: Region, call: dict[str, Any]) -> dict[str, Any]:
    addons = region.cluster(call["name"]).addons
    return {"addons": sorted(name for name, addon in addons.items() if not addon.gone)}


def update_addon(region: Region, call: dict[str, Any]) -> dict[str, Any]:
    cluster, addon = _find(region, call)
    _require_values(call)
    keys = ("addonVersion", "serviceAccountRoleArn", "configurationValues")
    addon.fields.update({key: call[key] for key in keys if key in call}, modifiedAt=now())
    if "podIdentityAssociations" in call:
        _drop_associations(cluster, addon)
        arns = [_pod_arn(region, cluster, a) for a in call["podIdentityAssociations"]]
        addon.fields["podIdentityAssociations"] = arns
    addon.change("UPDATING")
    return update(cluster, "AddonUpdate", {key: call.get(key) for key in keys})


def _drop_associations(cluster: Cluster, addon: Thing) -> None:
    for arn in addon.fields["podIdentityAssociations"]:
        cluster.associations.pop(arn.rsplit("/", 1)[1], None)


def delete_addon(region: Region, call: dict[str, Any]) -> dict[str, Any]:
    cluster, addon = _find(region, call)
    if addon.status != "DELETING":
        _drop_associations(cluster, addon)
        addon.change("DELETING")
    return _shown(cluster, addon)


def describe_addon_versions(region: Region, call: dict[str, Any]) -> dict[str, Any]:
    name, version = call.get("addonName"), call.get("kubernetesVersion", "1.34")
    if name and name not in VERSIONS:
        raise Refused("ResourceNotFoundException", f"Addon {name} not found", 404)
    wanted = {name: VERSIONS[name]} if name else VERSIONS
    return {"addons": [
        {"addonName": addon, "publisher": "eks", "owner": "aws", "type": "", "addonVersions": [
            {"addonVersion": number, "architecture": ["amd64", "arm64"], "requiresConfiguration": False,
             "compatibilities": [{"clusterVersion": version, "platformVersions": ["*"], "defaultVersion": not index}]}
            for index, number in enumerate(versions)
        ]}
        for addon, versions in wanted.items()
    ]}  # fmt: skip
