"""Quotas against what is used and what is wanted: vCPUs by instance family, Elastic IPs, VPCs.

The vCPU quotas' names and codes: https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html.
Not in its table, and so answered with unknown: Spot Instances of the P6 families, and the quota of GR types.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from components.platform.preflight.answer import Answer, fault, ok, unknown
from components.platform.preflight.ask import Ask, CouldNotAsk
from components.platform.preflight.check import Subject, check
from components.platform.preflight.instances import Running, described, makes_room, running_instances
from components.platform.preflight.wanted import Wanted, WantedGroup

INSTANCE_QUOTAS = "https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html"
STANDARD = ("a", "c", "d", "h", "i", "m", "r", "t", "z")
GET_QUOTA = ("servicequotas:GetServiceQuota", "servicequotas:GetAWSDefaultServiceQuota")


@dataclass(frozen=True)
class Quota:
    """`families`: the letters of a type's name, or letters and generation (`p5` of p5en.48xlarge)."""

    service: str
    code: str
    name: str
    families: tuple[str, ...] = ()
    lifecycle: str = ""
    """As DescribeInstances has it: `spot`, or nothing for On-Demand Instances."""

    def covers(self, instance: str, lifecycle: str) -> bool:
        letters, generation = family_of(instance)
        return lifecycle == self.lifecycle and bool({letters, letters + generation} & set(self.families))


VCPU_QUOTAS = (
    Quota("ec2", "L-417A185B", "Running On-Demand P instances", ("p",)),
    Quota("ec2", "L-DB2E81BA", "Running On-Demand G and VT instances", ("g", "vt")),
    Quota("ec2", "L-1216C47A", "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances", STANDARD),
    Quota("ec2", "L-C4BD4855", "All P5 Spot Instance Requests", ("p5",), "spot"),
    Quota("ec2", "L-7212CCBC", "All P4, P3 and P2 Spot Instance Requests", ("p4", "p3", "p2"), "spot"),
    Quota("ec2", "L-3819A6DF", "All G and VT Spot Instance Requests", ("g", "vt"), "spot"),
    Quota("ec2", "L-34B43A08", "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests", STANDARD, "spot"),
)
ELASTIC_IPS = Quota("ec2", "L-0263D0A3", "EC2-VPC Elastic IPs")
"""https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/elastic-ip-addresses-eip.html, limit."""
VPCS = Quota("vpc", "L-F678F1CE", "VPCs per Region")
"""https://docs.aws.amazon.com/vpc/latest/userguide/amazon-vpc-limits.html."""


@dataclass(frozen=True)
class Limit:
    """A quota's value; `is_default` where the account has none of its own."""

    value: float
    is_default: bool


def family_of(instance: str) -> tuple[str, str]:
    """The letters and the generation of a type: ("p", "5") of p5en.48xlarge."""
    found = re.match(r"([a-z]+)(\d*)", instance)
    return (found[1], found[2]) if found else ("", "")


def quota_of(instance: str, lifecycle: str) -> Quota | None:
    return next((quota for quota in VCPU_QUOTAS if quota.covers(instance, lifecycle)), None)


def limit(ask: Ask, quota: Quota) -> Limit:
    """The account's own value, else AWS's default; raises CouldNotAsk.

    https://docs.aws.amazon.com/servicequotas/2019-06-24/apireference/API_GetServiceQuota.html: where only
    the default is there, it is not returned.
    """
    names = {"ServiceCode": quota.service, "QuotaCode": quota.code}
    try:
        answer = ask.call("service-quotas", "get_service_quota", **names)
        return Limit(answer["Quota"]["Value"], False)
    except CouldNotAsk as error:
        if error.code != "NoSuchResourceException":
            raise
    answer = ask.call("service-quotas", "get_aws_default_service_quota", **names)
    return Limit(answer["Quota"]["Value"], True)


def judge_quota(key: str, quota: Quota, limit: Limit, used: int, wanted: int, unit: str) -> Answer:
    """`used` is what is used beside the plan, another generation of its nodes included; `wanted` all it needs."""
    origin = ", AWS's default" if limit.is_default else ""
    found = f"{quota.name}: {limit.value:g}{origin}, {used:g} {unit} in use beside this plan's"
    if used + wanted <= limit.value:
        return ok(key, found, f"{wanted:g} {unit}")
    return fault(key, found, f"{wanted:g} {unit}",
                 f"request {used + wanted:g} for quota {quota.code} ({quota.service}) in Service Quotas")  # fmt: skip


def _vcpu_subjects(wanted: Wanted) -> Iterable[Subject]:
    """Each quota once, with the groups that draw on it; each group without a known quota.

    Reserved capacity was counted when it was reserved (EC2 user guide, capacity-reservations-create:
    a request beyond the On-Demand limit fails).
    """
    by_quota: dict[Quota, list[WantedGroup]] = {}
    for group in wanted.groups:
        if group.capacity not in ("on-demand", "spot"):
            continue
        quota = quota_of(group.instance, "spot" if group.capacity == "spot" else "")
        if quota:
            by_quota.setdefault(quota, []).append(group)
        else:
            yield Subject(f"{group.key}.instance", (None, [group]))
    for quota, groups in by_quota.items():
        yield Subject(", ".join(f"{group.key}.nodes" for group in groups), (quota, groups))


@check("vcpu-quota", "The account's vCPU quotas hold what runs and what is wanted; requests for Spot that wait and "
       "reservations that are not used are not counted.",
       (*GET_QUOTA, "ec2:DescribeInstances", "ec2:DescribeInstanceTypes"), INSTANCE_QUOTAS, _vcpu_subjects)  # fmt: skip
def vcpu_quota(ask: Ask, subject: Subject) -> Iterator[Answer]:
    quota, groups = subject.thing
    if quota is None:
        group = groups[0]
        yield unknown(subject.key, f"no quota code in the source for {group.instance}, {group.capacity}",
                      fix="look for the quota in the Service Quotas console")  # fmt: skip
        return
    others = [one for one in running_instances(ask)
              if quota.covers(one.instance, one.lifecycle) and not makes_room(ask.wanted, one)]  # fmt: skip
    types = described(ask, [*(one.instance for one in others), *(group.instance for group in groups)])
    yield judge_vcpus(subject.key, quota, groups, others, types, limit(ask, quota))


def judge_vcpus(key: str, quota: Quota, groups: Iterable[WantedGroup], others: Iterable[Running],
                types: dict[str, dict[str, Any]], limit: Limit) -> Answer:  # fmt: skip
    """In default vCPUs of the types; a type without a description makes the answer unknown."""
    vcpus = {name: entry["VCpuInfo"]["DefaultVCpus"] for name, entry in types.items()}
    groups, others = list(groups), list(others)
    missing = sorted({one.instance for one in [*groups, *others]} - vcpus.keys())
    if missing:
        return unknown(key, f"EC2 does not say how many vCPUs {', '.join(missing)} has", quota.name)
    wanted = sum(group.nodes * vcpus[group.instance] for group in groups)
    return judge_quota(key, quota, limit, sum(vcpus[one.instance] for one in others), wanted, "vCPUs")


def _address_subjects(wanted: Wanted) -> Iterable[Subject]:
    return [Subject("Elastic IPs", wanted.eips)] if wanted.eips else []


@check("address-quota", "The account may allocate the Elastic IP addresses of the NAT gateways.",
       (*GET_QUOTA, "ec2:DescribeAddresses"),
       "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/elastic-ip-addresses-eip.html", _address_subjects)  # fmt: skip
def address_quota(ask: Ask, subject: Subject) -> Iterator[Answer]:
    addresses = ask.call("ec2", "describe_addresses")["Addresses"]
    used = len([address for address in addresses if not _is_own(address, ask.wanted.own_tag)])
    yield judge_quota(subject.key, ELASTIC_IPS, limit(ask, ELASTIC_IPS), used, subject.thing, "addresses")


def _vpc_subjects(wanted: Wanted) -> Iterable[Subject]:
    return [Subject("VPC", wanted.vpcs)] if wanted.vpcs else []


@check("vpc-quota", "The account may have one more VPC in the region.", (*GET_QUOTA, "ec2:DescribeVpcs"),
       "https://docs.aws.amazon.com/vpc/latest/userguide/amazon-vpc-limits.html", _vpc_subjects)  # fmt: skip
def vpc_quota(ask: Ask, subject: Subject) -> Iterator[Answer]:
    vpcs = ask.pages("ec2", "describe_vpcs", "Vpcs")
    used = len([vpc for vpc in vpcs if not _is_own(vpc, ask.wanted.own_tag)])
    yield judge_quota(subject.key, VPCS, limit(ask, VPCS), used, subject.thing, "VPCs")


def _is_own(entry: dict[str, Any], own_tag: tuple[str, str] | None) -> bool:
    return own_tag is not None and own_tag in {(tag["Key"], tag["Value"]) for tag in entry.get("Tags", [])}
