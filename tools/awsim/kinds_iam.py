"""IAM roles and their policies."""

from __future__ import annotations

import json
from typing import Any

from tools.awsim.asking import Aws
from tools.awsim.kind import Kind, changed
from tools.awsim.properties import Properties, same
from tools.awsim.tagging import call_tagging, from_list

IAM = "iam"


def document(value: Any) -> Any:
    """A policy as text: Pulumi takes a JSON string or an object."""
    return json.dumps(value) if isinstance(value, dict) else value


class Role(Kind):
    token = "aws:iam/role:Role"
    service, create_action = IAM, "CreateRole"
    renames = {"name": "RoleName", "assumeRolePolicy": "AssumeRolePolicyDocument"}
    aside = frozenset({"forceDetachPolicies"})
    forces_new = frozenset({"name", "namePrefix", "path"})
    computed = ("arn", "createDate", "uniqueId", "name")
    defaults = {"path": "/", "maxSessionDuration": 3600}
    told = ("name", "assumeRolePolicy", "path", "description", "maxSessionDuration", "permissionsBoundary")
    name_input, prefix_input, name_length = "name", "namePrefix", 64
    tagging = call_tagging(IAM, "TagRole", "UntagRole", "RoleName", "TagKeys")

    def known_inputs(self, inputs: Properties) -> Properties:
        given = super().known_inputs(inputs)
        return {**given, "assumeRolePolicy": document(given.get("assumeRolePolicy"))}

    def identity(self, answer: dict[str, Any], inputs: Properties) -> str:
        return answer["Role"]["RoleName"]

    def update(self, aws: Aws, resource: str, old: Properties, new: Properties) -> None:
        if not same(old.get("assumeRolePolicy"), new.get("assumeRolePolicy")):
            aws.call(IAM, "UpdateAssumeRolePolicy", RoleName=resource, PolicyDocument=document(new["assumeRolePolicy"]))
        if changed(old, new, "description", "maxSessionDuration"):
            aws.call(IAM, "UpdateRole", RoleName=resource, Description=new.get("description", ""),
                     MaxSessionDuration=new.get("maxSessionDuration", 3600))  # fmt: skip
        if changed(old, new, "permissionsBoundary"):
            boundary = new.get("permissionsBoundary")
            if boundary:
                aws.call(IAM, "PutRolePermissionsBoundary", RoleName=resource, PermissionsBoundary=boundary)
            else:
                aws.call(IAM, "DeleteRolePermissionsBoundary", RoleName=resource)

    def read(self, aws: Aws, resource: str, known: Properties) -> Properties | None:
        answer = aws.found(IAM, "GetRole", RoleName=resource)
        if answer is None:
            return None
        role = answer["Role"]
        return {
            "name": role["RoleName"], "arn": role["Arn"], "path": role["Path"], "uniqueId": role["RoleId"],
            "createDate": role["CreateDate"].isoformat(), "description": role.get("Description") or None,
            "assumeRolePolicy": json.dumps(role["AssumeRolePolicyDocument"]),
            "maxSessionDuration": role.get("MaxSessionDuration"),
            "permissionsBoundary": role.get("PermissionsBoundary", {}).get("PermissionsBoundaryArn"),
            "tags": from_list(role.get("Tags")),
        }  # fmt: skip

    def delete(self, aws: Aws, resource: str, state: Properties) -> None:
        if state.get("forceDetachPolicies"):
            attached = aws.found(IAM, "ListAttachedRolePolicies", RoleName=resource) or {"AttachedPolicies": []}
            for policy in attached["AttachedPolicies"]:
                aws.remove(IAM, "DetachRolePolicy", RoleName=resource, PolicyArn=policy["PolicyArn"])
        aws.remove(IAM, "DeleteRole", RoleName=resource)


class RolePolicy(Kind):
    token = "aws:iam/rolePolicy:RolePolicy"
    service, create_action = IAM, "PutRolePolicy"
    renames = {"name": "PolicyName", "role": "RoleName", "policy": "PolicyDocument"}
    forces_new = frozenset({"name", "namePrefix", "role"})
    computed = ("name",)
    told = ("name", "role", "policy")
    name_input, prefix_input, name_length = "name", "namePrefix", 128

    def known_inputs(self, inputs: Properties) -> Properties:
        given = super().known_inputs(inputs)
        return {**given, "policy": document(given.get("policy"))}

    def identity(self, answer: dict[str, Any], inputs: Properties) -> str:
        return f"{inputs['role']}:{inputs['name']}"

    def update(self, aws: Aws, resource: str, old: Properties, new: Properties) -> None:
        role, _, name = resource.partition(":")
        aws.call(IAM, "PutRolePolicy", RoleName=role, PolicyName=name, PolicyDocument=document(new["policy"]))

    def read(self, aws: Aws, resource: str, known: Properties) -> Properties | None:
        role, _, name = resource.partition(":")
        answer = aws.found(IAM, "GetRolePolicy", RoleName=role, PolicyName=name)
        return answer and {"role": role, "name": name, "policy": json.dumps(answer["PolicyDocument"])}

    def delete(self, aws: Aws, resource: str, state: Properties) -> None:
        role, _, name = resource.partition(":")
        aws.remove(IAM, "DeleteRolePolicy", RoleName=role, PolicyName=name)


class RolePolicyAttachment(Kind):
    token = "aws:iam/rolePolicyAttachment:RolePolicyAttachment"
    service, create_action = IAM, "AttachRolePolicy"
    renames = {"role": "RoleName"}
    forces_new = frozenset({"role", "policyArn"})
    told = ("role", "policyArn")

    def identity(self, answer: dict[str, Any], inputs: Properties) -> str:
        return f"{inputs['role']}/{inputs['policyArn']}"

    def read(self, aws: Aws, resource: str, known: Properties) -> Properties | None:
        role, _, policy = resource.partition("/")
        answer = aws.found(IAM, "ListAttachedRolePolicies", RoleName=role)
        attached = [found["PolicyArn"] for found in (answer or {}).get("AttachedPolicies", [])]
        return {"role": role, "policyArn": policy} if policy in attached else None

    def delete(self, aws: Aws, resource: str, state: Properties) -> None:
        role, _, policy = resource.partition("/")
        aws.remove(IAM, "DetachRolePolicy", RoleName=role, PolicyArn=policy)


KINDS = (Role, RolePolicy, RolePolicyAttachment)
