"""Engines over several nodes: sizes that vLLM can spread, and nodes that hold them."""

from __future__ import annotations

from collections.abc import Iterator

from components.hardware.model_config import ModelConfig
from infra.autoscaling import scaled
from infra.over_nodes import tiers_over_nodes
from infra.plan import Plan
from infra.rules.rule import Finding, rule
from infra.schema.serving import Parallel

EXPERTS = ("n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts")
"""How families of models write the number of experts in config.json."""


def _parallel(plan: Plan) -> Iterator[tuple[str, Parallel]]:
    for tier in plan.settings.tiers:
        yield tier, plan.settings.engine_of(tier).parallel


@rule("group-divides", "error", "The ranks of an engine are spread evenly over its nodes, none of its copies over a part of one.",
      "vllm 0.32 engine/arg_utils.py: --nnodes must evenly divide the world size; config/parallel.py "
      "nnodes_within_dp")  # fmt: skip
def group_divides(plan: Plan) -> Iterator[Finding]:
    for tier, parallel in _parallel(plan):
        key, nodes, copy = f"{tier}.engine.parallel", parallel.nodes, parallel.tensor * parallel.pipeline
        if parallel.gpus % nodes:
            yield Finding(f"{key}.nodes", f"{nodes}, for {parallel.gpus} GPUs an engine",
                          f"a divisor of tensor x pipeline x data, {parallel.gpus}",
                          "fewer nodes, or more parallelism")  # fmt: skip
        elif nodes > 1 and parallel.gpus_per_pod % copy and copy % parallel.gpus_per_pod:
            yield Finding(f"{key}.nodes", f"{parallel.gpus_per_pod} GPUs a node, for copies of {copy} GPUs",
                          "whole copies on each node, or whole nodes for each copy (tensor x pipeline)",
                          "choose nodes so that one divides the other")  # fmt: skip


@rule("group-tensor-on-node", "warning", "Tensor parallelism stays inside a node.",
      "vllm 0.32 docs/serving/parallelism_scaling.md: tensor parallel size the GPUs of a node, pipeline parallel size "
      "the nodes; each layer ends with an all-reduce of all tensor-parallel ranks")  # fmt: skip
def group_tensor_on_node(plan: Plan) -> Iterator[Finding]:
    for tier, parallel in _parallel(plan):
        if parallel.nodes > 1 and parallel.tensor > parallel.gpus_per_pod:
            fix = "pipeline stages over nodes" if tier != "decode" else "data parallelism over nodes, for experts"
            yield Finding(f"{tier}.engine.parallel.tensor", f"{parallel.tensor}, over nodes of {parallel.gpus_per_pod} GPUs",
                          f"at most {parallel.gpus_per_pod}, one node's", fix)  # fmt: skip


@rule("group-whole-nodes", "warning", "An engine over several nodes takes all GPUs of each.",
      "splitserve: what it leaves of a node only a smaller engine can use, over the same interfaces")  # fmt: skip
def group_whole_nodes(plan: Plan) -> Iterator[Finding]:
    for tier, parallel in _parallel(plan):
        hardware = plan.hardware[tier]
        if parallel.nodes > 1 and hardware and parallel.gpus_per_pod < hardware.gpus_per_node:
            yield Finding(f"{tier}.engine.parallel.nodes", f"{parallel.nodes}, {parallel.gpus_per_pod} GPUs on each",
                          f"all {hardware.gpus_per_node} GPUs of a node", "fewer nodes for each engine")  # fmt: skip


@rule("rack-of-group", "error", "A rack is for engines over several nodes.",
      "lws 0.7.0 pod_webhook.go SetExclusiveAffinities: it is the group that is kept together")  # fmt: skip
def rack_of_group(plan: Plan) -> Iterator[Finding]:
    for tier, parallel in _parallel(plan):
        label = plan.settings.tiers[tier].rack_label
        if label and parallel.nodes == 1:
            yield Finding(f"{tier}.rackLabel", f"{label}, with engines on one node each", "nothing",
                          f"set {tier}.engine.parallel.nodes, or leave it out")  # fmt: skip


@rule("group-controller", "error", "Where a tier has engines over several nodes, something makes them.",
      "splitserve: on a cluster of its own nobody else brings the controller of LeaderWorkerSets")  # fmt: skip
def group_controller(plan: Plan) -> Iterator[Finding]:
    platform, tiers = plan.settings.platform, tiers_over_nodes(plan)
    own = platform.kind == "aws" and platform.layers == "all"
    if own and tiers and platform.node_software.leader_worker_sets == "none":
        yield Finding("platform.nodeSoftware.leaderWorkerSets", f"none, with engines over nodes in {', '.join(tiers)}",
                      "auto", "leave it out")  # fmt: skip


@rule("autoscale-groups", "error", "Tiers of engines over several nodes keep their replicas.",
      "lws 0.7.0 leaderworkerset_controller.go: the group with the highest number goes first, not the one that the "
      "autoscaler has drained")  # fmt: skip
def autoscale_groups(plan: Plan) -> Iterator[Finding]:
    for tier in sorted(scaled(plan.settings).keys() & set(tiers_over_nodes(plan))):
        yield Finding(f"autoscale.{tier}", f"bounds, for engines over {plan.settings.engine_of(tier).parallel.nodes} nodes",
                      "nothing", f"set {tier}.replicas by hand")  # fmt: skip


@rule("expert-parallel-moe", "error", "Expert parallelism is for models of experts.",
      "vllm 0.32 config/model.py _verify_with_expert_parallelism: it ends the engine's start")  # fmt: skip
def expert_parallel_moe(plan: Plan) -> Iterator[Finding]:
    content = ModelConfig(plan.config)
    for tier, parallel in _parallel(plan):
        if parallel.expert and not any(content.has(key) for key in EXPERTS):
            yield Finding(f"{tier}.engine.parallel.expert", f"true, for {plan.settings.model.name}, which has no experts",
                          "false", "leave it out")  # fmt: skip


@rule("all-to-all-of-experts", "error", "What moves tokens between experts is named where experts are spread over copies.",
      "vllm 0.32 config/parallel.py: all2all_backend is used with expert parallelism over data-parallel ranks")  # fmt: skip
def all_to_all(plan: Plan) -> Iterator[Finding]:
    for tier, parallel in _parallel(plan):
        if parallel.all_to_all and not (parallel.expert and parallel.data > 1):
            yield Finding(f"{tier}.engine.parallel.allToAll", f"{parallel.all_to_all}, with expert: "
                          f"{str(parallel.expert).lower()} and data: {parallel.data}", "expert: true and data above 1",
                          "leave it out")  # fmt: skip


@rule("prefill-pipeline", "error", "A prefill tier with pipeline stages has a cache that NIXL can send in parts.",
      "vllm 0.32 NIXL base_worker.py: pull refuses stages with hybrid caches, push with states")  # fmt: skip
def prefill_pipeline(plan: Plan) -> Iterator[Finding]:
    geometry = plan.geometry
    if plan.settings.topology != "prefill-decode" or geometry is None:
        return
    stages = plan.settings.engine_of("prefill").parallel.pipeline
    names = {part.name for part in plan.settings.connector.chosen.parts}
    pull = "nixl" in names and (geometry.has_state or geometry.has_window)
    push = "nixl-push" in names and geometry.has_state
    if stages > 1 and (pull or push):
        way_out = "tensor parallelism" + (", or connector.name: nixl-push" if not geometry.has_state else "")
        yield Finding("prefill.engine.parallel.pipeline", f"{stages}, for a model with "
                      f"{'states' if geometry.has_state else 'sliding windows'}", "1", way_out)  # fmt: skip
