"""EC2's security groups, placement groups and launch templates."""

from __future__ import annotations

from typing import Any

from tools.awsim.asking import Aws
from tools.awsim.kind import Kind, changed
from tools.awsim.properties import Properties
from tools.awsim.shapes import convert, input_shape
from tools.awsim.tagging import ec2_tagging, from_list

EC2 = "ec2"


class SecurityGroup(Kind):
    """Without inline rules. Terraform takes away the egress rule that AWS gives every new group."""

    token = "aws:ec2/securityGroup:SecurityGroup"
    service, create_action = EC2, "CreateSecurityGroup"
    renames = {"name": "GroupName"}
    aside = frozenset({"revokeRulesOnDelete"})
    forces_new = frozenset({"name", "namePrefix", "description", "vpcId"})
    computed = ("arn", "ownerId", "name", "vpcId")
    told = ("name", "description", "vpcId")
    name_input, prefix_input = "name", "namePrefix"
    tagging = ec2_tagging("security-group")

    def known_inputs(self, inputs: Properties) -> Properties:
        return {"description": "Managed by Pulumi", **super().known_inputs(inputs)}

    def identity(self, answer: dict[str, Any], inputs: Properties) -> str:
        return answer["GroupId"]

    def create(self, aws: Aws, inputs: Properties) -> str:
        resource = super().create(aws, inputs)
        everything = {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
        aws.remove(EC2, "RevokeSecurityGroupEgress", GroupId=resource, IpPermissions=[everything])
        return resource

    def read(self, aws: Aws, resource: str, known: Properties) -> Properties | None:
        answer = aws.found(EC2, "DescribeSecurityGroups", GroupIds=[resource])
        if not answer or not answer["SecurityGroups"]:
            return None
        group = answer["SecurityGroups"][0]
        owner = group.get("OwnerId")
        return {"name": group["GroupName"], "description": group["Description"], "vpcId": group.get("VpcId"),
                "ownerId": owner, "arn": f"arn:aws:ec2:{aws.region}:{owner}:security-group/{resource}",
                "tags": from_list(group.get("Tags"))}  # fmt: skip

    def delete(self, aws: Aws, resource: str, state: Properties) -> None:
        aws.remove(EC2, "DeleteSecurityGroup", GroupId=resource)


class Rule(Kind):
    """A rule of its own, by its rule id. Conversion makes one IpPermission of the flat inputs."""

    service = EC2
    aside = frozenset({"description"})
    forces_new = frozenset({"securityGroupId"})
    computed = ("arn", "securityGroupRuleId")
    told = ("securityGroupId", "ipProtocol", "fromPort", "toPort", "cidrIpv4", "cidrIpv6", "description",
            "referencedSecurityGroupId", "prefixListId")  # fmt: skip
    tagging = ec2_tagging("security-group-rule")
    revoke: str
    egress: bool
    SOURCES = {
        "cidrIpv4": ("IpRanges", "CidrIp"), "cidrIpv6": ("Ipv6Ranges", "CidrIpv6"),
        "referencedSecurityGroupId": ("UserIdGroupPairs", "GroupId"), "prefixListId": ("PrefixListIds", "PrefixListId"),
    }  # fmt: skip

    def known_inputs(self, inputs: Properties) -> Properties:
        given = super().known_inputs(inputs)
        permission = {key: given.pop(key) for key in ("ipProtocol", "fromPort", "toPort") if key in given}
        about = {"Description": inputs["description"]} if inputs.get("description") else {}
        for key, (member, name) in self.SOURCES.items():
            if key in given:
                permission[member] = [{name: given.pop(key), **about}]
        group = {"GroupId": given.pop("securityGroupId")} if "securityGroupId" in given else {}
        return {**given, **group, "IpPermissions": [permission]}

    def check(self, inputs: Properties) -> list[str]:
        sources = [key for key in self.SOURCES if key in inputs]
        wrong = [] if len(sources) == 1 else [f"need exactly one of {', '.join(self.SOURCES)}, found {sources}"]
        ports = [key for key in ("fromPort", "toPort") if key in inputs]
        if inputs.get("ipProtocol") == "-1" and ports:
            wrong.append("protocol -1 means all ports: fromPort and toPort can't be given")
        return [*wrong, *super().check(inputs)]

    def identity(self, answer: dict[str, Any], inputs: Properties) -> str:
        return answer["SecurityGroupRules"][0]["SecurityGroupRuleId"]

    def update(self, aws: Aws, resource: str, old: Properties, new: Properties) -> None:
        names = {"ipProtocol": "IpProtocol", "fromPort": "FromPort", "toPort": "ToPort", "cidrIpv4": "CidrIpv4",
                 "cidrIpv6": "CidrIpv6", "referencedSecurityGroupId": "ReferencedGroupId",
                 "prefixListId": "PrefixListId", "description": "Description"}  # fmt: skip
        if changed(old, new, *names):
            rule = {name: new[key] for key, name in names.items() if key in new}
            entry = {"SecurityGroupRuleId": resource, "SecurityGroupRule": rule}
            aws.call(EC2, "ModifySecurityGroupRules", GroupId=new["securityGroupId"], SecurityGroupRules=[entry])

    def read(self, aws: Aws, resource: str, known: Properties) -> Properties | None:
        answer = aws.found(EC2, "DescribeSecurityGroupRules", SecurityGroupRuleIds=[resource])
        found = [r for r in (answer or {}).get("SecurityGroupRules", []) if r["SecurityGroupRuleId"] == resource]
        if not found:
            return None
        rule = found[0]
        every = rule["IpProtocol"] == "-1"
        return {
            "securityGroupId": rule["GroupId"], "ipProtocol": rule["IpProtocol"], "securityGroupRuleId": resource,
            "fromPort": None if every else rule.get("FromPort"), "toPort": None if every else rule.get("ToPort"),
            "cidrIpv4": rule.get("CidrIpv4"), "cidrIpv6": rule.get("CidrIpv6"), "description": rule.get("Description"),
            "prefixListId": rule.get("PrefixListId"),
            "referencedSecurityGroupId": rule.get("ReferencedGroupInfo", {}).get("GroupId"),
            "arn": f"arn:aws:ec2:{aws.region}:{rule.get('GroupOwnerId')}:security-group-rule/{resource}",
            "tags": from_list(rule.get("Tags")),
        }  # fmt: skip

    def delete(self, aws: Aws, resource: str, state: Properties) -> None:
        aws.remove(EC2, self.revoke, GroupId=state["securityGroupId"], SecurityGroupRuleIds=[resource])


class IngressRule(Rule):
    token = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
    create_action = "AuthorizeSecurityGroupIngress"
    revoke, egress = "RevokeSecurityGroupIngress", False


class EgressRule(Rule):
    token = "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule"
    create_action = "AuthorizeSecurityGroupEgress"
    revoke, egress = "RevokeSecurityGroupEgress", True


class PlacementGroup(Kind):
    token = "aws:ec2/placementGroup:PlacementGroup"
    service, create_action = EC2, "CreatePlacementGroup"
    renames = {"name": "GroupName"}
    forces_new = frozenset({"name", "strategy", "partitionCount", "spreadLevel"})
    computed = ("arn", "placementGroupId", "partitionCount")
    told = ("name", "strategy")
    name_input = "name"
    tagging = ec2_tagging("placement-group")

    def identity(self, answer: dict[str, Any], inputs: Properties) -> str:
        return inputs["name"]

    def tagged(self, resource: str, state: Properties) -> str:
        return state["placementGroupId"]

    def read(self, aws: Aws, resource: str, known: Properties) -> Properties | None:
        answer = aws.found(EC2, "DescribePlacementGroups", GroupNames=[resource])
        groups = [g for g in (answer or {}).get("PlacementGroups", []) if g["GroupName"] == resource]
        if not groups:
            return None
        group = groups[0]
        return {"name": resource, "strategy": group["Strategy"], "placementGroupId": group.get("GroupId"),
                "partitionCount": group.get("PartitionCount"), "spreadLevel": group.get("SpreadLevel"),
                "arn": group.get("GroupArn") or f"arn:aws:ec2:{aws.region}:123456789012:placement-group/{resource}",
                "tags": from_list(group.get("Tags"))}  # fmt: skip

    def delete(self, aws: Aws, resource: str, state: Properties) -> None:
        aws.remove(EC2, "DeletePlacementGroup", GroupName=resource)


class LaunchTemplate(Kind):
    """Changed data become a new version; the template stays."""

    token = "aws:ec2/launchTemplate:LaunchTemplate"
    service, create_action = EC2, "CreateLaunchTemplate"
    renames = {
        "name": "LaunchTemplateName", "description": "VersionDescription",
        "LaunchTemplateData.vpcSecurityGroupIds": "SecurityGroupIds",
        "LaunchTemplateData.securityGroupNames": "SecurityGroups",
        "LaunchTemplateData.networkInterfaces.securityGroups": "Groups",
        "LaunchTemplateData.networkInterfaces.ipv4AddressCount": "SecondaryPrivateIpAddressCount",
    }  # fmt: skip
    TEMPLATE = frozenset({"name", "description"})
    aside = frozenset({"updateDefaultVersion", "defaultVersion"})
    forces_new = frozenset({"name", "namePrefix"})
    computed = ("arn", "latestVersion", "defaultVersion", "name")
    told = ("name", "description", "imageId", "instanceType")
    name_input, prefix_input, name_length = "name", "namePrefix", 125
    tagging = ec2_tagging("launch-template")

    def known_inputs(self, inputs: Properties) -> Properties:
        given = super().known_inputs(inputs)
        data = {key: value for key, value in given.items() if key not in self.TEMPLATE}
        for entry in data.get("tagSpecifications", []) if isinstance(data.get("tagSpecifications"), list) else []:
            if isinstance(entry, dict) and isinstance(entry.get("tags"), dict):
                specifications = [
                    {**s, "tags": [{"key": k, "value": v} for k, v in sorted(s.get("tags", {}).items())]}
                    for s in data["tagSpecifications"]
                ]
                data = {**data, "tagSpecifications": specifications}
                break
        return {**{key: given[key] for key in self.TEMPLATE if key in given}, "LaunchTemplateData": data}

    def identity(self, answer: dict[str, Any], inputs: Properties) -> str:
        return answer["LaunchTemplate"]["LaunchTemplateId"]

    def _data(self, inputs: Properties) -> dict[str, Any]:
        given = {key: value for key, value in self.known_inputs(inputs).items() if key not in ("name",)}
        return convert(given, input_shape(EC2, "CreateLaunchTemplateVersion"), self.renames)

    def recomputed(self, old: Properties, new: Properties) -> tuple[str, ...]:
        if not self._data_changed(old, new):
            return ()
        return ("latestVersion", "defaultVersion") if new.get("updateDefaultVersion") else ("latestVersion",)

    def _data_changed(self, old: Properties, new: Properties) -> bool:
        hidden = {"tags", "region", "name", "namePrefix", "updateDefaultVersion", "defaultVersion"}
        before, after = ({k: v for k, v in p.items() if k not in hidden} for p in (old, new))
        return before != after

    def update(self, aws: Aws, resource: str, old: Properties, new: Properties) -> None:
        version = None
        if self._data_changed(old, new):
            answer = aws.call(EC2, "CreateLaunchTemplateVersion", LaunchTemplateId=resource, **self._data(new))
            version = answer["LaunchTemplateVersion"]["VersionNumber"]
        wanted = version if new.get("updateDefaultVersion") else new.get("defaultVersion")
        if wanted:
            aws.call(EC2, "ModifyLaunchTemplate", LaunchTemplateId=resource, DefaultVersion=str(wanted))

    def read(self, aws: Aws, resource: str, known: Properties) -> Properties | None:
        answer = aws.found(EC2, "DescribeLaunchTemplates", LaunchTemplateIds=[resource])
        if not answer or not answer["LaunchTemplates"]:
            return None
        found = answer["LaunchTemplates"][0]
        return {"name": found["LaunchTemplateName"], "latestVersion": found["LatestVersionNumber"],
                "arn": f"arn:aws:ec2:{aws.region}:123456789012:launch-template/{resource}",
                "tags": from_list(found.get("Tags")),
                **({} if "defaultVersion" in known else {"defaultVersion": found["DefaultVersionNumber"]}),
                **self._latest(aws, resource)}  # fmt: skip

    def _latest(self, aws: Aws, resource: str) -> Properties:
        """The latest version's plain values, so that a refresh sees a version that somebody else made."""
        answer = aws.call(EC2, "DescribeLaunchTemplateVersions", LaunchTemplateId=resource, Versions=["$Latest"])
        if not answer["LaunchTemplateVersions"]:
            return {}
        version = answer["LaunchTemplateVersions"][0]
        data = version["LaunchTemplateData"]
        names = {"imageId": "ImageId", "instanceType": "InstanceType", "keyName": "KeyName"}
        return {"description": version.get("VersionDescription") or None,
                **{key: data.get(name) for key, name in names.items()}}  # fmt: skip

    def delete(self, aws: Aws, resource: str, state: Properties) -> None:
        aws.remove(EC2, "DeleteLaunchTemplate", LaunchTemplateId=resource)


KINDS = (SecurityGroup, IngressRule, EgressRule, PlacementGroup, LaunchTemplate)
