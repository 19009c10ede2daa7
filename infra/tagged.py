"""What a stack made on AWS, found by the tag that all of it carries, or by its name where there is none.

Each service is asked itself: the Resource Groups Tagging API knows no IAM roles, and shows what is deleted for a
while (its reference, "Services that support the Resource Groups Tagging API").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from infra.aws_names import STACK_TAG, platform_name

Client = Callable[[str], Any]
Entry = dict[str, Any]
UNIQUE = re.compile(r"-[0-9a-f]{20,26}$")
"""What the AWS provider makes of a name prefix: time and counter."""
ENDING = ("deleted", "deleting", "pendingdeletion")
RULE_KINDS = {
    "ingress": "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule",
    "egress": "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule",
}
MOST_ARNS = 20
"""Of one DescribeTags (Elastic Load Balancing API reference)."""


@dataclass(frozen=True)
class Found:
    """`kind` is Pulumi's type, `id` Pulumi's id; `remove` are commands, in order."""

    kind: str
    id: str
    remove: tuple[str, ...]
    state: str = ""


@dataclass(frozen=True)
class Described:
    """A kind of EC2: the call, its answer's list and id, and the command that removes one."""

    kind: str
    call: str
    answer: str
    id: str
    remove: str
    filter: str = "Filters"


EC2 = (
    Described("natGateway:NatGateway", "describe_nat_gateways", "NatGateways", "NatGatewayId",
              "delete-nat-gateway --nat-gateway-id {id} && "
              "aws ec2 wait nat-gateway-deleted --nat-gateway-ids {id}", "Filter"),
    Described("vpcEndpoint:VpcEndpoint", "describe_vpc_endpoints", "VpcEndpoints", "VpcEndpointId",
              "delete-vpc-endpoints --vpc-endpoint-ids {id}"),
    Described("launchTemplate:LaunchTemplate", "describe_launch_templates", "LaunchTemplates", "LaunchTemplateId",
              "delete-launch-template --launch-template-id {id}"),
    Described("placementGroup:PlacementGroup", "describe_placement_groups", "PlacementGroups", "GroupName",
              "delete-placement-group --group-name {id}"),
    Described("securityGroup:SecurityGroup", "describe_security_groups", "SecurityGroups", "GroupId",
              "delete-security-group --group-id {id}"),
    Described("routeTable:RouteTable", "describe_route_tables", "RouteTables", "RouteTableId",
              "delete-route-table --route-table-id {id}"),
    Described("subnet:Subnet", "describe_subnets", "Subnets", "SubnetId", "delete-subnet --subnet-id {id}"),
    Described("eip:Eip", "describe_addresses", "Addresses", "AllocationId", "release-address --allocation-id {id}"),
    Described("internetGateway:InternetGateway", "describe_internet_gateways", "InternetGateways",
              "InternetGatewayId", "delete-internet-gateway --internet-gateway-id {id}"),
    Described("vpc:Vpc", "describe_vpcs", "Vpcs", "VpcId", "delete-vpc --vpc-id {id}"),
)  # fmt: skip
"""What is inside comes before what it is in."""


def find(client: Client, stack: str, routes: Iterable[tuple[str, str]], clusters: Iterable[str]) -> list[Found]:
    """All of the stack's, in an order in which it can be removed. `routes` are (table, destination) that
    may be there: routes have no tags. `clusters` are further ones, in which it may have node groups.
    Raises BotoCoreError or ClientError where AWS can't be asked."""
    ec2 = list(_ec2(client("ec2"), stack))
    return [
        *_routes(client("ec2"), routes), *_balancers(client("elbv2"), stack), *_eks(client("eks"), stack, clusters),
        *_rules(client("ec2"), stack), *_file_systems(client("fsx"), stack), *ec2, *_roles(client("iam"), stack),
        *_keys(client("kms"), stack), *_log_groups(client("logs"), stack), *_buckets(client("s3"), stack),
    ]  # fmt: skip


def _tags(entries: list[dict[str, str]] | None, key: str = "Key", value: str = "Value") -> dict[str, str]:
    return {entry[key]: entry[value] for entry in entries or []}


def _pages(client: Any, call: str, answer: str, **parameters: Any) -> Iterator[Any]:
    for page in client.get_paginator(call).paginate(**parameters):
        yield from page[answer]


def _ec2(ec2: Any, stack: str) -> Iterator[Found]:
    for kind in EC2:
        tagged = [{"Name": f"tag:{STACK_TAG}", "Values": [stack]}]
        for entry in getattr(ec2, kind.call)(**{kind.filter: tagged})[kind.answer]:
            if str(entry.get("State", "")).lower() not in ENDING:
                yield _described(kind, entry)


def _described(kind: Described, entry: Entry) -> Found:
    number = entry[kind.id]
    detach = (
        f"aws ec2 detach-internet-gateway --internet-gateway-id {number} --vpc-id {attached['VpcId']}"
        for attached in entry.get("Attachments", [])
    )
    remove = (*detach, f"aws ec2 {kind.remove.format(id=number)}")
    return Found(f"aws:ec2/{kind.kind}", number, remove, str(entry.get("State", "")))


def _rules(ec2: Any, stack: str) -> Iterator[Found]:
    tagged = [{"Name": f"tag:{STACK_TAG}", "Values": [stack]}]
    for entry in _pages(ec2, "describe_security_group_rules", "SecurityGroupRules", Filters=tagged):
        way = "egress" if entry["IsEgress"] else "ingress"
        number, kind = entry["SecurityGroupRuleId"], RULE_KINDS[way]
        remove = f"aws ec2 revoke-security-group-{way} --group-id {entry['GroupId']} --security-group-rule-ids {number}"
        yield Found(kind, number, (remove,))


def _routes(ec2: Any, routes: Iterable[tuple[str, str]]) -> Iterator[Found]:
    for table, destination in routes:
        there = [{"Name": "route-table-id", "Values": [table]}]
        for entry in ec2.describe_route_tables(Filters=there)["RouteTables"]:
            if any(route.get("DestinationCidrBlock") == destination for route in entry["Routes"]):
                remove = f"aws ec2 delete-route --route-table-id {table} --destination-cidr-block {destination}"
                yield Found("aws:ec2/route:Route", f"{table}_{destination}", (remove,))


def _eks(eks: Any, stack: str, clusters: Iterable[str]) -> Iterator[Found]:
    """What people, EKS or other stacks made in a cluster has no tag of this stack."""
    for name in sorted({platform_name(stack), *clusters}):
        try:
            cluster = eks.describe_cluster(name=name)["cluster"]
        except eks.exceptions.ResourceNotFoundException:
            continue
        inside = [*_node_groups(eks, name), *_addons(eks, name), *_pod_identities(eks, name)]
        if cluster["accessConfig"]["authenticationMode"] != "CONFIG_MAP":
            inside += _access_entries(eks, name)
        yield from (found for entry, found in inside if _own(entry, stack))
        if _own(cluster, stack):
            remove = _eks_removal("cluster", f"--name {name}", cluster)
            yield Found("aws:eks/cluster:Cluster", name, remove, cluster["status"])


def _own(entry: Entry, stack: str) -> bool:
    return entry.get("tags", {}).get(STACK_TAG) == stack


def _eks_removal(kind: str, where: str, entry: Entry) -> tuple[str, ...]:
    """EKS refuses to delete what it still makes, and what is protected."""
    active = f"aws eks wait {kind}-active {where}"
    unlock = f"aws eks update-cluster-config {where} --no-deletion-protection && {active}"
    first = [active] if entry["status"] == "CREATING" else []
    first += [unlock] if entry.get("deletionProtection") else []
    return (*first, f"aws eks delete-{kind} {where} && aws eks wait {kind}-deleted {where}")


def _node_groups(eks: Any, cluster: str) -> Iterator[tuple[Entry, Found]]:
    for name in _pages(eks, "list_nodegroups", "nodegroups", clusterName=cluster):
        entry = eks.describe_nodegroup(clusterName=cluster, nodegroupName=name)["nodegroup"]
        remove = _eks_removal("nodegroup", f"--cluster-name {cluster} --nodegroup-name {name}", entry)
        yield entry, Found("aws:eks/nodeGroup:NodeGroup", f"{cluster}:{name}", remove, entry["status"])


def _addons(eks: Any, cluster: str) -> Iterator[tuple[Entry, Found]]:
    for name in _pages(eks, "list_addons", "addons", clusterName=cluster):
        entry = eks.describe_addon(clusterName=cluster, addonName=name)["addon"]
        where = f"--cluster-name {cluster} --addon-name {name}"
        remove = f"aws eks delete-addon {where} && aws eks wait addon-deleted {where}"
        yield entry, Found("aws:eks/addon:Addon", f"{cluster}:{name}", (remove,), entry["status"])


def _pod_identities(eks: Any, cluster: str) -> Iterator[tuple[Entry, Found]]:
    for listed in _pages(eks, "list_pod_identity_associations", "associations", clusterName=cluster):
        number = listed["associationId"]
        entry = eks.describe_pod_identity_association(clusterName=cluster, associationId=number)["association"]
        remove = f"aws eks delete-pod-identity-association --cluster-name {cluster} --association-id {number}"
        yield entry, Found("aws:eks/podIdentityAssociation:PodIdentityAssociation", number, (remove,))


def _access_entries(eks: Any, cluster: str) -> Iterator[tuple[Entry, Found]]:
    for principal in _pages(eks, "list_access_entries", "accessEntries", clusterName=cluster):
        entry = eks.describe_access_entry(clusterName=cluster, principalArn=principal)["accessEntry"]
        remove = f"aws eks delete-access-entry --cluster-name {cluster} --principal-arn {principal}"
        yield entry, Found("aws:eks/accessEntry:AccessEntry", f"{cluster}:{principal}", (remove,))


def _balancers(elb: Any, stack: str) -> Iterator[Found]:
    balancers = [entry["LoadBalancerArn"] for entry in _pages(elb, "describe_load_balancers", "LoadBalancers")]
    own = _tagged_arns(elb, balancers, stack)
    for arn in own:
        for entry in elb.describe_listeners(LoadBalancerArn=arn)["Listeners"]:
            remove = f"aws elbv2 delete-listener --listener-arn {entry['ListenerArn']}"
            yield Found("aws:lb/listener:Listener", entry["ListenerArn"], (remove,))
    for arn in own:
        yield Found("aws:lb/loadBalancer:LoadBalancer", arn,
                    (f"aws elbv2 delete-load-balancer --load-balancer-arn {arn}",))  # fmt: skip
    targets = [entry["TargetGroupArn"] for entry in _pages(elb, "describe_target_groups", "TargetGroups")]
    for arn in _tagged_arns(elb, targets, stack):
        remove = f"aws elbv2 delete-target-group --target-group-arn {arn}"
        yield Found("aws:lb/targetGroup:TargetGroup", arn, (remove,))


def _tagged_arns(elb: Any, arns: list[str], stack: str) -> list[str]:
    own = []
    for start in range(0, len(arns), MOST_ARNS):
        described = elb.describe_tags(ResourceArns=arns[start : start + MOST_ARNS])["TagDescriptions"]
        own += [entry["ResourceArn"] for entry in described if _tags(entry["Tags"]).get(STACK_TAG) == stack]
    return own


def _roles(iam: Any, stack: str) -> Iterator[Found]:
    for entry in _pages(iam, "list_roles", "Roles"):
        name = entry["RoleName"]
        # One call a role: only those that the AWS provider can have named.
        if not UNIQUE.search(name) or _tags(iam.list_role_tags(RoleName=name)["Tags"]).get(STACK_TAG) != stack:
            continue
        attached = iam.list_attached_role_policies(RoleName=name)["AttachedPolicies"]
        own = iam.list_role_policies(RoleName=name)["PolicyNames"]
        remove = (
            *(f"aws iam detach-role-policy --role-name {name} --policy-arn {p['PolicyArn']}" for p in attached),
            *(f"aws iam delete-role-policy --role-name {name} --policy-name {policy}" for policy in own),
            f"aws iam delete-role --role-name {name}",
        )
        yield Found("aws:iam/role:Role", name, remove)


def _keys(kms: Any, stack: str) -> Iterator[Found]:
    """The alias by its name, since it has no tags."""
    for entry in _pages(kms, "list_aliases", "Aliases"):
        name = entry["AliasName"]
        if name == f"alias/{platform_name(stack)}-secrets":
            yield Found("aws:kms/alias:Alias", name, (f"aws kms delete-alias --alias-name {name}",))
    for entry in _pages(kms, "list_keys", "Keys"):
        number = entry["KeyId"]
        try:
            tags = _tags(kms.list_resource_tags(KeyId=number)["Tags"], "TagKey", "TagValue")
        except ClientError as error:
            if error.response["Error"]["Code"] != "AccessDeniedException":
                raise
            continue  # a policy of its own keeps us out; the stack's keys have none
        if tags.get(STACK_TAG) != stack:
            continue
        if kms.describe_key(KeyId=number)["KeyMetadata"]["KeyState"].lower() not in ENDING:
            remove = f"aws kms schedule-key-deletion --key-id {number} --pending-window-in-days 30"
            yield Found("aws:kms/key:Key", number, (remove,))


def _log_groups(logs: Any, stack: str) -> Iterator[Found]:
    """By name: EKS makes it again, without tags, if logs come late."""
    name = f"/aws/eks/{platform_name(stack)}/cluster"
    for entry in _pages(logs, "describe_log_groups", "logGroups", logGroupNamePrefix=name):
        if entry["logGroupName"] == name:
            remove = f"aws logs delete-log-group --log-group-name {name}"
            yield Found("aws:cloudwatch/logGroup:LogGroup", name, (remove,))


def _buckets(s3: Any, stack: str) -> Iterator[Found]:
    """By name: a bucket gets its tags in a call after its creation."""
    for entry in s3.list_buckets()["Buckets"]:
        name = entry["Name"]
        if UNIQUE.sub("", name) == f"{platform_name(stack)}-logs" and UNIQUE.search(name):
            yield Found("aws:s3/bucket:Bucket", name, (f"aws s3 rb s3://{name} --force",))


def _file_systems(fsx: Any, stack: str) -> Iterator[Found]:
    for entry in _pages(fsx, "describe_file_systems", "FileSystems"):
        if _tags(entry.get("Tags")).get(STACK_TAG) == stack and entry.get("Lifecycle", "").lower() not in ENDING:
            number = entry["FileSystemId"]
            remove = f"aws fsx delete-file-system --file-system-id {number}"
            yield Found("aws:fsx/lustreFileSystem:LustreFileSystem", number, (remove,), entry.get("Lifecycle", ""))
