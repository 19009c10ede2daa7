"""A node's launch template, from its generation alone. Pure.

As arguments of `aws.ec2.LaunchTemplate` (pulumi-aws 7.51). Security groups are on the interfaces and no interface names a subnet: EKS refuses or ignores anything else
(EKS user guide, "Launch templates"; aws-samples/aws-efa-eks issue 19).
"""

from __future__ import annotations

from typing import Any

from components.hardware.catalogue import known_instance
from components.hardware.interfaces import Interface, layout
from components.platform.node_generation import NodeGeneration
from components.platform.user_data import user_data

DATA_DEVICE = {"al2023": "/dev/xvda", "bottlerocket": "/dev/xvdb"}
"""Bottlerocket's data volume; its root volume is read-only and of fixed size."""
TAGGED = ("instance", "volume", "network-interface")
HOP_LIMIT = 1
"""Pods can't reach the instance's credentials; they have Pod Identity."""


def interfaces(generation: NodeGeneration) -> tuple[Interface, ...]:
    """Raises LayoutUnknown where AWS has published no layout for the type."""
    found = known_instance(generation.instance)
    return layout(found, generation.addresses) if found else (Interface(0, 0, "interface"),)


def launch_template(generation: NodeGeneration, security_groups: list[Any], placement_group: Any,
                    tags: dict[str, str]) -> dict[str, Any]:  # fmt: skip
    """`security_groups` are put on every interface; `placement_group` is a name, or None for none."""
    found = known_instance(generation.instance)
    return {
        "instance_type": generation.instance,
        "user_data": user_data(generation.ami, nvme=bool(found and found.nvme_gb)),
        "metadata_options": {"http_tokens": "required", "http_put_response_hop_limit": HOP_LIMIT},
        "block_device_mappings": [_volume(generation)],
        "network_interfaces": [_interface(entry, security_groups) for entry in interfaces(generation)],
        "tag_specifications": [{"resource_type": kind, "tags": tags} for kind in TAGGED],
        **({"placement": {"group_name": placement_group}} if placement_group else {}),
        **_reserved(generation),
    }


def _volume(generation: NodeGeneration) -> dict[str, Any]:
    disk = {
        "volume_size": generation.disk_gib,
        "volume_type": "gp3",
        "encrypted": "true",
        "delete_on_termination": "true",
    }
    return {"device_name": DATA_DEVICE[generation.ami], "ebs": disk}


def _interface(entry: Interface, security_groups: list[Any]) -> dict[str, Any]:
    return {
        "network_card_index": entry.card,
        "device_index": entry.device,
        "interface_type": entry.kind,
        "security_groups": security_groups,
        "delete_on_termination": "true",
    }


def _reserved(generation: NodeGeneration) -> dict[str, Any]:
    """A reservation is named; a capacity block is also a market of its own (eksctl pull request 8207)."""
    if generation.capacity not in ("reservation", "block"):
        return {}
    target = {"capacity_reservation_id": generation.reservation}
    market = {"instance_market_options": {"market_type": "capacity-block"}} if generation.capacity == "block" else {}
    return {"capacity_reservation_specification": {"capacity_reservation_target": target}, **market}
