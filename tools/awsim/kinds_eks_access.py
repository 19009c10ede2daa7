"""EKS: add-ons, access entries and policies, pod identity."""

from __future__ import annotations

from typing import Any

from tools.awsim.asking import Aws, wait
from tools.awsim.kind import Kind, changed
from tools.awsim.kinds_eks import EKS, TAGGING
from tools.awsim.properties import Properties
from tools.awsim.tagging import own


class Addon(Kind):
    token = "aws:eks/addon:Addon"
    service, create_action = EKS, "CreateAddon"
    renames = {"resolveConflictsOnCreate": "resolveConflicts"}
    aside = frozenset({"resolveConflictsOnUpdate", "preserve"})
    forces_new = frozenset({"addonName", "clusterName", "namespaceConfig"})
    computed = ("arn", "addonVersion", "createdAt", "modifiedAt", "configurationValues")
    told = ("addonName", "clusterName", "addonVersion", "configurationValues", "serviceAccountRoleArn")
    tagging = TAGGING

    def identity(self, answer: dict[str, Any], inputs: Properties) -> str:
        return f"{inputs['clusterName']}:{inputs['addonName']}"

    def tagged(self, resource: str, state: Properties) -> str:
        return state["arn"]

    def _find(self, aws: Aws, resource: str) -> dict[str, Any] | None:
        cluster, _, name = resource.partition(":")
        answer = aws.found(EKS, "DescribeAddon", clusterName=cluster, addonName=name)
        return answer["addon"] if answer else None

    def settle(self, aws: Aws, resource: str, inputs: Properties) -> None:
        """DEGRADED is waited for, as Terraform does: an add-on of pods is so until there are nodes."""

        def state() -> str:
            return (self._find(aws, resource) or {}).get("status", "")

        def why() -> str:
            issues = (self._find(aws, resource) or {}).get("health", {}).get("issues", [])
            return "; ".join(f"{issue['code']}: {issue['message']}" for issue in issues)

        wait(f"EKS add-on {resource}", state, "ACTIVE", ("CREATE_FAILED", "UPDATE_FAILED", "DELETING", ""), why)

    def update(self, aws: Aws, resource: str, old: Properties, new: Properties) -> None:
        cluster, _, name = resource.partition(":")
        keys = ("addonVersion", "configurationValues", "serviceAccountRoleArn", "podIdentityAssociations")
        changes = {key: new[key] for key in keys if key in new and changed(old, new, key)}
        if not changes and not changed(old, new, *keys):
            return
        conflicts = new.get("resolveConflictsOnUpdate")
        aws.call(EKS, "UpdateAddon", clusterName=cluster, addonName=name, resolveConflicts=conflicts, **changes)
        self.settle(aws, resource, new)

    def read(self, aws: Aws, resource: str, known: Properties) -> Properties | None:
        found = self._find(aws, resource)
        if found is None or found["status"] == "DELETING":
            return None
        keys = ("addonName", "clusterName", "addonVersion", "configurationValues", "serviceAccountRoleArn")
        return {**{key: found.get(key) for key in keys}, "arn": found["addonArn"],
                "createdAt": found["createdAt"].isoformat(), "modifiedAt": found["modifiedAt"].isoformat(),
                "tags": own(found.get("tags"))}  # fmt: skip

    def delete(self, aws: Aws, resource: str, state: Properties) -> None:
        cluster, _, name = resource.partition(":")
        aws.remove(EKS, "DeleteAddon", clusterName=cluster, addonName=name, preserve=state.get("preserve"))
        wait(f"EKS add-on {resource}", lambda: "there" if self._find(aws, resource) else "gone", "gone")


class AccessEntry(Kind):
    token = "aws:eks/accessEntry:AccessEntry"
    service, create_action = EKS, "CreateAccessEntry"
    renames = {"userName": "username"}
    forces_new = frozenset({"clusterName", "principalArn", "type"})
    computed = ("accessEntryArn", "createdAt", "modifiedAt", "type", "userName", "kubernetesGroups")
    told = ("clusterName", "principalArn", "type", "kubernetesGroups", "userName")
    tagging = TAGGING

    def identity(self, answer: dict[str, Any], inputs: Properties) -> str:
        return f"{inputs['clusterName']}:{inputs['principalArn']}"

    def tagged(self, resource: str, state: Properties) -> str:
        return state["accessEntryArn"]

    def update(self, aws: Aws, resource: str, old: Properties, new: Properties) -> None:
        cluster, _, principal = resource.partition(":")
        if changed(old, new, "kubernetesGroups", "userName"):
            groups = new.get("kubernetesGroups", [])
            aws.call(EKS, "UpdateAccessEntry", clusterName=cluster, principalArn=principal, kubernetesGroups=groups,
                     username=new.get("userName"))  # fmt: skip

    def read(self, aws: Aws, resource: str, known: Properties) -> Properties | None:
        cluster, _, principal = resource.partition(":")
        answer = aws.found(EKS, "DescribeAccessEntry", clusterName=cluster, principalArn=principal)
        if answer is None:
            return None
        found = answer["accessEntry"]
        keys = ("clusterName", "principalArn", "type", "kubernetesGroups", "accessEntryArn")
        return {**{key: found.get(key) for key in keys}, "userName": found["username"],
                "createdAt": found["createdAt"].isoformat(), "modifiedAt": found["modifiedAt"].isoformat(),
                "tags": own(found.get("tags"))}  # fmt: skip

    def delete(self, aws: Aws, resource: str, state: Properties) -> None:
        cluster, _, principal = resource.partition(":")
        aws.remove(EKS, "DeleteAccessEntry", clusterName=cluster, principalArn=principal)


class AccessPolicyAssociation(Kind):
    token = "aws:eks/accessPolicyAssociation:AccessPolicyAssociation"
    service, create_action = EKS, "AssociateAccessPolicy"
    forces_new = frozenset({"accessScope", "clusterName", "policyArn", "principalArn"})
    computed = ("associatedAt", "modifiedAt")
    told = ("accessScope", "clusterName", "policyArn", "principalArn")

    def identity(self, answer: dict[str, Any], inputs: Properties) -> str:
        return "#".join((inputs["clusterName"], inputs["principalArn"], inputs["policyArn"]))

    def read(self, aws: Aws, resource: str, known: Properties) -> Properties | None:
        cluster, principal, policy = resource.split("#")
        place = {"clusterName": cluster, "principalArn": principal}
        answer = aws.found(EKS, "ListAssociatedAccessPolicies", **place) or {}
        for found in answer.get("associatedAccessPolicies", []):
            if found["policyArn"] == policy:
                return {**place, "policyArn": policy, "accessScope": found["accessScope"],
                        "associatedAt": found["associatedAt"].isoformat(),
                        "modifiedAt": found["modifiedAt"].isoformat()}  # fmt: skip
        return None

    def delete(self, aws: Aws, resource: str, state: Properties) -> None:
        cluster, principal, policy = resource.split("#")
        aws.remove(EKS, "DisassociateAccessPolicy", clusterName=cluster, principalArn=principal, policyArn=policy)


class PodIdentityAssociation(Kind):
    token = "aws:eks/podIdentityAssociation:PodIdentityAssociation"
    service, create_action = EKS, "CreatePodIdentityAssociation"
    forces_new = frozenset({"clusterName", "namespace", "serviceAccount"})
    computed = ("associationArn", "associationId", "externalId")
    told = ("clusterName", "namespace", "serviceAccount", "roleArn")
    tagging = TAGGING

    def identity(self, answer: dict[str, Any], inputs: Properties) -> str:
        return answer["association"]["associationId"]

    def tagged(self, resource: str, state: Properties) -> str:
        return state["associationArn"]

    def update(self, aws: Aws, resource: str, old: Properties, new: Properties) -> None:
        keys = ("roleArn", "disableSessionTags", "targetRoleArn")
        changes = {key: new[key] for key in keys if key in new and changed(old, new, key)}
        if changes:
            place = {"clusterName": new["clusterName"], "associationId": resource}
            aws.call(EKS, "UpdatePodIdentityAssociation", **place, **changes)

    def read(self, aws: Aws, resource: str, known: Properties) -> Properties | None:
        cluster, comma, number = resource.partition(",")  # an import: CLUSTER,ASSOCIATION
        place = {"clusterName": cluster, "associationId": number} if comma else {
            "clusterName": known["clusterName"], "associationId": resource}  # fmt: skip
        answer = aws.found(EKS, "DescribePodIdentityAssociation", **place)
        if answer is None:
            return None
        found = answer["association"]
        keys = ("clusterName", "namespace", "serviceAccount", "roleArn", "associationArn", "associationId",
                "targetRoleArn")  # fmt: skip
        return {**{key: found.get(key) for key in keys}, "externalId": found.get("externalId", ""),
                "disableSessionTags": found.get("disableSessionTags", False), "tags": own(found.get("tags"))}  # fmt: skip

    def delete(self, aws: Aws, resource: str, state: Properties) -> None:
        aws.remove(EKS, "DeletePodIdentityAssociation", clusterName=state["clusterName"], associationId=resource)


KINDS = (Addon, AccessEntry, AccessPolicyAssociation, PodIdentityAssociation)
