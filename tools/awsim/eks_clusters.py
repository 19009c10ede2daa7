"""EKS clusters: create, describe, configure, delete."""

from __future__ import annotations

import secrets
from typing import Any

from tools.awsim import neighbours
from tools.awsim.eks_access import make_creator_admin
from tools.awsim.eks_state import Cluster, Refused, Region, in_use, invalid, new_id, not_found, now, update

DEFAULT_VERSION = "1.34"
ENTRY_MODES = ("API", "API_AND_CONFIG_MAP")
LOG_TYPES = ("api", "audit", "authenticator", "controllerManager", "scheduler")
REPLACED_AT_ONCE = ("upgradePolicy", "zonalShiftConfig", "deletionProtection", "computeConfig", "storageConfig",
                    "remoteNetworkConfig", "controlPlaneScalingConfig")  # fmt: skip
"""What UpdateClusterConfig takes as it is."""


def create_cluster(region: Region, call: dict[str, Any]) -> dict[str, Any]:
    name = call["name"]
    known = region.clusters.get(name)
    if known and not known.gone:
        if known.token and known.token == call.get("clientRequestToken"):
            return {"cluster": shown(region, known)}
        raise in_use(f"Cluster already exists with name: {name}")
    neighbours.require_role(call["roleArn"], "eks.amazonaws.com", "Role with arn:")
    network = _network(region, name, call["resourcesVpcConfig"])
    access = {"bootstrapClusterCreatorAdminPermissions": True, "authenticationMode": "CONFIG_MAP",
              **call.get("accessConfig", {})}  # fmt: skip
    cluster = Cluster({
        "name": name, "arn": region.arn("cluster", name), "createdAt": now(), "platformVersion": "eks.1",
        "version": call.get("version", DEFAULT_VERSION), "roleArn": call["roleArn"],
        "endpoint": region.endpoint or f"https://{secrets.token_hex(16).upper()}.gr7.{region.name}.eks.amazonaws.com",
        "certificateAuthority": {"data": region.authority or "Y2VydGlmaWNhdGU="},
        "identity": {"oidc": {"issuer": f"https://oidc.eks.{region.name}.amazonaws.com/id/{secrets.token_hex(16)}"}},
        "resourcesVpcConfig": network, "accessConfig": access, "logging": _logging(call.get("logging")),
        "kubernetesNetworkConfig": {"serviceIpv4Cidr": "172.20.0.0/16", "ipFamily": "ipv4",
                                    **call.get("kubernetesNetworkConfig", {})},
        "encryptionConfig": call.get("encryptionConfig", []), "tags": call.get("tags", {}),
        "upgradePolicy": {"supportType": "EXTENDED", **call.get("upgradePolicy", {})},
        "deletionProtection": call.get("deletionProtection", False), "health": {"issues": []},
        "bootstrapSelfManagedAddons": call.get("bootstrapSelfManagedAddons", True),
        **{key: call[key] for key in REPLACED_AT_ONCE if key in call and key not in ("upgradePolicy",)},
    }, token=call.get("clientRequestToken", ""))  # fmt: skip
    region.clusters[name] = cluster
    if access["bootstrapClusterCreatorAdminPermissions"]:
        make_creator_admin(region, cluster)
    return {"cluster": shown(region, cluster)}


def _network(region: Region, name: str, given: dict[str, Any]) -> dict[str, Any]:
    """Checked as EKS does (https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html)."""
    found = neighbours.subnets(region.name, given.get("subnetIds", []))
    vpcs = {subnet.vpc_id for subnet in found}
    if len(vpcs) > 1:
        raise invalid("Subnets must all belong to the same VPC")
    if len({subnet.availability_zone for subnet in found}) < 2:
        raise invalid("Subnets specified must be in at least two different AZs")
    if not given.get("endpointPublicAccess", True) and not given.get("endpointPrivateAccess", False):
        raise invalid("Private and public endpoint access cannot be false")
    neighbours.require_security_groups(region.name, given.get("securityGroupIds", []))
    vpc = vpcs.pop()
    return {
        "securityGroupIds": [], "endpointPublicAccess": True, "endpointPrivateAccess": False,
        "publicAccessCidrs": ["0.0.0.0/0"], **given, "vpcId": vpc,
        "clusterSecurityGroupId": neighbours.create_cluster_security_group(region.name, name, vpc),
    }  # fmt: skip


def _logging(given: dict[str, Any] | None) -> dict[str, Any]:
    enabled = sorted(
        t for part in (given or {}).get("clusterLogging", []) if part.get("enabled") for t in part["types"]
    )
    disabled = [t for t in LOG_TYPES if t not in enabled]
    parts = [{"types": types, "enabled": on} for types, on in ((enabled, True), (disabled, False)) if types]
    return {"clusterLogging": parts}


def shown(region: Region, cluster: Cluster) -> dict[str, Any]:
    hidden = "bootstrapSelfManagedAddons"
    fields = {key: value for key, value in cluster.fields.items() if key != hidden}
    return {**fields, "status": cluster.settled_status()}


def describe_cluster(region: Region, call: dict[str, Any]) -> dict[str, Any]:
    return {"cluster": shown(region, region.cluster(call["name"]))}


def list_clusters(region: Region, call: dict[str, Any]) -> dict[str, Any]:
    return {"clusters": sorted(name for name, cluster in region.clusters.items() if not cluster.gone)}


def update_cluster_config(region: Region, call: dict[str, Any]) -> dict[str, Any]:
    """One kind of change a call, as EKS demands."""
    cluster = region.active_cluster(call["name"])
    changes = {key: value for key, value in call.items() if key not in ("name", "clientRequestToken")}
    if len(changes) != 1:
        raise invalid("Only one type of update can be allowed.")
    [(key, value)] = changes.items()
    kind = {"resourcesVpcConfig": "VpcConfigUpdate", "logging": "LoggingUpdate", "accessConfig": "AccessConfigUpdate",
            "upgradePolicy": "UpgradePolicyUpdate", "deletionProtection": "DeletionProtectionUpdate"}  # fmt: skip
    if key == "resourcesVpcConfig":
        _change_network(region, cluster, value)
    elif key == "logging":
        cluster.fields["logging"] = _logging(value)
    elif key == "accessConfig":
        _change_access(cluster, value)
    elif key in REPLACED_AT_ONCE:
        old = cluster.fields.get(key)
        cluster.fields[key] = {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value
    else:
        raise invalid(f"{key} can't be changed")
    cluster.change("UPDATING")
    return update(cluster, kind.get(key, "ConfigUpdate"), changes)


def _change_network(region: Region, cluster: Cluster, value: dict[str, Any]) -> None:
    if "subnetIds" in value:
        found = neighbours.subnets(region.name, value["subnetIds"])
        if {subnet.vpc_id for subnet in found} != {cluster.fields["resourcesVpcConfig"]["vpcId"]}:
            raise invalid("Provided subnets belong to another VPC than the cluster's")
    neighbours.require_security_groups(region.name, value.get("securityGroupIds", []))
    merged = {**cluster.fields["resourcesVpcConfig"], **value}
    if not merged["endpointPublicAccess"] and not merged["endpointPrivateAccess"]:
        raise invalid("Private and public endpoint access cannot be false")
    cluster.fields["resourcesVpcConfig"] = merged


def _change_access(cluster: Cluster, value: dict[str, Any]) -> None:
    order = ["CONFIG_MAP", "API_AND_CONFIG_MAP", "API"]
    old, new = cluster.fields["accessConfig"]["authenticationMode"], value["authenticationMode"]
    if order.index(new) < order.index(old):
        raise invalid(f"Unsupported authentication mode update from {old} to {new}")
    cluster.fields["accessConfig"]["authenticationMode"] = new


def update_cluster_version(region: Region, call: dict[str, Any]) -> dict[str, Any]:
    cluster = region.active_cluster(call["name"])
    old, new = (int(text.split(".")[1]) for text in (cluster.fields["version"], call["version"]))
    if new != old + 1:
        raise invalid(
            f"Unsupported Kubernetes minor version update from {cluster.fields['version']} to {call['version']}"
        )
    cluster.fields["version"] = call["version"]
    cluster.change("UPDATING")
    return update(cluster, "VersionUpdate", {"Version": call["version"]})


def describe_update(region: Region, call: dict[str, Any]) -> dict[str, Any]:
    record = region.cluster(call["name"]).updates.get(call["updateId"])
    if record is None:
        raise not_found(f"No update found for ID: {call['updateId']}")
    return {"update": record}


def associate_encryption_config(region: Region, call: dict[str, Any]) -> dict[str, Any]:
    cluster = region.active_cluster(call["clusterName"] if "clusterName" in call else call["name"])
    if cluster.fields["encryptionConfig"]:
        raise invalid("Encryption config already exists")
    cluster.fields["encryptionConfig"] = call["encryptionConfig"]
    cluster.change("UPDATING")
    return update(cluster, "AssociateEncryptionConfig", {"EncryptionConfig": call["encryptionConfig"]})


def delete_cluster(region: Region, call: dict[str, Any]) -> dict[str, Any]:
    cluster = region.cluster(call["name"])
    if any(not group.gone for group in cluster.node_groups.values()):
        raise in_use("Cluster has nodegroups attached")
    if cluster.fields["deletionProtection"]:
        raise Refused("InvalidRequestException", "Cluster has deletion protection enabled; turn it off first")
    if cluster.status != "DELETING":
        for owned in (cluster.addons, cluster.access, cluster.policies, cluster.associations):
            owned.clear()
        neighbours.delete_security_group(region.name, cluster.fields["resourcesVpcConfig"]["clusterSecurityGroupId"])
        cluster.change("DELETING")
    return {"cluster": {**shown(region, cluster), "id": new_id()}}
