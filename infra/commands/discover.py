"""Look at a cluster that exists: what it has, and the `platform:` block that would fit it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer
import yaml
from rich.table import Table

from components.existing.found import Found, Node
from components.existing.read import ZONE, read
from components.existing.rights import serving_rights
from components.hardware.catalogue import catalogue
from components.nodes.names import EFA_RESOURCE
from infra.commands.complain import complain
from infra.table_text import table_text

Kubeconfig = Annotated[str | None, typer.Option(help="a kubeconfig; default KUBECONFIG, then ~/.kube/config")]
Context = Annotated[str | None, typer.Option(help="a context in it; default its current one")]
Namespace = Annotated[str, typer.Option(help="the namespace that the stack will use")]
TopologyLabel = Annotated[list[str], typer.Option(help="a label of yours that says rack or block; may be given several times")]  # fmt: skip
AsJson = Annotated[bool, typer.Option("--json", help="everything that was found, as one JSON document")]


def discover(kubeconfig: Kubeconfig = None, context: Context = None, namespace: Namespace = "splitserve",
             topology_label: TopologyLabel = [], json_: AsJson = False) -> None:  # noqa: B006  # fmt: skip
    """What a cluster has: GPUs, RDMA, zones, plugins, rights; and a `platform:` block to begin with.

    Reads only. Exit code 2 when the cluster can't be asked.
    """
    from components.existing.ask import Asker, CannotAsk  # Kubernetes' client costs every other command 2 s

    try:
        found = read(Asker(kubeconfig, context).answers(namespace, serving_rights(namespace), topology_label))
    except CannotAsk as error:
        complain(f"{error}; correct --kubeconfig and --context, or KUBECONFIG")
    block = proposal(found, kubeconfig, context, namespace)
    if json_:
        print(json.dumps({"found": found.to_json(), "platform": block.platform, "notes": block.notes}))
        return
    for table in tables(found):
        print(table_text(table))
    for line in remarks(found):
        print(line)
    print(block.text())


_ETHERNET = {"roce-400": 400, "roce-200": 200, "roce-100": 100}


@dataclass(frozen=True)
class Proposal:
    """A `platform:` block, and what in it is a guess."""

    platform: dict[str, Any]
    notes: tuple[str, ...]

    def text(self) -> str:
        notes = "".join(f"  # {note}\n" for note in self.notes)
        block = yaml.safe_dump({"splitserve:platform": self.platform}, sort_keys=False, allow_unicode=True)
        return "config:\n" + notes + "".join(f"  {line}\n" for line in block.splitlines())


def proposal(found: Found, kubeconfig: str | None, context: str | None, namespace: str) -> Proposal:
    """From the largest group of like nodes: same GPU, same count, same zone. Pure."""
    platform: dict[str, Any] = {"kind": "existing"}
    platform |= {key: value for key, value in (("kubeconfig", kubeconfig), ("context", context)) if value}
    platform["namespace"] = namespace
    groups = _groups(found)
    if not groups:
        return Proposal(platform, ("no usable node advertises nvidia.com/gpu: hardware is left out",))
    nodes = groups[0]
    if selector := _selector(groups):
        platform["nodeSelector"] = selector
    hardware, notes = _hardware(nodes)
    platform["hardware"] = hardware
    if len(groups) > 1:
        others = ", ".join(f"{len(group)} x {_product(group[0])} in {group[0].zone}" for group in groups[1:])
        notes.append(f"also there: {others}")
    return Proposal(platform, tuple(notes))


def _groups(found: Found) -> list[list[Node]]:
    """Usable GPU nodes that are alike, most GPUs first."""
    groups: dict[tuple[Any, ...], list[Node]] = {}
    for node in found.nodes:
        if node.usable and node.gpus:
            groups.setdefault((_product(node), node.gpus, node.zone, tuple(sorted(node.rdma))), []).append(node)
    return sorted(groups.values(), key=lambda group: -len(group) * group[0].gpus)


def _selector(groups: Sequence[Sequence[Node]]) -> dict[str, str]:
    """Labels that hold the tiers to the first group: in one zone, on one kind of GPU node."""
    nodes, chosen = groups[0], groups[0][0]
    others = [node for group in groups[1:] for node in group]
    selector = (
        {"nvidia.com/gpu.present": "true"} if all("nvidia.com/gpu.present" in node.labels for node in nodes) else {}
    )
    for label in (ZONE, "nvidia.com/gpu.product", "node.kubernetes.io/instance-type"):
        value = chosen.labels.get(label)
        if value and any(node.labels.get(label) != value for node in others):
            selector[label] = value
    return selector


def _product(node: Node) -> str:
    """GPU feature discovery's label, else what the catalogue says of the instance type."""
    known = catalogue().get(node.instance_type or "")
    return node.gpu_product or (known.gpu if known else "unknown")


def _memory_gib(node: Node) -> float | None:
    known = catalogue().get(node.instance_type or "")
    mib = node.gpu_memory_mib or (known.gpu_memory_mib if known else None)
    return round(mib / 1024) if mib else None


def _hardware(nodes: Sequence[Node]) -> tuple[dict[str, Any], list[str]]:
    """The `hardware` section, and what in it to check."""
    node, notes = nodes[0], []
    memory = _memory_gib(node)
    if memory is None:
        memory = 80
        notes.append("gpuMemoryGib: no label says it (install GPU feature discovery); check it")
    link, why = _link(node)
    notes.append(f"link: {why}")
    hardware = {
        "gpu": _product(node),
        "gpuMemoryGib": memory,
        "gpusPerNode": node.gpus,
        "nodes": len(nodes),
        "link": link,
    }
    if resource := _rdma_resource(node):
        hardware["rdmaResource"] = resource
        notes.append("memoryLock: ipc-lock is the careful choice; unlimited where the nodes set no limit")
    return hardware, notes


def _rdma_resource(node: Node) -> str | None:
    """The one that counts adapters, where there are several: the most of them."""
    return max(node.rdma, key=lambda name: node.rdma[name], default=None)


def _link(node: Node) -> tuple[str, str]:
    """The API says that there is RDMA, never how fast: a guess by the resource's name."""
    resource = _rdma_resource(node)
    if resource is None:
        return "tcp", "no RDMA resource on these nodes, so KV would go over TCP"
    if resource == EFA_RESOURCE:
        return _efa_link(node)
    if "roce" in resource or resource.startswith("networking.gke.io"):
        return "roce-400", f"guessed from {resource}; check the adapters' rate (ibstat)"
    return "ib-ndr", f"guessed from {resource}; InfiniBand or RoCE, and its rate, are the adapters' to say (ibstat)"


def _efa_link(node: Node) -> tuple[str, str]:
    """There is no link called EFA here: the fastest whose line rate a GPU's share reaches."""
    known = catalogue().get(node.instance_type or "")
    if known is None:
        return "tcp", f"EFA on {node.instance_type}, of unknown rate; tcp is the careful figure for the plan"
    share = known.gbit_per_s_per_gpu
    link = next((name for name, rate in _ETHERNET.items() if rate <= share), "tcp")
    return link, f"EFA with {share:g} Gbit/s a GPU ({node.instance_type}), planned as {link}"


def tables(found: Found) -> list[Table]:
    """Nodes, plugins, and the rest, as tables."""
    return [_node_table(found), _plugin_table(found), _fact_table(found)]


def _node_table(found: Found) -> Table:
    table = Table(title=f"{len(found.nodes)} nodes")
    for column in ("node", "state", "GPUs", "free", "product", "RDMA", "huge pages", "zone", "place", "taints"):
        table.add_column(column, overflow="fold")  # a name that was cut could not be copied
    for node in found.nodes:
        state = "NotReady" if not node.ready else "ready" if node.schedulable else "cordoned"
        free = "?" if node.gpus_free is None else str(node.gpus_free)
        pages = ", ".join(
            f"{name.removeprefix('hugepages-')} {count >> 20}Mi" for name, count in node.hugepages.items()
        )
        table.add_row(
            node.name, state, str(node.gpus), free, node.gpu_product or node.instance_type or "",
            ", ".join(f"{name} {count}" for name, count in node.rdma.items()), pages, node.zone or "",
            ", ".join(node.topology.values()), ", ".join(map(str, node.taints)),
        )  # fmt: skip
    return table


def _plugin_table(found: Found) -> Table:
    table = Table(title="Device plugins and exporters")
    for column in ("plugin", "where", "image", "ready"):
        table.add_column(column, overflow="fold")
    for item in found.installed or ():
        table.add_row(item.plugin, item.whose, item.image, f"{item.ready}/{item.wanted}")
    for driver in found.dra.drivers if found.dra else ():
        table.add_row("DRA driver", driver.name, "", f"{sum(driver.devices.values())} devices")
    return table


def _fact_table(found: Found) -> Table:
    table = Table("what", "found", title="Cluster")
    classes = found.storage_classes
    named = [f"{item.name}{' (default)' if item.default else ''}" for item in classes or ()]
    kernels = Counter(f"{node.kernel}, {node.runtime}" for node in found.nodes)
    table.add_row("Kubernetes", found.kubernetes_version)
    table.add_row("kernel, runtime", "; ".join(f"{count} x {what}" for what, count in kernels.items()))
    table.add_row("storage classes", "could not be asked" if classes is None else ", ".join(named) or "none")
    table.add_row("load balancer", "; ".join(found.load_balancer.evidence) or "nothing that makes one")
    dra = found.dra
    table.add_row("DRA", f"{dra.api}: {', '.join(dra.device_classes) or 'no device class'}" if dra else "not served")
    return table


def remarks(found: Found) -> list[str]:
    """What the user may not do, and what could not be asked."""
    refused = [str(right) for right in found.rights if right.allowed is False]
    unasked = sum(right.allowed is None for right in found.rights)
    lines = [f"You may not: {'; '.join(refused)} (docs/reference/rights.md)."] if refused else []
    lines += [f"{unasked} rights could not be asked."] if unasked else []
    there = found.leader_worker_sets
    if there.served:
        lines.append(f"Engines over several nodes: LeaderWorkerSets by {there.controller or 'nobody: no controller'}.")
    return lines + [f"Could not be asked: {line}" for line in found.unknown]
