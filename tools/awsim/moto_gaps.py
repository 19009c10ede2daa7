"""Small gaps in moto's answers, filled in its own classes once for the process."""

from __future__ import annotations

import functools
from typing import Any

from moto.ec2.models import EC2Backend
from moto.ec2.models.instances import Instance
from moto.fsx.models import FileSystem

from tools.awsim.eks_state import ACCOUNT
from tools.awsim.neighbours import backend


@functools.cache
def fill() -> None:
    _complete_file_systems()
    _default_endpoint_type()
    _remove_gateway_interfaces()
    _remove_what_instances_had()


def _complete_file_systems() -> None:
    """The fields that FSx always answers: life cycle, owner, network, mount name."""
    plain = FileSystem.to_dict

    def complete(system: FileSystem) -> dict[str, Any]:
        found = plain(system)
        subnets = backend("ec2", system.backend.region_name).describe_subnets()
        networks = [subnet.vpc_id for subnet in subnets if subnet.id in system.subnet_ids]
        lustre = found.get("LustreConfiguration") or {}
        scratch = lustre.get("DeploymentType", "SCRATCH_1") == "SCRATCH_1"
        return {"Lifecycle": "AVAILABLE", "OwnerId": ACCOUNT, "VpcId": networks[0] if networks else "", **found,
                "LustreConfiguration": {"MountName": "fsx" if scratch else system.file_system_id[3:11], **lustre}}  # fmt: skip

    FileSystem.to_dict = complete  # type: ignore[method-assign]


def _default_endpoint_type() -> None:
    """A VPC endpoint without a type is a gateway; moto can't delete one without."""
    plain = EC2Backend.create_vpc_endpoint

    @functools.wraps(plain)
    def create(
        self: Any, vpc_id: str, service_name: str, endpoint_type: str | None = None, *rest: Any, **more: Any
    ) -> Any:
        return plain(self, vpc_id, service_name, endpoint_type or "Gateway", *rest, **more)

    EC2Backend.create_vpc_endpoint = create  # type: ignore[method-assign]


def _remove_gateway_interfaces() -> None:
    """A NAT gateway's network interface goes with it."""
    plain = EC2Backend.delete_nat_gateway

    @functools.wraps(plain)
    def delete(self: Any, nat_gateway_id: str) -> Any:
        gateway = plain(self, nat_gateway_id)
        for address in self.addresses:
            if address.eni is gateway._eni:
                address.eni, address.association_id = None, None
        self.enis.pop(gateway._eni.id, None)
        return gateway

    EC2Backend.delete_nat_gateway = delete  # type: ignore[method-assign]


def _remove_what_instances_had() -> None:
    """The interfaces and volumes that an instance was started with go with it. moto keeps those whose
    launch data do not say DeleteOnTermination; data that say false are not told apart here."""
    plain = Instance.terminate

    @functools.wraps(plain)
    def terminate(self: Any) -> Any:
        interfaces = [interface.id for interface in self.nics.values()]
        volumes = [device.volume_id for device in self.block_device_mapping.values()]
        answer = plain(self)
        for name in interfaces:
            self.ec2_backend.enis.pop(name, None)
        for name in volumes:
            self.ec2_backend.volumes.pop(name, None)
        return answer

    Instance.terminate = terminate  # type: ignore[method-assign]
