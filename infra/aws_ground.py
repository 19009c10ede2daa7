"""The ground of a stack on AWS: the platform of this update, and the cluster as far as it is there yet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as k8s
from botocore.exceptions import BotoCoreError, ClientError

from components.platform.aws_cluster import AwsCluster
from components.platform.cluster_facts import ClusterFacts
from components.platform.eks_access import EksCluster, EksUnknown, find_cluster, kubeconfig, save
from components.platform.gpu_nodes import GpuNodes
from components.platform.load_balancer import LoadBalancer
from components.platform.node_count import EksNodes, sizes
from components.platform.weights import (
    S3_SIZE,
    BucketWeights,
    LustreFileSystem,
    LustreWeights,
    WeightsClaim,
    WeightsClaimArgs,
    bucket_volume,
)
from components.release.cluster import Access
from components.release.ledger import Plan as UpdatePlan
from infra import aws_preflight, preflight
from infra.aws_arguments import (
    aws_of,
    cluster_args,
    full_sizes,
    generations,
    gpu_nodes_args,
    load_balancer_args,
    stack_tags,
)
from infra.aws_names import platform_name
from infra.existing_ground import discovered, refuse_without_operator
from infra.foundation import Ground, Observed, foundation
from infra.leader_worker_sets import controller_args
from infra.model_files import WEIGHTS_CLAIM
from infra.node_plugins import check_plugins, plugin_args
from infra.plan import Plan
from infra.settings import SettingsError
from splitserve import names

NODES_START_LIMIT_S = 1200
"""Large GPU nodes boot in minutes; capacity that is missing shows earlier, on the group's health."""


@dataclass(frozen=True)
class OnAws:
    """What one update declares on AWS: the cluster, its own or another stack's, and ways to it."""

    facts: ClusterFacts
    opts: pulumi.ResourceOptions
    kubernetes: k8s.Provider
    before_nodes: list[pulumi.Resource]
    ready: list[pulumi.Resource]


def kubeconfig_path(project: Path, stack: str) -> Path:
    return project / ".local" / "eks" / f"{stack}.kubeconfig"


def observe(plan: Plan, project: Path, owner: str, stack: str, where: str, theirs: ClusterFacts | None) -> Observed:
    """AWS's answers about the plan, and the cluster if it is there already; `theirs` is another stack's.

    Raises SettingsError.
    """
    warnings = aws_preflight.preflight(plan, where, stack, theirs).warnings
    region, name = aws_of(plan.settings).region, str(theirs.name) if theirs else platform_name(stack)
    access = Access(str(kubeconfig_path(project, stack)), name, plan.settings.platform.namespace)
    try:
        found = find_cluster(name, region)
        if found is None:
            refuse_without_operator(plan, None, where)
            return Observed(access, preflight.Observed(None, None, {}), warnings=warnings)
        save(kubeconfig_path(project, stack), found)
        counts = sizes(region, name)
    except (EksUnknown, BotoCoreError, ClientError) as error:
        raise SettingsError(where, [
            f"platform.aws: {error}; give credentials that may ask (docs/reference/preflight.md)"
        ]) from None  # fmt: skip
    cluster = preflight.observe(access, owner, where)
    seen, more = discovered(plan, access, where)
    if seen:
        refuse_without_operator(plan, seen, where)
    return Observed(access, cluster, counts, seen, warnings + more)


def declare(plan: Plan, update: UpdatePlan, observed: Observed, owner: str, stack: str,
            theirs: ClusterFacts | None) -> Ground:  # fmt: skip
    """Everything on AWS, and what releases need in the cluster."""
    settings, name = plan.settings, platform_name(stack)
    there = cluster_of_another(plan, observed.access, stack, theirs) if theirs else own_cluster(plan, observed, stack)
    needed = generations([update.live.release if update.live else None, update.candidate])
    after = pulumi.ResourceOptions(depends_on=there.before_nodes)
    nodes_opts = pulumi.ResourceOptions.merge(there.opts, after)
    gpu_nodes = GpuNodes(name, gpu_nodes_args(settings, stack, there.facts, needed), nodes_opts)
    groups = list(gpu_nodes.groups.values())
    plugins = check_plugins(plugin_args(plan, owner, observed.found), stack)
    controller = controller_args(plan, owner, observed.found, stack, update)
    opts = foundation(there.kubernetes, plan, observed.access, update, plugins, [*there.ready, *groups], controller)
    weights = _weights(plan, there, stack, opts)
    outside = settings.edge.service_type == "LoadBalancer"
    return Ground(
        opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=weights)),
        nodes=EksNodes(
            there.facts.region,
            there.facts.name,
            name,
            full_sizes(settings),
            observed.nodes,
            NODES_START_LIMIT_S,
            groups,
        ),
        outside=LoadBalancer(name, load_balancer_args(settings, there.facts), there.opts).endpoint if outside else None,
        node_port=settings.edge.node_port if outside else None,
        service_type="NodePort" if outside else settings.edge.service_type,
        outputs={names.CLUSTER: there.facts.exported()},
    )


def own_cluster(plan: Plan, observed: Observed, stack: str) -> OnAws:
    """The cluster that this stack makes."""
    args = cluster_args(plan.settings, stack)
    opts = _provider(args.region, dict(args.tags))
    cluster = AwsCluster(platform_name(stack), args, opts)
    kubernetes = _kubernetes(cluster.facts, observed.access, cluster.before_objects)
    return OnAws(cluster.facts, opts, kubernetes, cluster.before_nodes, cluster.ready)


def cluster_of_another(plan: Plan, access: Access, stack: str, theirs: ClusterFacts) -> OnAws:
    """The cluster that another stack made; nothing of it is this one's to change."""
    opts = _provider(theirs.region, stack_tags(aws_of(plan.settings), stack))
    return OnAws(theirs, opts, _kubernetes(theirs, access, []), [], [])


def _provider(region: str, tags: dict[str, str]) -> pulumi.ResourceOptions:
    return pulumi.ResourceOptions(providers=[aws.Provider("aws", region=region, default_tags={"tags": tags})])


def _kubernetes(facts: ClusterFacts, access: Access, after: list[pulumi.Resource]) -> k8s.Provider:
    """Kubernetes through a kubeconfig that is written for the gate, too, as soon as the cluster is there."""

    def text(cluster: EksCluster) -> str:
        save(Path(access.kubeconfig), cluster)
        return kubeconfig(cluster)

    return k8s.Provider(
        "cluster",
        kubeconfig=facts.reach().apply(text),
        # A kubeconfig of another text must not replace everything in the cluster.
        cluster_identifier=facts.arn,
        opts=pulumi.ResourceOptions(depends_on=after),
    )


def _weights(plan: Plan, there: OnAws, stack: str, inside: pulumi.ResourceOptions) -> list[pulumi.Resource]:
    """The claim of weights in S3 or on Lustre; none for other sources."""
    model, namespace, facts = plan.settings.model, plan.settings.platform.namespace, there.facts
    if model.s3:
        weights = BucketWeights(model.s3.bucket, model.s3.prefix, facts.region)
        csi, options = bucket_volume(facts.name, weights, there.opts)
        size = S3_SIZE
    elif model.lustre:
        args = LustreWeights(
            facts.vpc_id, facts.private[aws_of(plan.settings).zone], [facts.security_group, facts.efa_security_group],
            model.lustre.capacity_gib, model.lustre.mb_per_s_per_tib,
        )  # fmt: skip
        csi, options = LustreFileSystem(f"{platform_name(stack)}-weights", args, there.opts).volume, ["flock", "ro"]
        size = f"{model.lustre.capacity_gib}Gi"
    else:
        return []
    claim = WeightsClaimArgs(f"{namespace}-weights", WEIGHTS_CLAIM, namespace, csi, options, size)
    opts = pulumi.ResourceOptions.merge(inside, pulumi.ResourceOptions(provider=there.kubernetes))
    return [WeightsClaim("weights", claim, opts)]
