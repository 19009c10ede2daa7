"""Ask EC2 which GPU types it has now, and where the catalogue differs. Uses boto3 and nothing else.

The answers' shapes: DescribeInstanceTypes and DescribeInstanceTypeOfferings of the EC2 API.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

from components.hardware.instance import Instance, NetworkCard

FAMILIES = ("g4dn", "g5", "g6", "g6e", "gr6", "g7", "g7e", "p3dn", "p4d", "p4de", "p5", "p5e", "p5en", "p6-b200",
            "p6-b300", "p6e-gb200", "p6e-gb300")  # fmt: skip
"""Families with NVIDIA GPUs that vLLM's CUDA wheels run on."""


@dataclass(frozen=True)
class Difference:
    """One fact in which the catalogue and AWS differ; None: the one of them lacks the type."""

    instance: str
    fact: str
    catalogue: Any
    aws: Any


def read_instance_types(ec2: Any) -> dict[str, Instance]:
    """Every GPU type that EC2 describes in the client's region. Raises botocore's ClientError."""
    pages = ec2.get_paginator("describe_instance_types").paginate()
    described = [entry for page in pages for entry in page["InstanceTypes"]]
    offered = {
        offer["InstanceType"]
        for page in ec2.get_paginator("describe_instance_type_offerings").paginate(LocationType="region")
        for offer in page["InstanceTypeOfferings"]
    }
    region = ec2.meta.region_name
    return {
        entry["InstanceType"]: _instance(entry, region if entry["InstanceType"] in offered else None)
        for entry in described
        if _is_ours(entry)
    }


def merge_regions(answers: Iterable[dict[str, Instance]]) -> dict[str, Instance]:
    """One catalogue from the answers of several regions."""
    merged: dict[str, Instance] = {}
    for answer in answers:
        for name, found in answer.items():
            regions = {*found.regions, *(merged[name].regions if name in merged else ())}
            merged[name] = replace(found, regions=tuple(sorted(regions)))
    return merged


def differences(catalogue: dict[str, Instance], aws: dict[str, Instance], region: str) -> Iterator[Difference]:
    """Where one region's answer differs from the catalogue, type by type and fact by fact."""
    for name in sorted(aws.keys() | {n for n, known in catalogue.items() if region in known.regions}):
        if name not in catalogue or name not in aws:
            yield Difference(name, "type", name if name in catalogue else None, name if name in aws else None)
            continue
        for field in fields(Instance):
            ours, theirs = getattr(catalogue[name], field.name), getattr(aws[name], field.name)
            if field.name == "regions":
                ours, theirs = region in ours, region in theirs
            if ours != theirs:
                yield Difference(name, field.name, ours, theirs)


def _is_ours(entry: dict[str, Any]) -> bool:
    gpus = entry.get("GpuInfo", {}).get("Gpus", [])
    return entry["InstanceType"].split(".")[0] in FAMILIES and bool(gpus) and gpus[0]["Count"] > 0


def _instance(entry: dict[str, Any], region: str | None) -> Instance:
    network, gpu = entry["NetworkInfo"], entry["GpuInfo"]["Gpus"][0]
    cards = tuple(_card(card) for card in network["NetworkCards"])
    return Instance(
        name=entry["InstanceType"],
        gpu=gpu["Name"],
        gpus=gpu["Count"],
        gpu_memory_mib=gpu["MemoryInfo"]["SizeInMiB"],
        architecture=entry["ProcessorInfo"]["SupportedArchitectures"][0],
        vcpus=entry["VCpuInfo"]["DefaultVCpus"],
        memory_mib=entry["MemoryInfo"]["SizeInMiB"],
        nvme_gb=entry.get("InstanceStorageInfo", {}).get("TotalSizeInGB"),
        network_gbit_per_s=_gbit_per_s(network["NetworkPerformance"]),
        efa_interfaces=network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0),
        cards=cards,
        regions=(region,) if region else (),
    )


def _card(card: dict[str, Any]) -> NetworkCard:
    return NetworkCard(
        card["NetworkCardIndex"],
        tuple(card.get("InterfaceTypes", ("interface",))),
        card["MaximumNetworkInterfaces"],
        card["PeakBandwidthInGbps"],
    )


def _gbit_per_s(performance: str) -> float:
    """`3200 Gigabit`, `4x 100 Gigabit`, `Up to 25 Gigabit`."""
    words = performance.removeprefix("Up to ").removesuffix(" Gigabit").split("x ")
    product = 1.0
    for word in words:
        product *= float(word)
    return product
