"""The catalogue agrees with what EC2 answered; a changed answer is shown fact by fact."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import pytest
from hypothesis import given
from hypothesis import strategies as st
from moto import mock_aws

from components.hardware import catalogue as catalogue_file
from components.hardware.catalogue import UnknownInstance, catalogue, instance
from components.hardware.ec2 import Difference, differences, merge_regions, read_instance_types
from components.hardware.instance import Instance
from components.hardware.interfaces import Interface, LayoutUnknown, layout, layout_faults

EFA_TYPES = sorted(name for name, found in catalogue().items() if found.efa_interfaces and found.cards)
REGION = "us-east-1"


@pytest.fixture(scope="module")
def answer() -> Iterator[dict[str, Instance]]:
    """EC2's answers as moto recorded them."""
    saved = dict(os.environ)
    os.environ.update(AWS_ACCESS_KEY_ID="test", AWS_SECRET_ACCESS_KEY="test")
    with mock_aws():
        yield read_instance_types(boto3.client("ec2", region_name=REGION))
    os.environ.clear()
    os.environ.update(saved)


def test_the_catalogue_is_what_ec2_answered(answer: dict[str, Instance]) -> None:
    assert len(answer) > 40
    assert list(differences(catalogue(), answer, REGION)) == []


def test_a_difference_names_type_fact_and_both_values(answer: dict[str, Instance]) -> None:
    changed = answer | {"p5.48xlarge": replace(answer["p5.48xlarge"], efa_interfaces=31)}
    del changed["p4d.24xlarge"]
    found = list(differences(catalogue(), changed, REGION))
    assert Difference("p5.48xlarge", "efa_interfaces", 32, 31) in found
    assert Difference("p4d.24xlarge", "type", "p4d.24xlarge", None) in found
    assert len(found) == 2


def test_a_saved_catalogue_reads_back(answer: dict[str, Instance], tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "instances.json"
    catalogue_file.save(merge_regions([answer]), "test", "2026-11-30", path)
    monkeypatch.setattr(catalogue_file, "FILE", path)
    for cached in (catalogue_file.catalogue, catalogue_file._content):
        cached.cache_clear()
    try:
        assert catalogue_file.catalogue() == answer
    finally:
        for cached in (catalogue_file.catalogue, catalogue_file._content):
            cached.cache_clear()


@pytest.mark.parametrize(
    ("name", "gpus", "memory_mib", "gbit_per_s", "efas", "gb_per_s_per_gpu"),
    [
        ("g6e.48xlarge", 8, 45776, 400, 4, 6.25),
        ("p4d.24xlarge", 8, 40960, 400, 4, 6.25),
        ("p5.48xlarge", 8, 81920, 3200, 32, 50),
        ("p5en.48xlarge", 8, 144384, 3200, 16, 50),
        ("p6-b200.48xlarge", 8, 183359, 3200, 8, 50),
        ("p6-b300.48xlarge", 8, 275040, 6400, 16, 100),
    ],
)
def test_published_figures(name: str, gpus: int, memory_mib: int, gbit_per_s: int, efas: int,
                           gb_per_s_per_gpu: float) -> None:  # fmt: skip
    found = instance(name)
    assert (found.gpus, found.gpu_memory_mib, found.efa_interfaces) == (gpus, memory_mib, efas)
    assert found.network_gbit_per_s == gbit_per_s
    assert found.gbit_per_s_per_gpu / 8 == gb_per_s_per_gpu


def test_gpudirect_is_known_of_p_types_and_unknown_of_g_types() -> None:
    assert instance("p5.48xlarge").gpudirect is True
    assert instance("g6e.48xlarge").gpudirect is None
    assert instance("g6e.4xlarge").gpudirect is False


def test_an_unknown_type_names_the_nearest_and_the_way_out() -> None:
    with pytest.raises(UnknownInstance, match=r"did you mean p5\.48xlarge.*instances --refresh"):
        instance("p5.48xlrage")


@given(st.sampled_from(EFA_TYPES), st.sampled_from(["save", "bandwidth"]))
def test_a_layout_repeats_no_place_and_uses_every_efa_with_one_primary(name: str, addresses: Any) -> None:
    found = instance(name)
    interfaces = layout(found, addresses)
    places = [(i.card, i.device) for i in interfaces]
    assert len(set(places)) == len(places)
    assert sum(i.carries_efa for i in interfaces) == found.efa_interfaces
    assert [i for i in interfaces if (i.card, i.device) == (0, 0)] == [Interface(0, 0, "interface")]
    assert layout_faults(found, interfaces) == []


@pytest.mark.parametrize(
    ("name", "addresses", "expected"),
    [
        ("p4d.24xlarge", "save", [(0, 0, "interface"), (0, 1, "efa-only"), *((c, 0, "efa-only") for c in (1, 2, 3))]),
        ("p6-b300.48xlarge", "save", [(0, 0, "interface"), *((c, 0, "efa-only") for c in range(1, 17))]),
        ("p5.4xlarge", "save", [(0, 0, "interface"), (0, 1, "efa-only")]),
        ("g5.2xlarge", "save", [(0, 0, "interface")]),
    ],
)
def test_layouts_by_todays_rules(name: str, addresses: Any, expected: list[tuple[int, int, str]]) -> None:
    assert [(i.card, i.device, i.kind) for i in layout(instance(name), addresses)] == expected


def test_p5_takes_an_ip_interface_on_every_fourth_card_for_its_full_bandwidth() -> None:
    interfaces = layout(instance("p5.48xlarge"), "bandwidth")
    assert [i.card for i in interfaces if i.needs_address] == [0, 4, 8, 12, 16, 20, 24, 28]
    assert len([i for i in layout(instance("p5.48xlarge")) if i.needs_address]) == 1


def test_gb200_alternates_and_is_refused_while_its_cards_are_unknown() -> None:
    known = replace(instance("p6e-gb200.36xlarge"), cards=instance("p4d.24xlarge").cards)
    assert [i.kind for i in layout(known)] == ["efa", "efa-only", "efa", "efa-only"]
    with pytest.raises(LayoutUnknown, match="how many network cards"):
        layout(instance("p6e-gb200.36xlarge"))


@pytest.mark.parametrize(
    ("interfaces", "fault"),
    [
        (
            [(0, 0, "efa"), (0, 1, "efa"), (0, 2, "efa"), (0, 3, "efa"), (0, 3, "efa")],
            "card 0, device 3 is given twice",
        ),
        ([(0, 0, "efa-only")], "must be there once, and not be `efa-only`"),
        ([(0, 0, "interface"), (4, 0, "efa-only")], "card 4: p4d.24xlarge has cards 0 to 3"),
        ([(0, 0, "interface"), (1, 0, "efa-only")], "1 of 4 EFAs are used"),
        ([(0, 0, "interface"), (1, 15, "efa-only")], "card 1: device 15, allowed 0 to 14"),
    ],
)
def test_a_layout_that_ec2_would_refuse_is_named(interfaces: list[tuple[int, int, Any]], fault: str) -> None:
    """All on card 0 (terraform-aws-eks issues 2654 and 2182), and its kind."""
    faults = layout_faults(instance("p4d.24xlarge"), [Interface(*entry) for entry in interfaces])
    assert any(fault in found for found in faults), faults


def test_an_efa_on_the_card_of_p6_b300_that_takes_none_is_named() -> None:
    old_rule = [Interface(0, 0, "efa"), *(Interface(card, 1, "efa-only") for card in range(1, 17))]
    assert "card 0 of p6-b300.48xlarge takes no EFA" in layout_faults(instance("p6-b300.48xlarge"), old_rule)
