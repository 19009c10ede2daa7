"""EC2's network: VPC, subnets, gateways, routes, endpoints, security groups."""

from __future__ import annotations

import zlib
from typing import Any

from tools.awsim.asking import Aws, AwsError, wait
from tools.awsim.kind import Kind, changed
from tools.awsim.properties import Properties
from tools.awsim.tagging import ec2_tagging, from_list

EC2 = "ec2"


class Vpc(Kind):
    token = "aws:ec2/vpc:Vpc"
    service, create_action = EC2, "CreateVpc"
    renames = {"assignGeneratedIpv6CidrBlock": "AmazonProvidedIpv6CidrBlock"}
    aside = frozenset({"enableDnsHostnames", "enableDnsSupport", "enableNetworkAddressUsageMetrics"})
    forces_new = frozenset({"cidrBlock", "ipv4IpamPoolId", "ipv4NetmaskLength", "ipv6CidrBlock"})
    computed = ("arn", "defaultNetworkAclId", "defaultRouteTableId", "defaultSecurityGroupId", "dhcpOptionsId",
                "mainRouteTableId", "ownerId", "enableDnsHostnames", "enableDnsSupport", "instanceTenancy")  # fmt: skip
    defaults = {"enableDnsSupport": True, "instanceTenancy": "default"}
    told = ("cidrBlock", "enableDnsHostnames", "enableDnsSupport", "instanceTenancy")
    tagging = ec2_tagging("vpc")
    attributes = {"enableDnsSupport": "EnableDnsSupport", "enableDnsHostnames": "EnableDnsHostnames",
                  "enableNetworkAddressUsageMetrics": "EnableNetworkAddressUsageMetrics"}  # fmt: skip

    def identity(self, answer: dict[str, Any], inputs: Properties) -> str:
        return answer["Vpc"]["VpcId"]

    def settle(self, aws: Aws, resource: str, inputs: Properties) -> None:
        for key, name in self.attributes.items():
            if key in inputs:
                aws.call(EC2, "ModifyVpcAttribute", VpcId=resource, **{name: {"Value": inputs[key]}})

    def update(self, aws: Aws, resource: str, old: Properties, new: Properties) -> None:
        if old.get("instanceTenancy") != new.get("instanceTenancy"):
            raise AwsError("instanceTenancy can only change from dedicated to default; the stand-in does not do it")
        self.settle(aws, resource, {key: new[key] for key in self.attributes if key in new and changed(old, new, key)})

    def read(self, aws: Aws, resource: str, known: Properties) -> Properties | None:
        answer = aws.found(EC2, "DescribeVpcs", VpcIds=[resource])
        if not answer or not answer["Vpcs"]:
            return None
        vpc = answer["Vpcs"][0]
        inside = [{"Name": "vpc-id", "Values": [resource]}]
        main = aws.call(EC2, "DescribeRouteTables", Filters=[*inside, {"Name": "association.main", "Values": ["true"]}])
        groups = aws.call(
            EC2, "DescribeSecurityGroups", Filters=[*inside, {"Name": "group-name", "Values": ["default"]}]
        )
        acls = aws.call(EC2, "DescribeNetworkAcls", Filters=inside)
        table = main["RouteTables"][0]["RouteTableId"] if main["RouteTables"] else None
        switches = {
            key: aws.call(EC2, "DescribeVpcAttribute", VpcId=resource, Attribute=key)[name]["Value"]
            for key, name in list(self.attributes.items())[:2]
        }
        return {
            "cidrBlock": vpc["CidrBlock"], "instanceTenancy": vpc["InstanceTenancy"], "ownerId": vpc.get("OwnerId"),
            "dhcpOptionsId": vpc.get("DhcpOptionsId"), "mainRouteTableId": table, "defaultRouteTableId": table,
            "defaultSecurityGroupId": groups["SecurityGroups"][0]["GroupId"] if groups["SecurityGroups"] else None,
            "defaultNetworkAclId": next((a["NetworkAclId"] for a in acls["NetworkAcls"] if a["IsDefault"]), None),
            "arn": f"arn:aws:ec2:{aws.region}:{vpc.get('OwnerId')}:vpc/{resource}", **switches,
            "tags": from_list(vpc.get("Tags")),
        }  # fmt: skip

    def delete(self, aws: Aws, resource: str, state: Properties) -> None:
        aws.remove(EC2, "DeleteVpc", VpcId=resource)


class Subnet(Kind):
    token = "aws:ec2/subnet:Subnet"
    service, create_action = EC2, "CreateSubnet"
    aside = frozenset({"mapPublicIpOnLaunch", "enableResourceNameDnsARecordOnLaunch"})
    forces_new = frozenset({"vpcId", "cidrBlock", "availabilityZone", "availabilityZoneId", "ipv6Native"})
    computed = ("arn", "availabilityZone", "availabilityZoneId", "ownerId", "mapPublicIpOnLaunch")
    defaults = {"mapPublicIpOnLaunch": False}
    told = ("vpcId", "cidrBlock", "availabilityZone", "mapPublicIpOnLaunch")
    tagging = ec2_tagging("subnet")

    def identity(self, answer: dict[str, Any], inputs: Properties) -> str:
        return answer["Subnet"]["SubnetId"]

    def settle(self, aws: Aws, resource: str, inputs: Properties) -> None:
        for key, name in (
            ("mapPublicIpOnLaunch", "MapPublicIpOnLaunch"),
            ("enableResourceNameDnsARecordOnLaunch", "EnableResourceNameDnsARecordOnLaunch"),
        ):
            if key in inputs:
                aws.call(EC2, "ModifySubnetAttribute", SubnetId=resource, **{name: {"Value": inputs[key]}})

    def update(self, aws: Aws, resource: str, old: Properties, new: Properties) -> None:
        off = {key: False for key in self.aside if key in old and key not in new}
        self.settle(aws, resource, {**new, **off})

    def read(self, aws: Aws, resource: str, known: Properties) -> Properties | None:
        answer = aws.found(EC2, "DescribeSubnets", SubnetIds=[resource])
        if not answer or not answer["Subnets"]:
            return None
        subnet = answer["Subnets"][0]
        return {
            "vpcId": subnet["VpcId"], "cidrBlock": subnet["CidrBlock"], "ownerId": subnet.get("OwnerId"),
            "availabilityZone": subnet["AvailabilityZone"], "availabilityZoneId": subnet.get("AvailabilityZoneId"),
            "mapPublicIpOnLaunch": subnet.get("MapPublicIpOnLaunch", False), "arn": subnet.get("SubnetArn"),
            "tags": from_list(subnet.get("Tags")),
        }  # fmt: skip

    def delete(self, aws: Aws, resource: str, state: Properties) -> None:
        aws.remove(EC2, "DeleteSubnet", SubnetId=resource)


class InternetGateway(Kind):
    token = "aws:ec2/internetGateway:InternetGateway"
    service, create_action = EC2, "CreateInternetGateway"
    aside = frozenset({"vpcId"})
    computed = ("arn", "ownerId")
    told = ("vpcId",)
    tagging = ec2_tagging("internet-gateway")

    def identity(self, answer: dict[str, Any], inputs: Properties) -> str:
        return answer["InternetGateway"]["InternetGatewayId"]

    def settle(self, aws: Aws, resource: str, inputs: Properties) -> None:
        found = self.read(aws, resource, inputs) or {}
        if "vpcId" in inputs and found.get("vpcId") != inputs["vpcId"]:
            aws.call(EC2, "AttachInternetGateway", InternetGatewayId=resource, VpcId=inputs["vpcId"])

    def update(self, aws: Aws, resource: str, old: Properties, new: Properties) -> None:
        if changed(old, new, "vpcId") and "vpcId" in old:
            aws.remove(EC2, "DetachInternetGateway", InternetGatewayId=resource, VpcId=old["vpcId"])
        self.settle(aws, resource, new)

    def read(self, aws: Aws, resource: str, known: Properties) -> Properties | None:
        answer = aws.found(EC2, "DescribeInternetGateways", InternetGatewayIds=[resource])
        if not answer or not answer["InternetGateways"]:
            return None
        gateway = answer["InternetGateways"][0]
        attached = gateway.get("Attachments") or [{}]
        owner = gateway.get("OwnerId")
        return {"vpcId": attached[0].get("VpcId"), "ownerId": owner, "tags": from_list(gateway.get("Tags")),
                "arn": f"arn:aws:ec2:{aws.region}:{owner}:internet-gateway/{resource}"}  # fmt: skip

    def delete(self, aws: Aws, resource: str, state: Properties) -> None:
        if state.get("vpcId"):
            aws.remove(EC2, "DetachInternetGateway", InternetGatewayId=resource, VpcId=state["vpcId"])
        aws.remove(EC2, "DeleteInternetGateway", InternetGatewayId=resource)


class Eip(Kind):
    token = "aws:ec2/eip:Eip"
    service, create_action = EC2, "AllocateAddress"
    forces_new = frozenset({"address", "domain", "publicIpv4Pool", "networkBorderGroup", "ipamPoolId"})
    computed = ("allocationId", "publicIp", "publicDns", "arn")
    told = ("domain",)
    tagging = ec2_tagging("elastic-ip")

    def identity(self, answer: dict[str, Any], inputs: Properties) -> str:
        return answer["AllocationId"]

    def read(self, aws: Aws, resource: str, known: Properties) -> Properties | None:
        answer = aws.found(EC2, "DescribeAddresses", AllocationIds=[resource])
        if not answer or not answer["Addresses"]:
            return None
        found = answer["Addresses"][0]
        return {"allocationId": resource, "publicIp": found["PublicIp"], "domain": found.get("Domain", "vpc"),
                "publicDns": f"ec2-{found['PublicIp'].replace('.', '-')}.compute.amazonaws.com",
                "arn": f"arn:aws:ec2:{aws.region}:123456789012:elastic-ip/{resource}",
                "tags": from_list(found.get("Tags"))}  # fmt: skip

    def delete(self, aws: Aws, resource: str, state: Properties) -> None:
        aws.remove(EC2, "ReleaseAddress", AllocationId=resource)


class NatGateway(Kind):
    token = "aws:ec2/natGateway:NatGateway"
    service, create_action = EC2, "CreateNatGateway"
    renames = {"privateIp": "PrivateIpAddress"}
    forces_new = frozenset({"allocationId", "connectivityType", "privateIp", "subnetId"})
    computed = ("publicIp", "privateIp", "networkInterfaceId", "associationId")
    defaults = {"connectivityType": "public"}
    told = ("allocationId", "connectivityType", "subnetId")
    tagging = ec2_tagging("natgateway")

    def identity(self, answer: dict[str, Any], inputs: Properties) -> str:
        return answer["NatGateway"]["NatGatewayId"]

    def _find(self, aws: Aws, resource: str) -> dict[str, Any] | None:
        answer = aws.found(EC2, "DescribeNatGateways", NatGatewayIds=[resource])
        found = answer["NatGateways"][0] if answer and answer["NatGateways"] else None
        return None if found is None or found["State"] == "deleted" else found

    def settle(self, aws: Aws, resource: str, inputs: Properties) -> None:
        def state() -> str:
            return (self._find(aws, resource) or {}).get("State", "")

        wait(f"NAT gateway {resource}", state, "available", ("failed", "deleting", ""))

    def read(self, aws: Aws, resource: str, known: Properties) -> Properties | None:
        found = self._find(aws, resource)
        if found is None:
            return None
        address = (found.get("NatGatewayAddresses") or [{}])[0]
        return {"subnetId": found["SubnetId"], "connectivityType": found.get("ConnectivityType", "public"),
                "allocationId": address.get("AllocationId"), "publicIp": address.get("PublicIp"),
                "privateIp": address.get("PrivateIp"), "networkInterfaceId": address.get("NetworkInterfaceId"),
                "tags": from_list(found.get("Tags"))}  # fmt: skip

    def delete(self, aws: Aws, resource: str, state: Properties) -> None:
        aws.remove(EC2, "DeleteNatGateway", NatGatewayId=resource)
        wait(f"NAT gateway {resource}", lambda: "there" if self._find(aws, resource) else "gone", "gone")


class RouteTable(Kind):
    token = "aws:ec2/routeTable:RouteTable"
    service, create_action = EC2, "CreateRouteTable"
    forces_new = frozenset({"vpcId"})
    computed = ("arn", "ownerId")
    told = ("vpcId",)
    tagging = ec2_tagging("route-table")

    def identity(self, answer: dict[str, Any], inputs: Properties) -> str:
        return answer["RouteTable"]["RouteTableId"]

    def read(self, aws: Aws, resource: str, known: Properties) -> Properties | None:
        answer = aws.found(EC2, "DescribeRouteTables", RouteTableIds=[resource])
        if not answer or not answer["RouteTables"]:
            return None
        table = answer["RouteTables"][0]
        owner = table.get("OwnerId")
        return {"vpcId": table["VpcId"], "ownerId": owner, "tags": from_list(table.get("Tags")),
                "arn": f"arn:aws:ec2:{aws.region}:{owner}:route-table/{resource}"}  # fmt: skip

    def delete(self, aws: Aws, resource: str, state: Properties) -> None:
        aws.remove(EC2, "DeleteRouteTable", RouteTableId=resource)


class Route(Kind):
    token = "aws:ec2/route:Route"
    service, create_action = EC2, "CreateRoute"
    renames = {"destinationIpv6CidrBlock": "DestinationIpv6CidrBlock",
               "egressOnlyGatewayId": "EgressOnlyInternetGatewayId",
               "vpcPeeringConnectionId": "VpcPeeringConnectionId"}  # fmt: skip
    forces_new = frozenset({"routeTableId", "destinationCidrBlock", "destinationIpv6CidrBlock",
                            "destinationPrefixListId"})  # fmt: skip
    computed = ("state", "origin")
    told = ("routeTableId", "destinationCidrBlock", "gatewayId", "natGatewayId")

    def identity(self, answer: dict[str, Any], inputs: Properties) -> str:
        """Terraform's id: the table and a checksum of the destination."""
        return f"r-{inputs['routeTableId']}{zlib.crc32(_destination(inputs).encode())}"

    def update(self, aws: Aws, resource: str, old: Properties, new: Properties) -> None:
        aws.call(EC2, "ReplaceRoute", **self.parameters(new))

    def read(self, aws: Aws, resource: str, known: Properties) -> Properties | None:
        if not known:  # an import: TABLE_DESTINATION
            table, _, destination = resource.partition("_")
            known = {"routeTableId": table, "destinationCidrBlock": destination}
        answer = aws.found(EC2, "DescribeRouteTables", RouteTableIds=[known["routeTableId"]])
        tables = answer["RouteTables"] if answer else []
        for route in tables[0]["Routes"] if tables else []:
            if _destination(known) in (route.get("DestinationCidrBlock"), route.get("DestinationIpv6CidrBlock")):
                return {"routeTableId": known["routeTableId"], "destinationCidrBlock": route.get("DestinationCidrBlock"),
                        "gatewayId": route.get("GatewayId"), "natGatewayId": route.get("NatGatewayId"),
                        "state": route.get("State"), "origin": route.get("Origin")}  # fmt: skip
        return None

    def delete(self, aws: Aws, resource: str, state: Properties) -> None:
        keys = ("routeTableId", "destinationCidrBlock", "destinationIpv6CidrBlock", "destinationPrefixListId")
        given = {key[0].upper() + key[1:]: state[key] for key in keys if state.get(key)}
        aws.remove(EC2, "DeleteRoute", **given)


def _destination(inputs: Properties) -> str:
    keys = ("destinationCidrBlock", "destinationIpv6CidrBlock", "destinationPrefixListId")
    return next((inputs[key] for key in keys if inputs.get(key)), "")


class RouteTableAssociation(Kind):
    token = "aws:ec2/routeTableAssociation:RouteTableAssociation"
    service, create_action = EC2, "AssociateRouteTable"
    forces_new = frozenset({"subnetId", "gatewayId"})
    told = ("routeTableId", "subnetId")

    def identity(self, answer: dict[str, Any], inputs: Properties) -> str:
        return answer["AssociationId"]

    def update(self, aws: Aws, resource: str, old: Properties, new: Properties) -> None:
        raise AwsError("a changed routeTableId gives the association another id; the stand-in does not do it")

    def read(self, aws: Aws, resource: str, known: Properties) -> Properties | None:
        wanted = [{"Name": "association.route-table-association-id", "Values": [resource]}]
        for table in aws.call(EC2, "DescribeRouteTables", Filters=wanted)["RouteTables"]:
            for association in table["Associations"]:
                if association["RouteTableAssociationId"] == resource:
                    return {"routeTableId": table["RouteTableId"], "subnetId": association.get("SubnetId")}
        return None

    def delete(self, aws: Aws, resource: str, state: Properties) -> None:
        aws.remove(EC2, "DisassociateRouteTable", AssociationId=resource)


class VpcEndpoint(Kind):
    token = "aws:ec2/vpcEndpoint:VpcEndpoint"
    service, create_action = EC2, "CreateVpcEndpoint"
    renames = {"policy": "PolicyDocument"}
    aside = frozenset({"autoAccept"})
    forces_new = frozenset({"vpcId", "serviceName", "vpcEndpointType", "serviceRegion"})
    computed = ("arn", "state", "ownerId", "networkInterfaceIds", "dnsEntries", "prefixListId", "cidrBlocks")
    defaults = {"vpcEndpointType": "Gateway"}
    told = ("vpcId", "serviceName", "vpcEndpointType", "routeTableIds", "subnetIds", "securityGroupIds",
            "privateDnsEnabled")  # fmt: skip
    tagging = ec2_tagging("vpc-endpoint")

    def identity(self, answer: dict[str, Any], inputs: Properties) -> str:
        return answer["VpcEndpoint"]["VpcEndpointId"]

    def _find(self, aws: Aws, resource: str) -> dict[str, Any] | None:
        answer = aws.found(EC2, "DescribeVpcEndpoints", VpcEndpointIds=[resource])
        found = answer["VpcEndpoints"][0] if answer and answer["VpcEndpoints"] else None
        return None if found is None or found["State"].lower() in ("deleted", "deleting") else found

    def settle(self, aws: Aws, resource: str, inputs: Properties) -> None:
        def state() -> str:
            return (self._find(aws, resource) or {}).get("State", "").lower()

        wait(f"VPC endpoint {resource}", state, "available", ("failed", "rejected", ""))

    def update(self, aws: Aws, resource: str, old: Properties, new: Properties) -> None:
        changes: dict[str, Any] = {}
        for key, plural in (("routeTableIds", "RouteTableIds"), ("subnetIds", "SubnetIds"),
                            ("securityGroupIds", "SecurityGroupIds")):  # fmt: skip
            before, after = set(old.get(key, [])), set(new.get(key, []))
            if after - before:
                changes[f"Add{plural}"] = sorted(after - before)
            if before - after:
                changes[f"Remove{plural}"] = sorted(before - after)
        if changed(old, new, "policy"):
            changes |= {"PolicyDocument": new["policy"]} if "policy" in new else {"ResetPolicy": True}
        if changed(old, new, "privateDnsEnabled"):
            changes["PrivateDnsEnabled"] = new.get("privateDnsEnabled", False)
        if changes:
            aws.call(EC2, "ModifyVpcEndpoint", VpcEndpointId=resource, **changes)

    def read(self, aws: Aws, resource: str, known: Properties) -> Properties | None:
        found = self._find(aws, resource)
        if found is None:
            return None
        owner = found.get("OwnerId", "123456789012")
        entries = [{"dnsName": e.get("DnsName"), "hostedZoneId": e.get("HostedZoneId")}
                   for e in found.get("DnsEntries", [])]  # fmt: skip
        return {
            "vpcId": found["VpcId"], "serviceName": found["ServiceName"], "vpcEndpointType": found.get("VpcEndpointType") or "Gateway",
            "routeTableIds": found.get("RouteTableIds", []), "subnetIds": found.get("SubnetIds", []),
            "securityGroupIds": [group["GroupId"] for group in found.get("Groups", [])],
            "privateDnsEnabled": found.get("PrivateDnsEnabled"), "state": found["State"], "ownerId": owner,
            "networkInterfaceIds": found.get("NetworkInterfaceIds", []), "dnsEntries": entries,
            "arn": f"arn:aws:ec2:{aws.region}:{owner}:vpc-endpoint/{resource}", "cidrBlocks": [], "prefixListId": "",
            "tags": from_list(found.get("Tags")),
        }  # fmt: skip

    def delete(self, aws: Aws, resource: str, state: Properties) -> None:
        aws.remove(EC2, "DeleteVpcEndpoints", VpcEndpointIds=[resource])
        wait(f"VPC endpoint {resource}", lambda: "there" if self._find(aws, resource) else "gone", "gone")


KINDS = (Vpc, Subnet, InternetGateway, Eip, NatGateway, RouteTable, Route, RouteTableAssociation, VpcEndpoint)
