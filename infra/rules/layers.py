"""Cluster and serving in one stack or in two: which settings belong to which."""

from __future__ import annotations

from collections.abc import Iterator

from infra.aws_names import POOLS
from infra.plan import Plan
from infra.rules.rule import Finding, rule
from infra.schema.platform import Aws

GPU_TIERS = ("prefill", "decode", "collocated")
OTHER_STACK = {"cluster": "serving", "serving": "cluster"}


@rule("layers-possible", "error", "The local cluster is one layer.",
      "splitserve: `make up` makes the cluster, and a stack what runs on it")  # fmt: skip
def layers_possible(plan: Plan) -> Iterator[Finding]:
    platform = plan.settings.platform
    if platform.kind == "local" and platform.layers != "all":
        yield Finding("platform.layers", f"{platform.layers}, on the local cluster", "all", "leave it out")


@rule("cluster-stack-named", "error", "A serving stack on AWS names the stack that made its cluster.",
      "https://www.pulumi.com/docs/iac/concepts/stacks/#stackreferences: organization/project/stack")  # fmt: skip
def cluster_stack_named(plan: Plan) -> Iterator[Finding]:
    aws, layers = plan.settings.platform.aws, plan.settings.platform.layers
    if not aws:
        return
    key, given = "platform.aws.clusterStack", aws.cluster_stack
    if layers == "serving" and (given or "").count("/") != 2:
        yield Finding(key, f"{given or 'nothing'}", "organization/project/stack of the stack with layers: cluster",
                      "such as organization/splitserve/cluster; without Pulumi Cloud the organization is `organization`")  # fmt: skip
    if layers != "serving" and given:
        yield Finding(key, f"{given}, with layers: {layers}", "nothing", "or set platform.layers: serving")


@rule("settings-of-the-layer", "error", "A stack of one layer holds that layer's settings alone.",
      "splitserve: what another stack decides would be ignored here")  # fmt: skip
def settings_of_the_layer(plan: Plan) -> Iterator[Finding]:
    aws, layers = plan.settings.platform.aws, plan.settings.platform.layers
    if aws and layers != "all":
        for key, found in _of_the_other(aws, layers):
            yield Finding(f"platform.aws.{key}", f"{found}, with layers: {layers}", "nothing",
                          f"it belongs to the stack with layers: {OTHER_STACK[layers]}")  # fmt: skip


def _of_the_other(aws: Aws, layers: str) -> Iterator[tuple[str, str]]:
    for tier in GPU_TIERS if layers == "cluster" else POOLS:
        group = getattr(aws.node_groups, tier)
        if group:
            yield f"nodeGroups.{tier}", group.instance
    if layers == "serving":
        given = {"network": aws.network, "cluster": aws.cluster}
        yield from ((key, "settings") for key, section in given.items() if section.model_fields_set)
        yield from [("secondZone", aws.second_zone)] if aws.second_zone else []
