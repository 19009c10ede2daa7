"""Every fault that a plan can show before anything is built: the plan that has it is refused with its
message, the right plan passes. Names say the fault; the reports are in each rule's source."""

from __future__ import annotations

from typing import Any

import pytest

from infra.rules.all_rules import check, rules
from infra.rules.rule_table import rule_table
from tests.unit.plans import ROOT, changed, errors, found, make_plan, prod, stack_values
from tests.unit.test_autoscaling import FAULTS as AUTOSCALE_FAULTS
from tests.unit.test_encoder_rules import FAULTS as ENCODER_FAULTS
from tests.unit.test_groups_rules import FAULTS as GROUP_FAULTS
from tests.unit.test_observability_rules import FAULTS as OBSERVABILITY_FAULTS
from tests.unit.test_rules_chat import FAULTS as CHAT_FAULTS
from tests.unit.test_rules_connector import FAULTS as CONNECTOR_FAULTS
from tests.unit.test_rules_network import FAULTS as NETWORK_FAULTS

Change = tuple[str, Any]
GROUPS = "platform.aws.nodeGroups"
DEVICES = "engine.resources.extended"


@pytest.mark.parametrize(
    ("stack", "model"),
    [("prod", "llama-3.1-70b"), ("dev", "qwen3-32b"), ("onprem", "qwen3-32b"), ("local", "qwen3-0.6b")],
)
def test_the_example_of_each_platform_is_right(stack: str, model: str) -> None:
    assert check(make_plan(stack_values(stack), model)) == []


# name of the fault: (rule, changes to the right plan, words of the message)
FAULTS: dict[str, tuple[str, list[Change], str]] = {
    "probe_shorter_than_a_block_moves_nothing": (
        "probe-longer-than-a-block", [("gate.promptTokens", 128)],
        "gate.promptTokens: found 128, wanted more than one KV block (engine.blockSize 128)"),
    "ucx_on_efa_is_software_emulation": (
        "efa-backend", [("connector.backend", "UCX")], "connector.backend: found UCX, wanted LIBFABRIC on EFA"),
    "an_environment_variable_that_vllm_ignores": (
        "ignored-variables", [("engine.environment", {"NIXL_BACKEND": "LIBFABRIC"})],
        "engine.environment.NIXL_BACKEND: found 'LIBFABRIC', wanted no such variable"),
    "an_old_time_out_variable_that_vllm_ignores": (
        "ignored-variables", [("decode.environment", {"VLLM_NIXL_ABORT_REQUEST_TIMEOUT": "480"})],
        "use connector.options.kv_lease_duration"),
    "a_pod_without_its_efa_request_runs_over_tcp": (
        "rdma-device-requested", [(DEVICES, {"nvidia.com/gpu": 8})],
        "prefill.resources.extended.vpc.amazonaws.com/efa: found not asked for, wanted 32"),
    "one_of_many_efas_used": (
        "rdma-devices-used", [(DEVICES, {"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 1})],
        "found 1, wanted 32, the share of 8 GPUs of a p5.48xlarge"),
    "a_side_channel_on_localhost": (
        "side-channel-host", [("engine.environment", {"VLLM_NIXL_SIDE_CHANNEL_HOST": "0.0.0.0"})],
        "wanted the pod's own address and port"),
    "prefill_and_decode_of_different_images": (
        "parity-image", [("decode.image", "vllm:other")], "prefill.image and decode.image: found"),
    "prefill_and_decode_of_different_dtypes": (
        "parity-engine", [("decode.engine.dtype", "float16")],
        "prefill.engine.dtype and decode.engine.dtype: found bfloat16 and float16, wanted the same in both"),
    "prefill_and_decode_of_different_kv_dtypes": (
        "parity-engine", [("prefill.engine.kvCacheDtype", "fp8")], "kvCacheDtype: found fp8 and auto"),
    "prefill_and_decode_of_different_attention_backends": (
        "parity-engine", [("prefill.engine.attentionBackend", "FLASHINFER")], "found FLASHINFER and None"),
    "speculative_decoding_on_one_side": (
        "parity-arguments", [("decode.extraArgs", ["--speculative-config", '{"method": "ngram"}'])],
        "found `--speculative-config` not given and"),
    "a_different_revision_on_one_side": (
        "parity-arguments", [("prefill.extraArgs", ["--revision=abc"])], "`--revision` abc and not given"),
    "cross_layer_blocks_on_one_side": (
        "parity-connector-options", [("decode.connectorOptions", {"enable_cross_layers_blocks": True})],
        "found None and True, wanted the same in both"),
    "different_block_sizes": (
        "block-size-direction", [("decode.engine.blockSize", 64)], "found 128 and 64, wanted the same in both"),
    "more_prefill_than_decode_ranks": (
        "tp-direction", [("decode.engine.parallel", {"tensor": 4})], "found 8 and 4, wanted decode's a multiple"),
    "decode_ranks_that_are_no_multiple": (
        "tp-direction", [("prefill.engine.parallel", {"tensor": 3}), ("decode.engine.parallel", {"tensor": 8})],
        "found 3 and 8"),
    "ranks_that_do_not_divide_the_heads": (
        "tp-splits-heads", [("engine.parallel", {"tensor": 7})], "64 attention heads can't be split over 7 GPUs"),
    "pipeline_stages_on_decode": (
        "decode-pipeline", [("decode.engine.parallel", {"tensor": 4, "pipeline": 2})],
        "decode.engine.parallel.pipeline: found 2, wanted 1"),
    "different_gpus_without_a_named_attention_backend": (
        "attention-backend-across-gpus", [(f"{GROUPS}.decode.instance", "p5en.48xlarge")],
        "engine.attentionBackend: found not set, with H100 and H200"),
    "context_parallel_sizes_that_do_not_divide": (
        "context-parallel", [("prefill.extraArgs", ["--decode-context-parallel-size", "2"])], "size 2 and 1"),
    "nixl_0_10_on_blackwell": (
        "nixl-on-blackwell", [(f"{GROUPS}.{tier}.instance", "p6-b200.48xlarge") for tier in ("prefill", "decode")]
        + [("imageContents.nixl", "0.10.0"), ("platform.aws.region", "us-east-1")], "imageContents.nixl: found 0.10.0"),
    "libfabric_2_4_on_gb200": (
        "libfabric-on-gb200", [(f"{GROUPS}.{tier}.instance", "p6e-gb200.36xlarge") for tier in ("prefill", "decode")]
        + [("imageContents.libfabric", "2.4.0")], "imageContents.libfabric: found 2.4.0, wanted 2.5 or newer"),
    "the_stock_image_on_efa": (
        "efa-image", [("image", "vllm/vllm-openai:v0.32.0"), ("imageContents", {})],
        "image: found vllm/vllm-openai:v0.32.0, wanted an image with the EFA installer's libfabric"),
    "a_failure_policy_where_vllm_ignores_it": (
        "options-at-top-level", [("connector.options", {"kv_load_failure_policy": "recompute"})],
        "use connector.loadFailurePolicy"),
    "failures_that_only_show_as_latency": (
        "failures-are-seen", [("connector.loadFailurePolicy", "recompute")], "found recompute, wanted fail"),
    "an_argument_that_overrides_the_plan": (
        "overridden-arguments", [("decode.extraArgs", ["--kv-transfer-config", "None"])], "`--kv-transfer-config`"),
    "two_listeners_on_one_port": (
        "ports-unique", [("engine.sideChannelPort", 8000)], "engine.sideChannelPort: found 8000, which is engine.port's"),
    "a_data_parallel_rank_on_the_routers_port": (
        "ports-unique", [("engine.sideChannelPort", 8079), ("engine.parallel", {"tensor": 4, "data": 2})],
        "found 8080, which is router.port's too"),
    "too_few_gpus_asked_for": (
        "gpus-requested", [(DEVICES, {"nvidia.com/gpu": 4, "vpc.amazonaws.com/efa": 16})], "found 4, wanted 8"),
    "more_replicas_than_nodes_hold": ("gpus-enough", [("decode.replicas", 2)], "decode.replicas: found 2 of 8 GPUs"),
    "an_engine_larger_than_a_node": (
        "gpus-enough", [("engine.parallel", {"tensor": 16})], "found 16 GPUs an engine, wanted at most 8"),
    "huge_pages_that_two_pods_of_a_node_can_not_share": (
        "hugepages-fit", [("engine.parallel", {"tensor": 4}), ("decode.replicas", 2),
                          (DEVICES, {"nvidia.com/gpu": 4, "vpc.amazonaws.com/efa": 16, "hugepages-2Mi": "5200Mi"})],
        "found 5200Mi in each of 2 pods a node, wanted at most 5128Mi each"),
    "huge_pages_without_a_unit": (
        "hugepages-fit", [(f"{DEVICES}.hugepages-2Mi", 256)], "found 256, wanted an amount with its unit"),
    "locked_memory_that_a_plain_user_may_not_have": (
        "memory-lock", [("runAsUser", 65534)], "runAsUser: found 65534, wanted 0"),
    "tiers_in_two_zones": (
        "one-zone", [(f"{GROUPS}.decode.zone", "us-east-1b")], "found us-east-1a and us-east-1b, wanted one zone"),
    "a_zone_of_another_region": (
        "zone-of-region", [("platform.aws.zone", "eu-west-1a")], "found 'eu-west-1a', wanted a zone of us-east-1"),
    "prefill_and_decode_on_one_efa_node": (
        "two-nodes", [(f"{GROUPS}.decode.spreadTiers", False)], "wanted true where KV goes over EFA"),
    "a_placement_group_forced_on_reserved_capacity": (
        "placement-with-reservation",
        [(f"{GROUPS}.decode.capacity", "reservation"), (f"{GROUPS}.decode.reservation", "cr-1")],
        "placementGroup: found own, with capacity reservation"),
    "a_capacity_block_without_its_reservation": (
        "reservation-named",
        [(f"{GROUPS}.decode.capacity", "block"), (f"{GROUPS}.decode.placementGroup", "none")],
        "reservation: found None, with capacity block"),
    "a_disk_size_beside_a_launch_template": (
        "own-template-alone",
        [(f"{GROUPS}.decode.launchTemplate", "lt-1"), (f"{GROUPS}.decode.diskGib", 500)],
        "decode.diskGib: found 500, beside launchTemplate"),
    "an_instance_that_nobody_knows": (
        "instance-known", [(f"{GROUPS}.decode.instance", "p5.96xlarge")], "did you mean"),
    "a_region_without_the_type": (
        "instance-in-region", [("platform.aws.region", "il-central-1"), ("platform.aws.zone", "il-central-1a")],
        "found p5.48xlarge in il-central-1, wanted a region that offers it"),
    "a_tier_without_nodes": ("node-group-of-each-tier", [(f"{GROUPS}.decode", None)], "a node group for this tier"),
    "a_load_limit_that_ends_before_the_weights_are_there": (
        "load-limit", [("engine.loadLimitS", 120)], "engine.loadLimitS: found 120, wanted at least 201"),
    "a_gate_that_gives_up_before_the_model_is_loaded": (
        "gate-waits-for-loading", [("gate.readyLimitS", 600)], "found 600, wanted at least engine.loadLimitS 900"),
    "a_load_balancer_that_cuts_silent_streams": (
        "silence-is-not-cut", [("edge.loadBalancer", "application"), ("engine.sseKeepAliveS", 0)],
        "edge.idleTimeoutS: found 60 s, with engine.sseKeepAliveS off"),
    "comments_rarer_than_the_idle_timeout": (
        "silence-is-not-cut", [("edge.idleTimeoutS", 10)], "engine.sseKeepAliveS: found 15, wanted less than"),
    "a_balancer_in_three_zones_with_pods_in_one": (
        "balancer-reaches-pods",
        [("edge.crossZone", False), ("platform.aws.loadBalancerZones", ["us-east-1a", "us-east-1b"])],
        "edge.crossZone: found false, with the balancer in us-east-1b"),
    "a_kubeconfig_in_the_stack_file": (
        "kubeconfig-not-inline", [("platform.kubeconfig", '{"apiVersion": "v1"}')], "found a kubeconfig's content"),
    "a_prompt_longer_than_the_model": (
        "length-in-model", [("engine.maxModelLen", 200_000)], "found 200000, wanted at most 131072"),
    "weights_that_do_not_fit": (
        "memory-fit", [("engine.parallel", {"tensor": 1}), (f"{DEVICES}.nvidia.com/gpu", 1)],
        "141.1 GB of weights a GPU leave 0.0 GB"),
    "a_cache_that_holds_no_prompt": (
        "cache-holds-a-prompt", [("engine.gpuBlocks", 200)], "engine.gpuBlocks (prefill): found 200, wanted at least 257"),
    "a_connector_that_is_not_built": ("connector-built", [("connector.name", "mooncake")], "wanted one of: nixl"),
    "an_edge_that_is_not_built": (
        "built-here", [("platform", stack_values("onprem")["platform"]), ("edge.idleTimeoutS", 400)],
        "this version does not deploy it yet"),
    "an_image_that_is_not_named": ("image-named", [("image", None)], "image: found nothing"),
    "a_probe_longer_than_the_model_takes": (
        "probe-in-length", [("gate.promptTokens", 40_000)], "found 40000 (+ 8 for the answer), wanted at most 32760"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_plan_with_the_fault_is_told_so(fault: str) -> None:
    rule, changes, words = FAULTS[fault]
    messages = [str(finding) for finding in found(prod(*changes), rule)]
    assert messages, f"{rule} found nothing; all findings: {[str(f) for f in check(prod(*changes))]}"
    assert any(words in message for message in messages), messages


def test_every_rule_has_a_test_that_breaks_it() -> None:
    elsewhere = {"hybrid-equal-tp", "hybrid-state-layout", "hybrid-block-size", "gpus-shared", "geometry-known", "transfer-in-limit",
                 "aged-transfer-in-limit", "efa-self-rules", "tiers-reach-each-other", "interfaces-known",
                 "connector-window-memory", "connector-hybrid", "dra-efa-whole", "layers-possible", "cluster-stack-named",
                 "settings-of-the-layer", "encoder-for-the-model", "encoder-gpus", "prefill-pipeline"}  # fmt: skip
    tables = [
        *FAULTS.values(),
        *NETWORK_FAULTS.values(),
        *CHAT_FAULTS.values(),
        *ENCODER_FAULTS.values(),
        *AUTOSCALE_FAULTS.values(),
        *CONNECTOR_FAULTS.values(),
        *GROUP_FAULTS.values(),
        *OBSERVABILITY_FAULTS.values(),
    ]
    assert {rule.id for rule in rules()} == {rule for rule, _, _ in tables} | elsewhere


def test_rule_ids_are_unique_and_each_has_a_source() -> None:
    ids = [rule.id for rule in rules()]
    assert len(set(ids)) == len(ids)
    assert all(rule.source and rule.what.endswith(".") for rule in rules())


def test_all_errors_of_a_plan_come_at_once() -> None:
    plan = prod(("connector.backend", "UCX"), ("decode.engine.dtype", "float16"), ("edge.crossZone", False),
                ("platform.aws.loadBalancerZones", ["us-east-1c"]))  # fmt: skip
    assert len(errors(plan)) == 4  # UCX on EFA is too slow, as well


class TestTransferInLimit:
    """The physics: Llama 3.1 70B, 8,192 tokens, BF16."""

    @staticmethod
    def on(instance: str, tp: int, block_size: int, *more: Change) -> Any:
        groups = [(f"{GROUPS}.{tier}.instance", instance) for tier in ("prefill", "decode")]
        return prod(*groups, ("engine.parallel", {"tensor": tp}), ("engine.blockSize", block_size), *more)

    def test_p4d_is_refused_with_the_figures(self) -> None:
        message = str(found(self.on("p4d.24xlarge", 4, 128), "transfer-in-limit")[0])
        assert "8,192 tokens are 2,684 MB, 671 MB a rank over 6.25 GB/s (efa p4d.24xlarge)" in message
        assert "found 100, wanted more than 109 ms" in message and "stay collocated" in message

    def test_p5_with_large_blocks_is_accepted(self) -> None:
        plan = self.on("p5.48xlarge", 8, 128)
        assert not found(plan, "transfer-in-limit") and not found(plan, "aged-transfer-in-limit")

    def test_p5_with_small_blocks_is_warned_of_the_aged_cache(self) -> None:
        plan = self.on("p5.48xlarge", 8, 16)
        finding = found(plan, "aged-transfer-in-limit")[0]
        assert finding.severity == "warning" and not found(plan, "transfer-in-limit")
        assert "16: 8 ms fresh, but 147 ms with an aged cache (40,960 pieces)" in str(finding)
        assert "set engine.blockSize: 128" in str(finding)

    def test_the_figures_follow_prompt_limit_and_ranks(self) -> None:
        assert not found(self.on("p4d.24xlarge", 4, 128, ("gate.promptTokens", 4096)), "transfer-in-limit")
        assert not found(self.on("p4d.24xlarge", 4, 128, ("gate.limitMs", 200)), "transfer-in-limit")
        assert not found(self.on("p4d.24xlarge", 8, 128), "transfer-in-limit")


def test_a_model_with_states_needs_equal_ranks_and_the_layout_that_nixl_moves() -> None:
    wrong = prod(("prefill.engine.parallel", {"tensor": 4}), model="qwen3-next-80b-a3b")
    assert found(wrong, "hybrid-equal-tp")
    assert "VLLM_SSM_CONV_STATE_LAYOUT: found not set, wanted DS" in str(found(wrong, "hybrid-state-layout")[0])
    right = prod(("engine.environment", {"VLLM_SSM_CONV_STATE_LAYOUT": "DS"}), ("engine.parallel", {"tensor": 2}),
                 model="qwen3-next-80b-a3b")  # fmt: skip
    assert not found(right, "hybrid-equal-tp") and not found(right, "hybrid-state-layout")


def test_blocks_of_a_model_with_states_hold_a_layer_s_states() -> None:
    """(2 * 16 * 128 + 32 * 128) * 3 + 32 * 128 * 128 elements of state; 2 * 2 * 256 of attention a token."""
    one_rank = ("engine.parallel", {"tensor": 1})
    finding = found(prod(one_rank, ("engine.blockSize", 512), model="qwen3-next-80b-a3b"), "hybrid-block-size")[0]
    assert str(finding).startswith("engine.blockSize: found 512, wanted 544 or more for this model")
    assert not found(prod(one_rank, ("engine.blockSize", 544), model="qwen3-next-80b-a3b"), "hybrid-block-size")
    assert not found(prod(("engine.blockSize", 16)), "hybrid-block-size")


def test_latent_attention_may_have_more_prefill_ranks() -> None:
    assert not found(prod(("decode.engine.parallel", {"tensor": 4}), model="deepseek-v3"), "tp-direction")


def test_tiers_of_an_existing_cluster_share_its_gpus() -> None:
    plan = make_plan(changed(stack_values("onprem"), ("decode.replicas", 7)), "qwen3-32b")
    assert "wanted 18 GPUs for the replicas of all tiers" in str(found(plan, "gpus-shared")[0])


def test_an_architecture_that_is_not_computed_is_refused_unless_its_bytes_are_stated() -> None:
    values = stack_values("prod")
    odd = {"model_type": "falcon_h1", "num_hidden_layers": 2, "num_attention_heads": 8, "hidden_size": 64}
    plan = make_plan(values)
    unknown = type(plan)(plan.settings, odd)
    assert "attention and state in one layer" in str(found(unknown, "geometry-known")[0])
    stated = make_plan(changed(values, ("model.kvBytesPerToken", 4096)))
    assert not found(type(plan)(stated.settings, odd), "geometry-known")
    assert type(plan)(stated.settings, odd).geometry is not None


def test_gb200_nodes_need_a_launch_template_while_their_cards_are_unknown() -> None:
    groups = [(f"{GROUPS}.{tier}.instance", "p6e-gb200.36xlarge") for tier in ("prefill", "decode")]
    assert "how many network cards" in str(found(prod(*groups), "interfaces-known")[0])
    templates = [(f"{GROUPS}.{tier}.launchTemplate", "lt-1") for tier in ("prefill", "decode")]
    assert not found(prod(*groups, *templates), "interfaces-known")


class TestSecurityGroups:
    """EC2's own DescribeSecurityGroups answers."""

    ANYWHERE = {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}], "UserIdGroupPairs": []}

    @staticmethod
    def itself(group: str) -> dict[str, Any]:
        return {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}], "IpRanges": []}

    def group(self, name: str, ingress: list[Any], egress: list[Any]) -> dict[str, Any]:
        return {"GroupId": name, "IpPermissions": ingress, "IpPermissionsEgress": egress}

    def test_egress_to_anywhere_does_not_cover_efa(self) -> None:
        group = self.group("sg-1", [self.itself("sg-1")], [self.ANYWHERE])
        plan = prod(security_groups={"prefill": group, "decode": group})
        assert "sg-1 without a self-referencing egress rule" in str(found(plan, "efa-self-rules")[0])

    def test_both_self_rules_are_right(self) -> None:
        group = self.group("sg-1", [self.itself("sg-1")], [self.itself("sg-1"), self.ANYWHERE])
        assert not found(prod(security_groups={"prefill": group, "decode": group}), "efa-self-rules")

    def test_a_tier_that_can_not_reach_another_is_named_with_the_port(self) -> None:
        prefill, decode = self.group("sg-p", [self.itself("sg-p")], []), self.group("sg-d", [], [])
        plan = prod(security_groups={"prefill": prefill, "decode": decode})
        assert "sg-p without a way in for decode on port 5600" in str(found(plan, "tiers-reach-each-other")[0])
        opened = {"IpProtocol": "tcp", "FromPort": 5000, "ToPort": 6000, "UserIdGroupPairs": [{"GroupId": "sg-d"}]}
        prefill["IpPermissions"].append(opened)
        assert not found(plan, "tiers-reach-each-other")


def test_the_table_of_rules_in_the_docs_is_made_from_the_code() -> None:
    assert (ROOT / "docs/reference/rules.md").read_text() == rule_table(), (
        "run: splitserve rules > docs/reference/rules.md"
    )
