"""EKS: cluster and node groups."""

from __future__ import annotations

from typing import Any

from tools.awsim.asking import Aws, wait
from tools.awsim.kind import Kind, changed
from tools.awsim.properties import Properties
from tools.awsim.shapes import ConversionFault
from tools.awsim.tagging import call_tagging, own

EKS = "eks"
TAGGING = call_tagging(EKS, "TagResource", "UntagResource", "resourceArn", "tagKeys", tags="tags", form="map")


class Cluster(Kind):
    token = "aws:eks/cluster:Cluster"
    service, create_action = EKS, "CreateCluster"
    renames = {"vpcConfig": "resourcesVpcConfig"}
    aside = frozenset({"defaultAddonsToRemoves", "forceUpdateVersion"})
    forces_new = frozenset({
        "name", "roleArn", "bootstrapSelfManagedAddons", "accessConfig.bootstrapClusterCreatorAdminPermissions",
        "kubernetesNetworkConfig.serviceIpv4Cidr", "kubernetesNetworkConfig.ipFamily", "outpostConfig",
        "encryptionConfig.provider", "encryptionConfig.resources",
    })  # fmt: skip
    computed = ("arn", "endpoint", "certificateAuthority", "clusterId", "createdAt",
                "identities", "platformVersion", "status", "version", "vpcConfig.clusterSecurityGroupId",
                "vpcConfig.vpcId", "kubernetesNetworkConfig.serviceIpv4Cidr")  # fmt: skip
    defaults = {"deletionProtection": False, "bootstrapSelfManagedAddons": True}
    told = ("name", "roleArn", "version", "vpcConfig", "accessConfig", "enabledClusterLogTypes", "deletionProtection")
    name_input, name_length = "name", 100
    tagging = TAGGING

    def known_inputs(self, inputs: Properties) -> Properties:
        given = super().known_inputs(inputs)
        types = given.pop("enabledClusterLogTypes", None)
        if types:
            given["logging"] = {"clusterLogging": [{"types": types, "enabled": True}]}
        network = given.get("vpcConfig")
        if isinstance(network, dict) and network.keys() & {"vpcId", "clusterSecurityGroupId"}:
            raise ConversionFault("vpcConfig: vpcId and clusterSecurityGroupId are outputs")
        return given

    def identity(self, answer: dict[str, Any], inputs: Properties) -> str:
        return answer["cluster"]["name"]

    def tagged(self, resource: str, state: Properties) -> str:
        return state["arn"]

    def settle(self, aws: Aws, resource: str, inputs: Properties) -> None:
        def state() -> str:
            found = aws.found(EKS, "DescribeCluster", name=resource)
            return found["cluster"]["status"] if found else ""

        wait(f"EKS cluster {resource}", state, "ACTIVE", ("FAILED", "DELETING", ""))

    def update(self, aws: Aws, resource: str, old: Properties, new: Properties) -> None:
        """One kind of change a call, each waited for."""
        if changed(old, new, "version") and "version" in new:
            aws.call(EKS, "UpdateClusterVersion", name=resource, version=new["version"])
            self.settle(aws, resource, new)
        for change in self._changes(old, new):
            aws.call(EKS, "UpdateClusterConfig", name=resource, **change)
            self.settle(aws, resource, new)
        if "encryptionConfig" in new and "encryptionConfig" not in old:
            parameters = self.parameters({key: new[key] for key in ("encryptionConfig",)})
            aws.call(EKS, "AssociateEncryptionConfig", clusterName=resource, **parameters)
            self.settle(aws, resource, new)

    def _changes(self, old: Properties, new: Properties) -> list[dict[str, Any]]:
        changes: list[dict[str, Any]] = []
        network, before = dict(new.get("vpcConfig", {})), old.get("vpcConfig", {})
        groups = {key: network.pop(key) for key in ("subnetIds", "securityGroupIds") if key in network}
        access = {key: value for key, value in network.items() if before.get(key) != value}
        moved = any(before.get(key) != value for key, value in groups.items())
        changes += [{"resourcesVpcConfig": part} for part in (access, groups if moved else {}) if part]
        mode = new.get("accessConfig", {}).get("authenticationMode")
        if mode and mode != old.get("accessConfig", {}).get("authenticationMode"):
            changes.append({"accessConfig": {"authenticationMode": mode}})
        if changed(old, new, "enabledClusterLogTypes"):
            changes.append({"logging": _logging(new.get("enabledClusterLogTypes", []))})
        for key in ("upgradePolicy", "zonalShiftConfig", "deletionProtection"):
            if changed(old, new, key):
                changes.append({key: new.get(key, False if key == "deletionProtection" else {})})
        return changes

    def read(self, aws: Aws, resource: str, known: Properties) -> Properties | None:
        answer = aws.found(EKS, "DescribeCluster", name=resource)
        if answer is None or answer["cluster"]["status"] == "DELETING":
            return None
        found = answer["cluster"]
        authority = {"data": found["certificateAuthority"]["data"]}
        logs = [t for part in found["logging"]["clusterLogging"] if part["enabled"] for t in part["types"]]
        encryption = found.get("encryptionConfig") or []
        keys = ("name", "arn", "roleArn", "version", "endpoint", "status", "platformVersion", "accessConfig",
                "upgradePolicy", "kubernetesNetworkConfig", "deletionProtection", "zonalShiftConfig")  # fmt: skip
        return {
            **{key: found.get(key) for key in keys}, "createdAt": found["createdAt"].isoformat(), "clusterId": "",
            "certificateAuthority": authority,
            "identities": [{"oidcs": [{"issuer": found["identity"]["oidc"]["issuer"]}]}],
            "vpcConfig": found["resourcesVpcConfig"], "enabledClusterLogTypes": logs,
            **({"encryptionConfig": encryption[0]} if encryption else {}), "tags": own(found.get("tags")),
        }  # fmt: skip

    def delete(self, aws: Aws, resource: str, state: Properties) -> None:
        aws.remove(EKS, "DeleteCluster", name=resource)
        _wait_gone(f"EKS cluster {resource}", lambda: aws.found(EKS, "DescribeCluster", name=resource))


def _logging(enabled: list[str]) -> dict[str, Any]:
    every = ("api", "audit", "authenticator", "controllerManager", "scheduler")
    off = [kind for kind in every if kind not in enabled]
    parts = [{"types": types, "enabled": on} for types, on in ((enabled, True), (off, False)) if types]
    return {"clusterLogging": parts}


def _wait_gone(what: str, find: Any) -> None:
    wait(what, lambda: "there" if find() else "gone", "gone")


class NodeGroup(Kind):
    token = "aws:eks/nodeGroup:NodeGroup"
    service, create_action = EKS, "CreateNodegroup"
    renames = {"nodeRoleArn": "nodeRole", "subnetIds": "subnets",
               "nodeRepairConfig.nodeRepairConfigOverrides": "nodeRepairConfigOverrides"}  # fmt: skip
    aside = frozenset({"forceUpdateVersion"})
    forces_new = frozenset({
        "clusterName", "nodeGroupName", "nodeGroupNamePrefix", "nodeRoleArn", "subnetIds", "amiType", "capacityType",
        "diskSize", "instanceTypes", "launchTemplate.id", "launchTemplate.name", "remoteAccess",
    })  # fmt: skip
    computed = ("arn", "status", "resources", "amiType", "capacityType", "diskSize", "instanceTypes", "version",
                "releaseVersion", "nodeGroupName")  # fmt: skip
    told = ("clusterName", "nodeGroupName", "nodeRoleArn", "subnetIds", "scalingConfig", "labels", "instanceTypes",
            "amiType", "capacityType", "launchTemplate")  # fmt: skip
    name_input, prefix_input, name_length = "nodeGroupName", "nodeGroupNamePrefix", 63
    tagging = TAGGING

    def identity(self, answer: dict[str, Any], inputs: Properties) -> str:
        return f"{inputs['clusterName']}:{answer['nodegroup']['nodegroupName']}"

    def tagged(self, resource: str, state: Properties) -> str:
        return state["arn"]

    def _find(self, aws: Aws, resource: str) -> dict[str, Any] | None:
        cluster, _, name = resource.partition(":")
        answer = aws.found(EKS, "DescribeNodegroup", clusterName=cluster, nodegroupName=name)
        return answer["nodegroup"] if answer else None

    def settle(self, aws: Aws, resource: str, inputs: Properties) -> None:
        def state() -> str:
            return (self._find(aws, resource) or {}).get("status", "")

        def why() -> str:
            issues = (self._find(aws, resource) or {}).get("health", {}).get("issues", [])
            return "; ".join(f"{issue['code']}: {issue['message']}" for issue in issues)

        failed = ("CREATE_FAILED", "DEGRADED", "DELETE_FAILED", "DELETING", "")
        wait(f"EKS node group {resource}", state, "ACTIVE", failed, why)

    def update(self, aws: Aws, resource: str, old: Properties, new: Properties) -> None:
        cluster, _, name = resource.partition(":")
        place = {"clusterName": cluster, "nodegroupName": name}
        config = self._config(old, new)
        if config:
            aws.call(EKS, "UpdateNodegroupConfig", **place, **config)
            self.settle(aws, resource, new)
        if changed(old, new, "version", "releaseVersion", "launchTemplate"):
            wanted = {key: new[key] for key in ("version", "releaseVersion") if key in new and changed(old, new, key)}
            if changed(old, new, "launchTemplate"):
                wanted["launchTemplate"] = {key: str(value) for key, value in new["launchTemplate"].items()}
            force = {"force": True} if new.get("forceUpdateVersion") else {}
            aws.call(EKS, "UpdateNodegroupVersion", **place, **wanted, **force)
            self.settle(aws, resource, new)

    def _config(self, old: Properties, new: Properties) -> dict[str, Any]:
        config: dict[str, Any] = {}
        if changed(old, new, "labels"):
            before, after = old.get("labels", {}), new.get("labels", {})
            config["labels"] = {"addOrUpdateLabels": {k: v for k, v in after.items() if before.get(k) != v},
                                "removeLabels": sorted(before.keys() - after.keys())}  # fmt: skip
        if changed(old, new, "taints"):
            before, after = old.get("taints", []), new.get("taints", [])
            places = [(taint["key"], taint["effect"]) for taint in after]
            config["taints"] = {
                "addOrUpdateTaints": [taint for taint in after if taint not in before],
                "removeTaints": [taint for taint in before if (taint["key"], taint["effect"]) not in places],
            }
        for key in ("scalingConfig", "updateConfig", "nodeRepairConfig"):
            if changed(old, new, key) and key in new:
                config[key] = new[key]
        return config

    def read(self, aws: Aws, resource: str, known: Properties) -> Properties | None:
        found = self._find(aws, resource)
        if found is None or found["status"] == "DELETING":
            return None
        groups = [{"name": group["name"]} for group in found["resources"].get("autoScalingGroups", [])]
        keys = ("clusterName", "status", "version", "releaseVersion", "capacityType", "scalingConfig", "instanceTypes",
                "amiType", "labels", "taints", "updateConfig", "nodeRepairConfig", "diskSize")  # fmt: skip
        template = found.get("launchTemplate")
        if template:
            kept = known.get("launchTemplate", {})
            template = {key: template[key] for key in ("id", "name", "version") if not kept or key in kept}
        return {
            **{key: found.get(key) for key in keys}, "launchTemplate": template, "arn": found["nodegroupArn"],
            "nodeGroupName": found["nodegroupName"], "nodeRoleArn": found["nodeRole"], "subnetIds": found["subnets"],
            "resources": [{"autoscalingGroups": groups, "remoteAccessSecurityGroupId": ""}],
            "tags": own(found.get("tags")),
        }  # fmt: skip

    def delete(self, aws: Aws, resource: str, state: Properties) -> None:
        cluster, _, name = resource.partition(":")
        aws.remove(EKS, "DeleteNodegroup", clusterName=cluster, nodegroupName=name)
        _wait_gone(f"EKS node group {resource}", lambda: self._find(aws, resource))


KINDS = (Cluster, NodeGroup)
