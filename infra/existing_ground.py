"""What a cluster has before anything is declared, and what it lacks for a plan."""

from __future__ import annotations

from components.existing.ask import Asker, CannotAsk
from components.existing.found import Found
from components.existing.read import read
from components.existing.rights import plugin_rights, serving_rights
from components.release.cluster import Access
from infra.missing import missing, wanted
from infra.node_plugins import plugins_wanted
from infra.plan import Plan
from infra.settings import SettingsError


def discovered(plan: Plan, access: Access, where: str, *, rights: bool = False) -> Found:
    """Nodes, plugins and storage of a cluster; `rights` asks for the user's, too. Raises SettingsError."""
    asked = [*serving_rights(access.namespace), *plugin_rights(plugins_wanted(plan))] if rights else []
    try:
        return read(Asker(access.kubeconfig, access.context).answers(access.namespace, asked))
    except CannotAsk as error:
        raise SettingsError(where, [f"platform.kubeconfig: {error}; correct kubeconfig and context"]) from None


def lacking(plan: Plan, owner: str, found: Found, where: str) -> tuple[str, ...]:
    """Warnings: what the stack mends itself, or what may do. Raises SettingsError with everything else."""
    devices_by = plan.settings.platform.node_software.devices
    need = wanted(plan.settings, owner, devices_by=devices_by, plugins=plugins_wanted(plan))
    findings = missing(need, found)
    if faults := [str(finding) for finding in findings if finding.severity == "error"]:
        raise SettingsError(where, faults)
    return tuple(str(finding) for finding in findings)
