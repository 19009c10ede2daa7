"""A stack with `layers: cluster`: the cluster and what its nodes need, for other stacks to serve on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi

from components.nodes.leader_worker_set import LeaderWorkerSetController
from components.nodes.node_plugins import NodePlugins
from infra import ground
from infra.leader_worker_sets import controller_args
from infra.node_plugins import check_plugins, plugin_args
from infra.read_plan import read_plan
from infra.site import Site
from splitserve import names


def declare_cluster(values: Mapping[str, Any], site: Site) -> dict[str, Any]:
    """Declare the layer; the returned mapping is the stack's outputs. Raises SettingsError."""
    plan, _, warnings = read_plan(values, site.project, site.where)
    observed = ground.observe(plan, site)
    for warning in [*map(str, warnings), *observed.warnings]:
        pulumi.log.warn(warning)
    kubernetes, after, outputs = ground.declare_cluster(plan, observed, site)
    plugins = check_plugins(plugin_args(plan, site.owner, observed.found), site.where)
    opts = pulumi.ResourceOptions(provider=kubernetes, providers=[kubernetes], depends_on=after)
    if groups := controller_args(plan, site.owner, observed.found, site.where):
        LeaderWorkerSetController("leader-worker-sets", groups, opts)
    installed = NodePlugins("node-plugins", plugins, opts)
    return outputs | {names.NODE_PLUGINS: {"installed": installed.installed, "left": installed.left}}
