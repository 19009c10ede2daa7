"""What nodes are told at boot, read as their own software reads it."""

from __future__ import annotations

import base64
import email
import tomllib
from email import policy
from typing import Any

import pytest
import yaml

from components.platform.node_generation import AmiFamily
from components.platform.user_data import user_data

LIMIT = 16 * 1024
"""EC2 user guide, "Run commands when you launch an EC2 instance with user data input": 16 KB before base64."""


def decoded(ami: AmiFamily, nvme: bool) -> bytes:
    return base64.b64decode(user_data(ami, nvme), validate=True)


def node_config(nvme: bool) -> dict[str, Any]:
    """The one part for nodeadm, whose media type it looks for (amazon-eks-ami, nodeadm/internal/configprovider)."""
    message = email.message_from_bytes(decoded("al2023", nvme), policy=policy.default)
    assert message["MIME-Version"] == "1.0" and message.get_content_type() == "multipart/mixed"
    assert not message.defects
    [part] = message.iter_parts()
    assert part.get_content_type() == "application/node.eks.aws" and not part.defects
    return yaml.safe_load(part.get_content())


def test_nodeadm_finds_a_node_config_of_its_version() -> None:
    for nvme in (True, False):
        config = node_config(nvme)
        assert (config["apiVersion"], config["kind"]) == ("node.eks.aws/v1alpha1", "NodeConfig")


def test_local_disks_become_one_array_where_there_are_any() -> None:
    """`strategy` is RAID0, RAID10 or Mount (awslabs.github.io/amazon-eks-ami/nodeadm/doc/api)."""
    assert node_config(nvme=True)["spec"] == {"instance": {"localStorage": {"strategy": "RAID0"}}}
    assert node_config(nvme=False)["spec"] == {}


def test_bottlerocket_binds_what_fills_disks_to_its_local_ones_at_every_boot() -> None:
    """bottlerocket.dev: init before bind; `always`, since local disks are empty after a stop."""
    commands = tomllib.loads(decoded("bottlerocket", True).decode())["settings"]["bootstrap-commands"]
    [disks] = commands.values()
    assert [command[:3] for command in disks["commands"]] == [
        ["apiclient", "ephemeral-storage", "init"],
        ["apiclient", "ephemeral-storage", "bind"],
    ]
    bound = disks["commands"][1]
    assert bound[3] == "--dirs" and set(bound[4:]) == {"/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods"}
    assert (disks["mode"], disks["essential"]) == ("always", True)


def test_bottlerocket_without_local_disks_is_told_nothing_of_them() -> None:
    assert tomllib.loads(decoded("bottlerocket", False).decode()) == {"settings": {"kubernetes": {}}}


@pytest.mark.parametrize("ami", ["al2023", "bottlerocket"])
@pytest.mark.parametrize("nvme", [True, False])
def test_equal_nodes_get_equal_text_that_fits_and_names_no_cluster(ami: AmiFamily, nvme: bool) -> None:
    """EKS puts the cluster's part in; a boundary drawn by chance would make a new template at every update."""
    assert user_data(ami, nvme) == user_data(ami, nvme)
    assert len(decoded(ami, nvme)) < LIMIT
    assert b"cluster" not in decoded(ami, nvme)
