"""Bad input for AWS, through the real engine: refused at preview, before AWS is asked, with every fault at once.

The faults and their words are the unit tests'; here several share a stack file, as they would a user's.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engine.test_plans import shown
from tests.unit import test_rules, test_rules_network
from tests.unit.plans import changed, errors, prod, stack_values
from tools.deployment import Deployment

FAULTS = test_rules.FAULTS | test_rules_network.FAULTS
STACK_FILES = {
    "nodes_of_one_pair_apart": [
        "prefill_and_decode_on_one_efa_node", "tiers_in_two_zones", "more_efa_than_a_node_has",
        "fewer_nodes_at_most_than_wanted", "no_nodes_for_routers", "a_second_zone_that_is_the_first",
        "an_ami_release_of_another_kubernetes_version", "a_load_balancer_that_cuts_silent_streams",
    ],
    "no_efa_and_another_region": [
        "efa_asked_for_on_a_type_without_it", "a_zone_of_another_region", "a_second_zone_of_another_region",
        "a_range_over_the_services", "facing_the_internet_without_a_balancer", "administrators_of_a_private_network",
        "clients_of_no_range", "an_add_on_that_nobody_installs",
    ],
    "a_region_without_the_type_and_no_way_out": [
        "a_region_without_the_type", "a_range_of_others", "no_way_out", "an_image_of_the_internet_without_a_way_out",
        "prompts_in_plain_text_on_the_internet", "an_idle_timeout_that_the_balancer_refuses",
        "a_kubernetes_version_without_its_add_ons", "administrators_with_host_bits", "an_ami_release_of_another_family",
    ],
    "more_nodes_than_addresses": [
        "more_nodes_than_addresses", "comments_rarer_than_the_idle_timeout", "a_public_balancer_that_admits_nobody",
    ],
    "a_range_with_host_bits": [
        "a_range_with_host_bits", "nodes_in_a_zone_without_a_subnet", "a_client_without_its_prefix_length",
        "an_add_on_version_of_another_form", "a_kubernetes_patch_version",
    ],
}  # fmt: skip


@pytest.mark.parametrize("stack_file", STACK_FILES)
def test_all_faults_of_a_stack_file_are_told_and_nothing_is_created(
    deployment: Deployment, tmp_path: Path, stack_file: str
) -> None:
    faults = STACK_FILES[stack_file]
    changes = [change for fault in faults for change in FAULTS[fault][1]]
    expected = errors(prod(*changes))
    finished = shown(deployment, tmp_path)("preview", "prod", **changed(stack_values("prod"), *changes))
    assert finished.code == 1, finished.text
    assert "Traceback" not in finished.text
    assert f"{len(expected)} fault(s), nothing was changed" in finished.text
    for words in [FAULTS[fault][2] for fault in faults] + expected:
        assert words in finished.text, finished.text
    assert not json.loads(deployment.run("stack", "export").text)["deployment"].get("resources")
