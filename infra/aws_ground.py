"""The ground of a stack on AWS: the platform of this update, and the cluster as far as it is there yet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as k8s
from botocore.exceptions import BotoCoreError, ClientError

from components.platform.aws_platform import AwsPlatform
from components.platform.eks_access import EksCluster, EksUnknown, find_cluster, kubeconfig, save
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
from infra import output_names as names
from infra.aws_names import platform_name
from infra.aws_platform import full_sizes, generations, load_balancer, platform_args
from infra.existing_ground import discovered
from infra.ground import Ground, Observed, foundation
from infra.model_files import WEIGHTS_CLAIM
from infra.node_plugins import check_plugins, plugin_args
from infra.plan import Plan
from infra.settings import SettingsError

NODES_START_LIMIT_S = 1200
"""Large GPU nodes boot in minutes; capacity that is missing shows earlier, on the group's health."""


def kubeconfig_path(project: Path, stack: str) -> Path:
    return project / ".local" / "eks" / f"{stack}.kubeconfig"


def observe(plan: Plan, project: Path, owner: str, stack: str, where: str) -> Observed:
    """AWS's answers about the plan, and the cluster if an update made it already. Raises SettingsError."""
    warnings = aws_preflight.preflight(plan, where, stack).warnings
    settings = plan.settings
    region, name = _aws(plan).region, platform_name(stack)
    access = Access(str(kubeconfig_path(project, stack)), name, settings.platform.namespace)
    try:
        found = find_cluster(name, region)
        if found is None:
            return Observed(access, preflight.Observed(None, None, {}), warnings=warnings)
        save(kubeconfig_path(project, stack), found)
        counts = sizes(region, name)
    except (EksUnknown, BotoCoreError, ClientError) as error:
        raise SettingsError(where, [
            f"platform.aws: {error}; give credentials that may ask (docs/reference/preflight.md)"
        ]) from None  # fmt: skip
    cluster = preflight.observe(access, owner, where)
    return Observed(access, cluster, counts, discovered(plan, access, where), warnings)


def declare(plan: Plan, update: UpdatePlan, observed: Observed, owner: str, stack: str) -> Ground:
    """Everything on AWS, and what releases need in the cluster."""
    settings = plan.settings
    needed = generations([update.live.release if update.live else None, update.candidate])
    args = platform_args(settings, stack, needed)
    provider = aws.Provider("aws", region=args.region, default_tags={"tags": dict(args.tags)})
    on_aws = pulumi.ResourceOptions(providers=[provider])
    platform = AwsPlatform(platform_name(stack), args, on_aws)
    cluster = _cluster_provider(platform, observed.access)
    plugins = check_plugins(plugin_args(plan, owner, observed.found), stack)
    opts = foundation(cluster, plan, observed.access, update, plugins, platform.ready)
    weights = _weights(plan, platform, cluster, stack, on_aws, opts)
    nodes = EksNodes(
        args.region, platform.cluster.name, platform_name(stack), full_sizes(settings), observed.nodes,
        NODES_START_LIMIT_S, [*platform.node_groups.values()],
    )  # fmt: skip
    outside = settings.edge.service_type == "LoadBalancer"
    return Ground(
        opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=weights)),
        nodes=nodes,
        outside=load_balancer(platform, plan, stack, on_aws).endpoint if outside else None,
        node_port=settings.edge.node_port if outside else None,
        service_type="NodePort" if outside else settings.edge.service_type,
        outputs=_outputs(platform),
    )


def _aws(plan: Plan) -> Any:
    found = plan.settings.platform.aws
    assert found is not None  # Platform.parts_fit
    return found


def _cluster_provider(platform: AwsPlatform, access: Access) -> k8s.Provider:
    """Kubernetes through a kubeconfig that is written for the gate, too, as soon as the cluster is there."""

    def text(cluster: EksCluster) -> str:
        save(Path(access.kubeconfig), cluster)
        return kubeconfig(cluster)

    return k8s.Provider(
        "cluster",
        kubeconfig=platform.reach.apply(text),
        # A kubeconfig of another text must not replace everything in the cluster.
        cluster_identifier=platform.cluster.arn,
        opts=pulumi.ResourceOptions(depends_on=platform.cluster.before_nodes),
    )


def _weights(plan: Plan, platform: AwsPlatform, cluster: k8s.Provider, stack: str, on_aws: pulumi.ResourceOptions,
             inside: pulumi.ResourceOptions) -> list[pulumi.Resource]:  # fmt: skip
    """The claim of weights in S3 or on Lustre; none for other sources."""
    model, namespace = plan.settings.model, plan.settings.platform.namespace
    if model.s3:
        weights = BucketWeights(model.s3.bucket, model.s3.prefix, _aws(plan).region)
        csi, options = bucket_volume(platform.cluster, weights, on_aws)
        size = S3_SIZE
    elif model.lustre:
        groups = [platform.cluster.security_group, platform.efa_security.id]
        args = LustreWeights(
            platform.network.vpc_id, platform.network.private[_aws(plan).zone], groups, model.lustre.capacity_gib,
            model.lustre.mb_per_s_per_tib,
        )  # fmt: skip
        csi, options = LustreFileSystem(f"{platform_name(stack)}-weights", args, on_aws).volume, ["flock", "ro"]
        size = f"{model.lustre.capacity_gib}Gi"
    else:
        return []
    volume = f"{namespace}-weights"
    claim = WeightsClaimArgs(volume, WEIGHTS_CLAIM, namespace, csi, options, size)
    return [
        WeightsClaim("weights", claim, pulumi.ResourceOptions.merge(inside, pulumi.ResourceOptions(provider=cluster)))
    ]


def _outputs(platform: AwsPlatform) -> dict[str, Any]:
    return {
        names.CLUSTER: {
            "name": platform.cluster.name,
            "arn": platform.cluster.arn,
            "endpoint": platform.cluster.endpoint,
            "certificateAuthority": platform.cluster.certificate_authority,
            "vpcId": platform.network.vpc_id,
            "securityGroup": platform.cluster.security_group,
            "efaSecurityGroup": platform.efa_security.id,
        }
    }
