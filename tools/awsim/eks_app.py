"""The EKS stand-in's table of operations: parameters are checked by botocore's model, then answered."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tools.awsim import eks_access, eks_addons, eks_clusters, eks_node_groups, eks_tags, neighbours
from tools.awsim.account_facts import cluster_versions
from tools.awsim.eks_state import Refused, Region
from tools.awsim.fault_rules import Faults
from tools.awsim.shapes import faults, input_shape
from tools.awsim.wire import Answer, Call, refusal

Operation = Callable[[Region, dict[str, Any]], dict[str, Any]]
OPERATIONS: dict[str, Operation] = {
    "CreateCluster": eks_clusters.create_cluster,
    "DescribeCluster": eks_clusters.describe_cluster,
    "ListClusters": eks_clusters.list_clusters,
    "UpdateClusterConfig": eks_clusters.update_cluster_config,
    "UpdateClusterVersion": eks_clusters.update_cluster_version,
    "AssociateEncryptionConfig": eks_clusters.associate_encryption_config,
    "DescribeUpdate": eks_clusters.describe_update,
    "DeleteCluster": eks_clusters.delete_cluster,
    "DescribeClusterVersions": lambda _region, _call: cluster_versions(),
    "CreateNodegroup": eks_node_groups.create_nodegroup,
    "DescribeNodegroup": eks_node_groups.describe_nodegroup,
    "ListNodegroups": eks_node_groups.list_nodegroups,
    "UpdateNodegroupConfig": eks_node_groups.update_nodegroup_config,
    "UpdateNodegroupVersion": eks_node_groups.update_nodegroup_version,
    "DeleteNodegroup": eks_node_groups.delete_nodegroup,
    "CreateAddon": eks_addons.create_addon,
    "DescribeAddon": eks_addons.describe_addon,
    "ListAddons": eks_addons.list_addons,
    "UpdateAddon": eks_addons.update_addon,
    "DeleteAddon": eks_addons.delete_addon,
    "DescribeAddonVersions": eks_addons.describe_addon_versions,
    "CreateAccessEntry": eks_access.create_access_entry,
    "DescribeAccessEntry": eks_access.describe_access_entry,
    "UpdateAccessEntry": eks_access.update_access_entry,
    "DeleteAccessEntry": eks_access.delete_access_entry,
    "ListAccessEntries": eks_access.list_access_entries,
    "ListAccessPolicies": eks_access.list_access_policies,
    "AssociateAccessPolicy": eks_access.associate_access_policy,
    "DisassociateAccessPolicy": eks_access.disassociate_access_policy,
    "ListAssociatedAccessPolicies": eks_access.list_associated_access_policies,
    "CreatePodIdentityAssociation": eks_access.create_pod_identity_association,
    "DescribePodIdentityAssociation": eks_access.describe_pod_identity_association,
    "UpdatePodIdentityAssociation": eks_access.update_pod_identity_association,
    "DeletePodIdentityAssociation": eks_access.delete_pod_identity_association,
    "ListPodIdentityAssociations": eks_access.list_pod_identity_associations,
    "TagResource": eks_tags.tag_resource,
    "UntagResource": eks_tags.untag_resource,
    "ListTagsForResource": eks_tags.list_tags_for_resource,
}


class Eks:
    """EKS of every region, as one process remembers it."""

    def __init__(self, rules: Faults, endpoint: str | None = None, authority: str | None = None) -> None:
        self._faults = rules
        self._endpoint = endpoint
        self._authority = authority
        self.regions: dict[str, Region] = {}

    def region(self, name: str) -> Region:
        if name not in self.regions:
            self.regions[name] = Region(name, self._faults, self._endpoint, self._authority)
        return self.regions[name]

    def reset(self) -> None:
        self.regions.clear()

    def answer(self, call: Call) -> Answer:
        """The call's answer, or its refusal in EKS's protocol."""
        try:
            content = self._perform(call)
        except Refused as refused:
            return refusal("eks", refused.status, refused.code, refused.message)
        return Answer(200, {"Content-Type": "application/json"}, json.dumps(content).encode())

    def _perform(self, call: Call) -> dict[str, Any]:
        operation = OPERATIONS.get(call.action)
        if operation is None:
            raise Refused("UnknownOperationException", f"the stand-in has no {call.action}", 404)
        shape = input_shape("eks", call.action)
        named = {_member(shape, key): _typed(value) for key, value in call.parameters.items()}
        wrong = list(faults(named, shape))
        if wrong:
            raise Refused("InvalidParameterException", "; ".join(wrong))
        region = self.region(call.region)
        region.caller = neighbours.caller_arn(call.access_key, call.region)
        if "clusterName" in named and "name" not in named:
            named["name"] = named["clusterName"]
        return operation(region, named)


def _member(shape: Any, wire_name: str) -> str:
    """The member of a wire name: `name` in the path is `clusterName` for most operations."""
    for name, member in shape.members.items():
        if member.serialization.get("name", name) == wire_name:
            return name
    return wire_name


def _typed(value: Any) -> Any:
    """Query parameters are text; numbers and booleans among them (maxResults, preserve) are not."""
    if value in ("true", "false"):
        return value == "true"
    return int(value) if isinstance(value, str) and value.isdigit() and len(value) <= 4 else value
