"""What FSx for Lustre refuses and moto takes.

https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateFileSystem.html and
…/API_CreateFileSystemLustreConfiguration.html
"""

from __future__ import annotations

from collections.abc import Iterator

from tools.awsim.eks_state import Refused
from tools.awsim.neighbours import backend
from tools.awsim.wire import Call

THROUGHPUTS = {"PERSISTENT_1": (12, 40, 50, 100, 200), "PERSISTENT_2": (125, 250, 500, 1000)}
SMALLEST_GIB, STEP_GIB = 1200, 2400


def refuse_fsx(call: Call) -> None:
    """Raises Refused for a file system that FSx would not make."""
    if call.action != "CreateFileSystem" or call.parameters.get("FileSystemType") != "LUSTRE":
        return
    faults = list(_faults(call))
    if faults:
        raise Refused("BadRequest", "; ".join(faults))


def _faults(call: Call) -> Iterator[str]:
    ec2 = backend("ec2", call.region)
    known = {subnet.id for subnet in ec2.describe_subnets()}
    subnets = call.parameters.get("SubnetIds", [])
    yield from (f"The subnet ID '{name}' does not exist" for name in subnets if name not in known)
    if len(subnets) != 1:
        yield f"A Lustre file system has exactly one subnet, found {len(subnets)}"
    for group in call.parameters.get("SecurityGroupIds", []):
        if ec2.get_security_group_from_id(group) is None:
            yield f"The security group '{group}' does not exist"
    lustre = call.parameters.get("LustreConfiguration", {})
    kind = lustre.get("DeploymentType", "SCRATCH_1")
    size = call.parameters.get("StorageCapacity", 0)
    if kind != "SCRATCH_1" and size != SMALLEST_GIB and (size < STEP_GIB or size % STEP_GIB):
        yield f"Storage capacity {size}: {kind} needs {SMALLEST_GIB} GiB or a multiple of {STEP_GIB}"
    throughput, allowed = lustre.get("PerUnitStorageThroughput"), THROUGHPUTS.get(kind)
    if allowed and throughput not in allowed:
        yield f"PerUnitStorageThroughput {throughput}: {kind} needs one of {allowed}"
    if not allowed and throughput is not None:
        yield f"PerUnitStorageThroughput is for PERSISTENT deployments, not for {kind}"
    if lustre.get("EfaEnabled") and (kind != "PERSISTENT_2" or "MetadataConfiguration" not in lustre):
        yield "EfaEnabled needs PERSISTENT_2 with a metadata configuration"
