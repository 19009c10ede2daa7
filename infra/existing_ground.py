"""What a cluster has before anything is declared, and what it lacks for a plan."""

from __future__ import annotations

from components.existing.ask import Asker, CannotAsk
from components.existing.found import Found
from components.existing.read import read
from components.existing.rights import group_rights, observability_rights, plugin_rights, serving_rights
from components.release.cluster import Access
from infra.leader_worker_sets import installs
from infra.missing import missing, operator_missing, wanted
from infra.node_plugins import plugins_wanted, rdma_counters
from infra.observability import operator_kinds
from infra.over_nodes import tiers_over_nodes
from infra.plan import Plan
from infra.settings import SettingsError


def discovered(plan: Plan, access: Access, where: str, *,
               rights: bool = False) -> tuple[Found | None, tuple[str, ...]]:  # fmt: skip
    """Nodes, plugins and storage of a cluster, and warnings; `rights` asks for the user's, too.

    None where the user may not see nodes: then nothing of it was checked, as the warning says. Raises
    SettingsError where the stack would install on nodes that it can't see.
    """
    counters = rdma_counters(plan, "", access.namespace, "") is not None
    serving = serving_rights(access.namespace, rdma=counters)
    groups = group_rights(access.namespace) if tiers_over_nodes(plan) else []
    idle_probe = plan.settings.observability.idle_probe.schedule is not None
    watched = observability_rights(access.namespace, operator_kinds(plan.settings), idle_probe=idle_probe)
    asked = [*serving, *groups, *watched, *plugin_rights(plugins_wanted(plan))] if rights else []
    try:
        found = read(Asker(access.kubeconfig, access.context).answers(access.namespace, asked))
    except CannotAsk as error:
        if plugins := plugins_wanted(plan):
            raise SettingsError(where, [
                f"platform.nodeSoftware: could not see whether the cluster has {', '.join(sorted(plugins))}: {error}; "
                "have the rights granted (docs/reference/rights.md), or set platform.layers: serving where its nodes "
                "are somebody else's"
            ]) from None  # fmt: skip
        return None, (
            f"could not check what the cluster's nodes have: {error}; what is missing there only the gate will "
            "show; the rights are in docs/reference/rights.md",
        )
    return found, tuple(f"could not check: {line}" for line in found.unknown)


def lacking(plan: Plan, owner: str, found: Found, where: str) -> tuple[str, ...]:
    """Warnings: what the stack mends itself, or what may do. Raises SettingsError with everything else."""
    devices_by = plan.settings.platform.node_software.devices
    need = wanted(plan.settings, owner, devices_by=devices_by, plugins=plugins_wanted(plan),
                  groups_installed=installs(plan))  # fmt: skip
    findings = missing(need, found)
    if faults := [str(finding) for finding in findings if finding.severity == "error"]:
        raise SettingsError(where, faults)
    return tuple(str(finding) for finding in findings)


def refuse_without_operator(plan: Plan, found: Found | None, where: str) -> None:
    """Where nothing else of the cluster is checked. Raises SettingsError: a PodMonitor of a cluster that has no such
    kind would fail halfway through the update. `found` None: there is no cluster yet."""
    kinds = operator_kinds(plan.settings)
    if kinds and found is None:
        raise SettingsError(where, [
            f"{', '.join(kinds.values())}: found no cluster yet, wanted one with the Prometheus operator; run `pulumi up` "
            "without them first, install the operator (https://prometheus-operator.dev), then set them"
        ])  # fmt: skip
    faults = [str(finding) for finding in operator_missing(kinds, found)] if found else []
    if faults:
        raise SettingsError(where, faults)
