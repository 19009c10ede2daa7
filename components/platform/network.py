"""The VPC: one large subnet for GPU nodes, smaller ones for everything else, and the ways out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pulumi
import pulumi_aws as aws

from components.platform.addresses import Subnets

GATEWAY_ENDPOINTS = ("s3",)
INTERFACE_ENDPOINTS = ("ec2", "ecr.api", "ecr.dkr", "eks", "eks-auth", "elasticloadbalancing", "logs", "sts")
"""What nodes and add-ons call without a way to the internet (EKS user guide, "Private clusters");
`eks-auth` is Pod Identity's."""


@dataclass(frozen=True)
class NetworkArgs:
    cidr: str
    region: str
    gpu_zone: str
    ranges: Subnets
    nat: Literal["one", "each-zone", "none"]
    endpoints: bool
    public: bool
    """Whether a balancer that faces the internet needs public subnets."""


class Network(pulumi.ComponentResource):
    """`private` and `public` are subnet ids by zone; `ready` is what nodes need to reach the outside."""

    vpc_id: pulumi.Output[str]
    account: pulumi.Output[str]
    private: dict[str, pulumi.Output[str]]
    public: dict[str, pulumi.Output[str]]
    ready: list[pulumi.Resource]

    def __init__(self, name: str, args: NetworkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("splitserve:platform:Network", name, None, opts)
        self._args, self._child = args, pulumi.ResourceOptions(parent=self)
        vpc = aws.ec2.Vpc(
            name, cidr_block=args.cidr, enable_dns_support=True, enable_dns_hostnames=True, tags={"Name": name},
            opts=self._child,
        )  # fmt: skip
        self.vpc_id, self.account = vpc.id, vpc.owner_id
        self.private = {zone: self._subnet(f"private-{zone}", zone, cidr) for zone, cidr in args.ranges.private.items()}
        self.public = self._public_subnets()
        tables = self._private_routes()
        self.ready = [*self._nat_routes(tables), *self._endpoints(tables)]
        self.register_outputs({"vpcId": self.vpc_id, "private": self.private, "public": self.public})

    def _subnet(self, name: str, zone: str, cidr: str) -> pulumi.Output[str]:
        return aws.ec2.Subnet(
            name, vpc_id=self.vpc_id, availability_zone=zone, cidr_block=cidr, tags={"Name": name}, opts=self._child
        ).id

    def _public_subnets(self) -> dict[str, pulumi.Output[str]]:
        """In the zones that need one: of NAT gateways, or all where a balancer faces the internet."""
        args = self._args
        zones = list(args.ranges.public) if args.public or args.nat == "each-zone" else [args.gpu_zone]
        if args.nat == "none" and not args.public:
            return {}
        found = {zone: self._subnet(f"public-{zone}", zone, args.ranges.public[zone]) for zone in zones}
        gateway = aws.ec2.InternetGateway("internet", vpc_id=self.vpc_id, opts=self._child)
        table = aws.ec2.RouteTable("public", vpc_id=self.vpc_id, opts=self._child)
        aws.ec2.Route("public-internet", route_table_id=table.id, destination_cidr_block="0.0.0.0/0",
                      gateway_id=gateway.id, opts=self._child)  # fmt: skip
        for zone, subnet in found.items():
            self._associate(f"public-{zone}", subnet, table)
        return found

    def _private_routes(self) -> dict[str, aws.ec2.RouteTable]:
        tables = {}
        for zone, subnet in self.private.items():
            tables[zone] = aws.ec2.RouteTable(
                f"private-{zone}", vpc_id=self.vpc_id, tags={"Name": f"private-{zone}"}, opts=self._child
            )
            self._associate(f"private-{zone}", subnet, tables[zone])
        return tables

    def _associate(self, name: str, subnet: pulumi.Output[str], table: aws.ec2.RouteTable) -> None:
        aws.ec2.RouteTableAssociation(name, subnet_id=subnet, route_table_id=table.id, opts=self._child)

    def _nat_routes(self, tables: dict[str, aws.ec2.RouteTable]) -> list[pulumi.Resource]:
        args = self._args
        if args.nat == "none":
            return []
        zones = list(tables) if args.nat == "each-zone" else [args.gpu_zone]
        gateways = {zone: self._nat(zone) for zone in zones}
        return [
            aws.ec2.Route(
                f"nat-{zone}", route_table_id=table.id, destination_cidr_block="0.0.0.0/0",
                nat_gateway_id=gateways.get(zone, gateways[args.gpu_zone]).id, opts=self._child,
            )
            for zone, table in tables.items()
        ]  # fmt: skip

    def _nat(self, zone: str) -> aws.ec2.NatGateway:
        address = aws.ec2.Eip(f"nat-{zone}", domain="vpc", opts=self._child)
        return aws.ec2.NatGateway(
            f"nat-{zone}", allocation_id=address.allocation_id, subnet_id=self.public[zone], opts=self._child
        )

    def _endpoints(self, tables: dict[str, aws.ec2.RouteTable]) -> list[aws.ec2.VpcEndpoint]:
        if not self._args.endpoints:
            return []
        service = f"com.amazonaws.{self._args.region}."
        gateways = [
            aws.ec2.VpcEndpoint(
                f"endpoint-{name}", vpc_id=self.vpc_id, service_name=service + name, vpc_endpoint_type="Gateway",
                route_table_ids=[table.id for table in tables.values()], opts=self._child,
            )
            for name in GATEWAY_ENDPOINTS
        ]  # fmt: skip
        admitted = self._endpoint_security()
        return gateways + [
            aws.ec2.VpcEndpoint(
                f"endpoint-{name}", vpc_id=self.vpc_id, service_name=service + name, vpc_endpoint_type="Interface",
                subnet_ids=[self.private[self._args.gpu_zone]], security_group_ids=[admitted.id],
                private_dns_enabled=True, opts=self._child,
            )
            for name in INTERFACE_ENDPOINTS
        ]  # fmt: skip

    def _endpoint_security(self) -> aws.ec2.SecurityGroup:
        group = aws.ec2.SecurityGroup(
            "endpoints", vpc_id=self.vpc_id, description="VPC endpoints, from inside the VPC", opts=self._child
        )
        aws.vpc.SecurityGroupIngressRule(
            "endpoints-https", security_group_id=group.id, ip_protocol="tcp", from_port=443, to_port=443,
            cidr_ipv4=self._args.cidr, opts=self._child,
        )  # fmt: skip
        return group
