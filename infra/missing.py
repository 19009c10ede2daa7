"""What a cluster that exists lacks for a stack file, all of it at once, each with the way out. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from kubernetes.utils import parse_quantity

from components.existing.found import Found, Node, is_rdma
from components.existing.present import present
from components.existing.read import ZONE
from components.existing.rights import group_rights, observability_rights, plugin_rights, serving_rights
from components.nodes.device_claim import dra_fault
from components.nodes.names import EFA_NODES, EFA_RESOURCE, GPU_NODES, GPU_RESOURCE, DevicesBy, Plugin
from components.observability.operator_api import API_VERSION as OPERATOR_API
from components.serving.spec import ENCODER
from infra.observability import operator_kinds
from infra.rules.rule import Finding
from infra.schema.platform import Platform
from infra.settings import Settings

TOLERATED = frozenset({"nvidia.com/gpu", "splitserve.dev/tier"})
"""Taints by these keys don't keep the tiers away."""
_HOW: Mapping[Plugin, str] = {
    "gpu": "https://github.com/NVIDIA/k8s-device-plugin",
    "efa": "https://docs.aws.amazon.com/eks/latest/userguide/device-management-efa.html",
    "rdma-shared": "https://github.com/Mellanox/k8s-rdma-shared-dev-plugin",
    "gpu-dra": "https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu",
    "efa-dra": "https://github.com/aws/eks-charts/tree/master/stable/aws-dranet",
}


@dataclass(frozen=True)
class TierNeed:
    """What one pod of a tier asks for, and how many there are. `extended` is by resource name."""

    tier: str
    replicas: int
    extended: Mapping[str, int | str]

    def amounts(self) -> dict[str, int]:
        return {name: int(parse_quantity(str(amount))) for name, amount in self.extended.items()}


@dataclass(frozen=True)
class Group:
    """An engine over several nodes; `rack_label` is the label of nodes that keeps it in one rack, if any."""

    nodes: int
    engines: int
    rack_label: str | None


@dataclass(frozen=True)
class Wanted:
    """What a stack needs of its cluster. `plugins` are those that the stack may install itself, on nodes
    with the labels of `plugin_nodes`; `claim` is a PersistentVolumeClaim, `claim_class` its class (None:
    the cluster's default)."""

    platform: Platform
    tiers: tuple[TierNeed, ...]
    service_type: str = "ClusterIP"
    claim: str | None = None
    claim_class: str | None = None
    devices_by: DevicesBy = "plugin"
    plugins: frozenset[Plugin] = frozenset()
    plugin_nodes: Mapping[Plugin, Mapping[str, str]] = field(
        default_factory=lambda: {"gpu": GPU_NODES, "efa": EFA_NODES, "rdma-shared": GPU_NODES, "gpu-dra": GPU_NODES,
                                 "efa-dra": EFA_NODES}
    )  # fmt: skip
    owner: str = ""
    groups: Mapping[str, Group] = field(default_factory=dict)
    """By tier whose engines span several nodes."""
    groups_installed: bool = False
    """Whether the stack itself brings the controller of such engines."""
    tolerated: frozenset[str] = TOLERATED
    operator_kinds: Mapping[str, str] = field(default_factory=dict)
    """The Prometheus operator's kinds that are asked for -> the setting that asks."""
    idle_probe: bool = False


def wanted(settings: Settings, owner: str, *, devices_by: DevicesBy = "plugin",
           plugins: frozenset[Plugin] = frozenset(), groups_installed: bool = False) -> Wanted:  # fmt: skip
    """What these settings need."""
    nodes = {name: settings.engine_of(name).parallel.nodes for name in settings.tiers}
    tiers = tuple(
        TierNeed(name, tier.replicas * nodes[name], settings.resources_of(name).extended)
        for name, tier in settings.tiers.items()
    )
    encoder = settings.encoder
    if encoder.replicas:
        resources = encoder.resources or settings.engine.resources
        tiers = (*tiers, TierNeed(ENCODER, encoder.replicas, resources.extended))
    groups = {name: Group(nodes[name], tier.replicas, tier.rack_label)
              for name, tier in settings.tiers.items() if nodes[name] > 1}  # fmt: skip
    claim = settings.model.volume.claim if settings.model.volume else None
    return Wanted(settings.platform, tiers, settings.edge.service_type, claim, devices_by=devices_by,
                  plugins=plugins, owner=owner, groups=groups, groups_installed=groups_installed,
                  operator_kinds=operator_kinds(settings),
                  idle_probe=settings.observability.idle_probe.schedule is not None)  # fmt: skip


def missing(need: Wanted, found: Found) -> list[Finding]:
    """Everything that is missing. An error stops a deployment; a warning is what the stack itself mends,
    or what may do."""
    nodes = [node for node in found.nodes if _serves(node, need)]
    unserved = _plugins_missing(need, found, nodes)
    findings = [
        *(finding for finding, _ in unserved),
        *_resources(need, found, nodes, {resource for _, resource in unserved}),
        *_free(need, nodes),
        *_zones(need, nodes),
        *_groups(need, found),
        *_racks(need, nodes),
        *operator_missing(need.operator_kinds, found),
        *_storage(need, found),
        *_balancer(need, found),
        *_dra(need, found),
        *_rights(need, found),
    ]
    return list(dict.fromkeys(findings))


def _serves(node: Node, need: Wanted) -> bool:
    """Whether the tiers' pods can be placed on a node at all."""
    labels = need.platform.node_selector
    free_of_taints = all(not taint.keeps_away or taint.key in need.tolerated for taint in node.taints)
    return node.usable and free_of_taints and all(node.labels.get(key) == value for key, value in labels.items())


def _asked(need: Wanted) -> dict[str, list[TierNeed]]:
    """Resource -> the tiers that ask for it."""
    asked: dict[str, list[TierNeed]] = {}
    for tier in need.tiers:
        for resource in tier.extended:
            asked.setdefault(resource, []).append(tier)
    return asked


def _server_of(resource: str, need: Wanted) -> Plugin | None:
    """The plugin of ours that would advertise a resource. The RDMA shared plugin's name is free."""
    if resource == GPU_RESOURCE:
        return "gpu-dra" if need.devices_by == "dra" else "gpu"
    if resource == EFA_RESOURCE:
        return "efa-dra" if need.devices_by == "dra" else "efa"
    return "rdma-shared" if resource.startswith("rdma/") else None


def _plugins_missing(need: Wanted, found: Found, nodes: Sequence[Node]) -> list[tuple[Finding, str]]:
    """(finding, resource) where nothing in the cluster serves a resource that the tiers ask for."""
    there = present(found, need.owner)
    ours = {item.plugin for item in found.installed or () if need.owner and item.owner == need.owner}
    result = []
    for resource, tiers in _asked(need).items():
        plugin = _server_of(resource, need)
        if plugin is None or plugin in there or plugin in ours or any(n.allocatable.get(resource) for n in nodes):
            continue
        if is_rdma(resource) and plugin == "rdma-shared" and any(node.rdma for node in nodes):
            continue  # The nodes have RDMA by another name, which `resource-on-nodes` says.
        if found.installed is not None:
            result.append((_plugin_finding(plugin, resource, tiers, need, nodes), resource))
    return result


def _plugin_finding(plugin: Plugin, resource: str, tiers: Sequence[TierNeed], need: Wanted,
                    nodes: Sequence[Node]) -> Finding:  # fmt: skip
    key = f"{tiers[0].tier}.resources.extended.{resource}"
    text = f"no DaemonSet `{plugin}` in the cluster and no node with {resource}"
    if plugin not in need.plugins:
        return Finding(key, text, f"something that serves {resource}", f"install it: {_HOW[plugin]}", "plugin-missing")
    labels = need.plugin_nodes.get(plugin, {})
    written = ",".join(f"{name}={value}" for name, value in labels.items())
    if any(all(node.labels.get(name) == value for name, value in labels.items()) for node in nodes):
        return Finding(key, text, f"{resource} on the tiers' nodes", f"the stack installs it on nodes with {written}",
                       "plugin-missing", "warning")  # fmt: skip
    return Finding(key, f"{text}, nor a node with the label {written}", f"a labelled node, for the stack's {plugin}",
                   f"kubectl label node <node> {written.replace(',', ' ')}", "plugin-missing")  # fmt: skip


def _resources(need: Wanted, found: Found, nodes: Sequence[Node], served: set[str]) -> Iterator[Finding]:
    """A resource that no node of the tiers has enough of for one pod."""
    for resource, tiers in _asked(need).items():
        most = max((node.allocatable.get(resource, 0) for node in nodes), default=0)
        if resource in served or (need.devices_by == "dra" and resource in (GPU_RESOURCE, EFA_RESOURCE)):
            continue
        for tier in tiers:
            asked = tier.amounts()[resource]
            if asked <= most:
                continue
            key = f"{tier.tier}.resources.extended.{resource}"
            if most:
                yield Finding(key, f"at most {_written(resource, most)} a node", f"{_written(resource, asked)} for a pod",
                              "ask for less, or for other nodes: platform.nodeSelector", "resource-on-nodes")  # fmt: skip
            else:
                yield Finding(key, f"no usable node with {resource}{_why_none(need, found)}",
                              f"{_written(resource, asked)} for a pod", _way_to(resource, need, found),
                              "resource-on-nodes")  # fmt: skip


def _way_to(resource: str, need: Wanted, found: Found) -> str:
    plugin = _server_of(resource, need)
    there = next((item for item in found.installed or () if item.plugin == plugin), None)
    if is_rdma(resource) and (found.rdma_resources or there is None):
        names = ", ".join(found.rdma_resources) or "none"
        return f"RDMA resources of this cluster: {names}; name one of them here and in platform.hardware.rdmaResource"
    if there:
        return f"{there.whose} runs on {there.ready} of {there.wanted} nodes and offers none: read its pods' log"
    return "add nodes that have it, or correct platform.nodeSelector"


def _why_none(need: Wanted, found: Found) -> str:
    """How many nodes there are at all, and what keeps the tiers off them."""
    away = sorted({str(t) for n in found.nodes for t in n.taints if t.keeps_away and t.key not in need.tolerated})
    not_ready = sum(not node.usable for node in found.nodes)
    parts = [f"{len(found.nodes)} nodes in all"]
    parts += [f"{not_ready} not ready or cordoned"] if not_ready else []
    parts += [f"taints {', '.join(away)}"] if away else []
    return f" ({'; '.join(parts)})"


def _free(need: Wanted, nodes: Sequence[Node]) -> Iterator[Finding]:
    """Whether all replicas fit on what is free now; what our own pods hold counts as free, since an
    update makes room first."""
    for resource, tiers in _asked(need).items():
        free = [spare for node in nodes if (spare := _spare(node, resource)) is not None]
        pods = sorted((t.amounts()[resource] for t in tiers for _ in range(t.replicas)), reverse=True)
        whole = sum(node.allocatable.get(resource, 0) for node in nodes)
        if not free or not pods or pods[0] > max((node.allocatable.get(resource, 0) for node in nodes), default=0):
            continue
        if not _fits(pods, free):
            key = ", ".join(f"{tier.tier}.replicas" for tier in tiers)
            yield Finding(key, f"{_written(resource, sum(free))} of {_written(resource, whole)} {resource} free on "
                          f"{len(free)} nodes", f"{_written(resource, sum(pods))} for {len(pods)} pods",
                          "fewer replicas, more nodes, or end what holds the rest", "devices-free",
                          "error" if sum(pods) > sum(free) else "warning")  # fmt: skip


def _spare(node: Node, resource: str) -> int | None:
    free = node.free(resource)
    return None if free is None else free + node.ours.get(resource, 0)


def _fits(pods: Sequence[int], free: Sequence[int]) -> bool:
    """Largest pods first, each on the fullest node that still holds it."""
    left = sorted(free)
    for pod in pods:
        place = next((i for i, spare in enumerate(left) if spare >= pod), None)
        if place is None:
            return False
        left[place] -= pod
        left.sort()
    return True


def _written(resource: str, amount: int) -> str:
    return f"{Decimal(amount) / (1 << 20):f}Mi" if resource.startswith("hugepages-") else str(amount)


def _zones(need: Wanted, nodes: Sequence[Node]) -> Iterator[Finding]:
    """Prefill and decode across zones: RDMA does not cross them, and TCP pays in time and money."""
    tiers = [tier for tier in need.tiers if tier.tier in ("prefill", "decode") or tier.tier in need.groups]
    devices = {name for tier in tiers for name in tier.extended if not name.startswith("hugepages-")}
    able = [node for node in nodes if all(node.allocatable.get(name) for name in devices)]
    zones = sorted({node.zone for node in able if node.zone})
    if (len(tiers) < 2 and not need.groups) or len(zones) < 2:
        return
    rdma = any(is_rdma(name) for name in devices)
    yield Finding("platform.nodeSelector", f"nodes for the tiers in {', '.join(zones)}", "one zone for prefill and decode",
                  f"add `{ZONE}: {_fullest(able, zones)}`", "tiers-one-zone", "error" if rdma else "warning")  # fmt: skip


def _groups(need: Wanted, found: Found) -> Iterator[Finding]:
    """Engines over several nodes where nothing makes them."""
    there = found.leader_worker_sets
    if not need.groups or need.groups_installed or there.served is not False:
        return
    keys = ", ".join(f"{tier}.engine.parallel.nodes" for tier in need.groups)
    yield Finding(keys, "no LeaderWorkerSets in the cluster", "their kind and controller",
                  "set platform.nodeSoftware.leaderWorkerSets: always in the stack that makes the cluster, or install "
                  "https://github.com/kubernetes-sigs/lws", "leader-worker-sets-missing")  # fmt: skip


def operator_missing(kinds: Mapping[str, str], found: Found) -> Iterator[Finding]:
    """Kinds of the Prometheus operator's that are asked for and that the cluster does not know."""
    lacking = {kind: key for kind, key in kinds.items() if kind not in (found.operator_kinds or ())}
    if found.operator_kinds is not None and lacking:
        yield Finding(", ".join(lacking.values()), f"no {' and no '.join(lacking)} ({OPERATOR_API}) in the cluster",
                      "the Prometheus operator's kinds", "install it (https://prometheus-operator.dev), or leave the "
                      "setting out and load what `splitserve alerts` prints into a Prometheus of yours",
                      "prometheus-operator-missing")  # fmt: skip


def _racks(need: Wanted, nodes: Sequence[Node]) -> Iterator[Finding]:
    """A group takes a rack for itself: there must be as many racks as groups, each with nodes enough."""
    for tier, group in need.groups.items():
        if group.rack_label is None:
            continue
        racks: dict[str, int] = {}
        for node in nodes:
            if group.rack_label in node.labels:
                racks[node.labels[group.rack_label]] = racks.get(node.labels[group.rack_label], 0) + 1
        fitting = sum(count >= group.nodes for count in racks.values())
        if fitting < group.engines:
            sizes = ", ".join(f"{rack} {count}" for rack, count in sorted(racks.items())) or "no node has the label"
            yield Finding(f"{tier}.rackLabel", f"{group.rack_label}: {sizes}",
                          f"{group.engines} of its values with {group.nodes} nodes each, one for each engine",
                          "another label, fewer replicas, or leave it out", "rack-nodes")  # fmt: skip


def _fullest(nodes: Sequence[Node], zones: Sequence[str]) -> str:
    return max(zones, key=lambda zone: sum(node.zone == zone for node in nodes))


def _storage(need: Wanted, found: Found) -> Iterator[Finding]:
    """A claim that is not there yet waits for ever where no class provisions it."""
    classes = found.storage_classes
    if need.claim is None or classes is None or any(claim.name == need.claim for claim in found.claims or ()):
        return
    names = ", ".join(item.name for item in classes) or "none"
    chosen = [item for item in classes if (item.name == need.claim_class if need.claim_class else item.default)]
    if not chosen:
        yield Finding("model.volume.claim", f"no claim `{need.claim}` in {need.platform.namespace}, storage classes: {names}",
                      f"class `{need.claim_class}`" if need.claim_class else "a default storage class",
                      "make the claim with a class of the cluster's, or mark one as default", "storage-class")  # fmt: skip


def _balancer(need: Wanted, found: Found) -> Iterator[Finding]:
    if need.service_type == "LoadBalancer" and not found.load_balancer.able:
        yield Finding("edge.serviceType", "LoadBalancer, and nothing in the cluster that gives a Service an address",
                      "ClusterIP, NodePort, or a load balancer", "install MetalLB (https://metallb.io) or your cloud's "
                      "controller, or set edge.serviceType: ClusterIP", "load-balancer")  # fmt: skip


def _dra(need: Wanted, found: Found) -> Iterator[Finding]:
    fault = dra_fault(found.kubernetes_version) if need.devices_by == "dra" else None
    if fault:
        what, way_out = fault.removeprefix("found ").split("; ", 1)
        there, asked = what.split(", wanted ", 1)
        yield Finding("platform", there, asked, way_out, "dra-version")


def _rights(need: Wanted, found: Found) -> Iterator[Finding]:
    """Of the rights that were asked about, the refused ones that count: over plugins only where the stack
    installs some."""
    there = present(found, need.owner)
    install: frozenset[Plugin] = frozenset(plugin for plugin in need.plugins if plugin not in there)
    namespace = need.platform.namespace
    groups = group_rights(namespace) if need.groups else []
    watched = observability_rights(namespace, need.operator_kinds, idle_probe=need.idle_probe)
    wanted_rights = {str(r) for r in [*serving_rights(namespace), *groups, *watched, *plugin_rights(install)]}
    refused = [str(right) for right in found.rights if right.allowed is False and str(right) in wanted_rights]
    if refused:
        yield Finding("platform.kubeconfig", f"a user who may not: {'; '.join(refused)}",
                      "these rights", "have them granted (docs/reference/rights.md)", "rights")  # fmt: skip
