"""EKS access entries and their policies, and pod identity associations.

https://docs.aws.amazon.com/eks/latest/userguide/access-entries.html and …/pod-identities.html
"""

from __future__ import annotations

from typing import Any

from tools.awsim import neighbours
from tools.awsim.eks_state import Cluster, Refused, Region, in_use, invalid, new_id, not_found, now

POLICY_PREFIX = "arn:aws:eks::aws:cluster-access-policy/"
ADMIN_POLICY = POLICY_PREFIX + "AmazonEKSClusterAdminPolicy"
POLICIES = ("AmazonEKSAdminPolicy", "AmazonEKSAdminViewPolicy", "AmazonEKSAutoNodePolicy", "AmazonEKSClusterAdminPolicy",
            "AmazonEKSEditPolicy", "AmazonEKSViewPolicy")  # fmt: skip
"""Those of https://docs.aws.amazon.com/eks/latest/userguide/access-policy-permissions.html in common use."""
NODE_GROUPS = {"EC2_LINUX": ["system:nodes"], "EC2_WINDOWS": ["system:nodes"], "STANDARD": []}


def _cluster(region: Region, call: dict[str, Any]) -> Cluster:
    cluster = region.cluster(call["name"])
    mode = cluster.fields["accessConfig"]["authenticationMode"]
    if mode == "CONFIG_MAP":
        message = "The cluster's authentication mode must be set to one of [API, API_AND_CONFIG_MAP] to perform this operation."
        raise Refused("InvalidRequestException", message)
    return cluster


def _entry(cluster: Cluster, principal: str) -> dict[str, Any]:
    if principal not in cluster.access:
        raise not_found(f"The specified principalArn could not be found: {principal}")
    return cluster.access[principal]


def _new_entry(region: Region, cluster: Cluster, principal: str, kind: str, **more: Any) -> dict[str, Any]:
    name = principal.split(":", 5)[5]
    return {
        "clusterName": cluster.name, "principalArn": principal, "type": kind, "createdAt": now(), "modifiedAt": now(),
        "accessEntryArn": region.arn("access-entry", cluster.name, name, new_id()), "tags": {},
        "kubernetesGroups": NODE_GROUPS.get(kind, []),
        "username": "system:node:{{EC2PrivateDNSName}}" if kind.startswith("EC2") else principal, **more,
    }  # fmt: skip


def make_creator_admin(region: Region, cluster: Cluster) -> None:
    """What `bootstrapClusterCreatorAdminPermissions` does."""
    cluster.access[region.caller] = _new_entry(region, cluster, region.caller, "STANDARD")
    cluster.policies[region.caller] = {ADMIN_POLICY: _association(ADMIN_POLICY, {"type": "cluster", "namespaces": []})}


def make_node_entry(region: Region, cluster: Cluster, role: str) -> None:
    """EKS lets the nodes of a managed node group in by itself."""
    if cluster.fields["accessConfig"]["authenticationMode"] != "CONFIG_MAP":
        cluster.access.setdefault(role, _new_entry(region, cluster, role, "EC2_LINUX"))


def create_access_entry(region: Region, call: dict[str, Any]) -> dict[str, Any]:
    cluster = _cluster(region, call)
    principal, kind = call["principalArn"], call.get("type", "STANDARD")
    if principal in cluster.access:
        raise in_use("The specified access entry resource is already in use on this cluster.")
    if kind not in ("STANDARD", "EC2_LINUX", "EC2_WINDOWS", "FARGATE_LINUX", "EC2", "HYBRID_LINUX", "HYPERPOD_LINUX"):
        raise invalid(f"The specified type is invalid: {kind}")
    if kind != "STANDARD" and (call.get("kubernetesGroups") or call.get("username")):
        raise invalid(f"The type {kind} doesn't allow kubernetesGroups or username.")
    if any(group.startswith("system:") for group in call.get("kubernetesGroups", [])):
        raise invalid("The kubernetes group name must not start with system:")
    _require_principal(principal)
    given = {key: call[key] for key in ("kubernetesGroups", "username", "tags") if key in call}
    cluster.access[principal] = _new_entry(region, cluster, principal, kind, **given)
    return {"accessEntry": cluster.access[principal]}


def _require_principal(principal: str) -> None:
    iam = neighbours.backend("iam", "aws")
    known = {role.arn for role in iam.roles.values()} | {user.arn for user in iam.users.values()}
    if principal not in known and not principal.endswith(":user/moto") and not principal.endswith(":root"):
        raise invalid("The specified principalArn is invalid: invalid principal.")


def describe_access_entry(region: Region, call: dict[str, Any]) -> dict[str, Any]:
    return {"accessEntry": _entry(_cluster(region, call), call["principalArn"])}


def update_access_entry(region: Region, call: dict[str, Any]) -> dict[str, Any]:
    entry = _entry(_cluster(region, call), call["principalArn"])
    entry.update({key: call[key] for key in ("kubernetesGroups", "username") if key in call}, modifiedAt=now())
    return {"accessEntry": entry}


def delete_access_entry(region: Region, call: dict[str, Any]) -> dict[str, Any]:
    cluster = _cluster(region, call)
    _entry(cluster, call["principalArn"])
    del cluster.access[call["principalArn"]]
    cluster.policies.pop(call["principalArn"], None)
    return {}


def list_access_entries(region: Region, call: dict[str, Any]) -> dict[str, Any]:
    cluster = _cluster(region, call)
    policy = call.get("associatedPolicyArn")
    return {"accessEntries": sorted(p for p in cluster.access if not policy or policy in cluster.policies.get(p, {}))}


def list_access_policies(region: Region, call: dict[str, Any]) -> dict[str, Any]:
    return {"accessPolicies": [{"name": name, "arn": POLICY_PREFIX + name} for name in POLICIES]}


def _association(policy: str, scope: dict[str, Any]) -> dict[str, Any]:
    return {"policyArn": policy, "accessScope": scope, "associatedAt": now(), "modifiedAt": now()}


def associate_access_policy(region: Region, call: dict[str, Any]) -> dict[str, Any]:
    cluster = _cluster(region, call)
    principal, policy, scope = call["principalArn"], call["policyArn"], call["accessScope"]
    entry = _entry(cluster, principal)
    if not policy.startswith(POLICY_PREFIX) or policy.removeprefix(POLICY_PREFIX) not in POLICIES:
        raise not_found(f"The specified policyArn does not exist: {policy}")
    if entry["type"] != "STANDARD":
        raise invalid(f"Access policies can't be associated with an entry of type {entry['type']}")
    if scope.get("type") == "namespace" and not scope.get("namespaces"):
        raise invalid("The access scope type namespace needs namespaces")
    association = _association(policy, {"namespaces": [], **scope})
    cluster.policies.setdefault(principal, {})[policy] = association
    return {"clusterName": cluster.name, "principalArn": principal, "associatedAccessPolicy": association}


def disassociate_access_policy(region: Region, call: dict[str, Any]) -> dict[str, Any]:
    cluster = _cluster(region, call)
    _entry(cluster, call["principalArn"])
    if cluster.policies.get(call["principalArn"], {}).pop(call["policyArn"], None) is None:
        raise not_found(f"The specified policyArn is not associated: {call['policyArn']}")
    return {}


def list_associated_access_policies(region: Region, call: dict[str, Any]) -> dict[str, Any]:
    cluster = _cluster(region, call)
    _entry(cluster, call["principalArn"])
    found = cluster.policies.get(call["principalArn"], {})
    return {"clusterName": cluster.name, "principalArn": call["principalArn"],
            "associatedAccessPolicies": list(found.values())}  # fmt: skip


def create_pod_identity_association(region: Region, call: dict[str, Any]) -> dict[str, Any]:
    """Stricter than EKS in one point: the role must exist and trust pods.eks.amazonaws.com."""
    cluster = region.active_cluster(call["name"])
    place = (call["namespace"], call["serviceAccount"])
    if any((found["namespace"], found["serviceAccount"]) == place for found in cluster.associations.values()):
        raise in_use(f"Association already exists: {place[0]}/{place[1]}")
    neighbours.require_role(call["roleArn"], "pods.eks.amazonaws.com", "Role")
    number = new_id("a-").replace("-", "")[1:18]
    association = {
        "clusterName": cluster.name, "namespace": place[0], "serviceAccount": place[1], "roleArn": call["roleArn"],
        "associationId": f"a-{number}", "tags": call.get("tags", {}), "createdAt": now(), "modifiedAt": now(),
        "associationArn": region.arn("podidentityassociation", cluster.name, f"a-{number}"),
        "disableSessionTags": call.get("disableSessionTags", False),
        **{key: call[key] for key in ("targetRoleArn", "policy") if key in call},
    }  # fmt: skip
    cluster.associations[f"a-{number}"] = association
    return {"association": association}


def _pod_association(region: Region, call: dict[str, Any]) -> tuple[Cluster, dict[str, Any]]:
    cluster = region.cluster(call["name"])
    found = cluster.associations.get(call["associationId"])
    if found is None:
        raise not_found(f"Unable to find association {call['associationId']}")
    return cluster, found


def describe_pod_identity_association(region: Region, call: dict[str, Any]) -> dict[str, Any]:
    return {"association": _pod_association(region, call)[1]}


def update_pod_identity_association(region: Region, call: dict[str, Any]) -> dict[str, Any]:
    _, found = _pod_association(region, call)
    if "roleArn" in call:
        neighbours.require_role(call["roleArn"], "pods.eks.amazonaws.com", "Role")
    changed = {key: call[key] for key in ("roleArn", "disableSessionTags", "targetRoleArn", "policy") if key in call}
    found.update(changed, modifiedAt=now())
    return {"association": found}


def delete_pod_identity_association(region: Region, call: dict[str, Any]) -> dict[str, Any]:
    cluster, found = _pod_association(region, call)
    del cluster.associations[found["associationId"]]
    return {"association": found}


def list_pod_identity_associations(region: Region, call: dict[str, Any]) -> dict[str, Any]:
    keys = ("clusterName", "namespace", "serviceAccount", "associationArn", "associationId")
    wanted = {key: call[key] for key in ("namespace", "serviceAccount") if key in call}
    found = region.cluster(call["name"]).associations.values()
    return {"associations": [{key: a[key] for key in keys} for a in found if wanted.items() <= a.items()]}
