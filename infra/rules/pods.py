"""Ports, devices and memory of the pods."""

from __future__ import annotations

from collections.abc import Iterator

from components.hardware.catalogue import catalogue
from components.hardware.instance import Instance
from infra.plan import Plan
from infra.rules.rule import Finding, rule

EFA_RESOURCE = "vpc.amazonaws.com/efa"
HUGEPAGES = "hugepages-2Mi"


@rule("ports-unique", "error", "Every listener of a release has a port of its own.",
      "https://github.com/vllm-project/vllm/issues/20965: two engines in one network namespace never start")  # fmt: skip
def ports_unique(plan: Plan) -> Iterator[Finding]:
    s = plan.settings
    data = max(s.engine_of(tier).parallel.data for tier in s.tiers)
    listeners = {"engine.port": [s.engine.port], "router.port": [s.router.port],
                 "router.metricsPort": [s.router.metrics_port], "render.port": [s.render.port],
                 "engine.sideChannelPort": list(range(s.engine.side_channel_port, s.engine.side_channel_port + data))}  # fmt: skip
    if any(s.engine_of(tier).parallel.nodes > 1 for tier in s.tiers):
        listeners |= {"engine.masterPort": [s.engine.master_port], "engine.dataRpcPort": [s.engine.data_rpc_port]}
    seen: dict[int, str] = {}
    for key, ports in listeners.items():
        for port in ports:
            if port in seen:
                yield Finding(key, f"{port}, which is {seen[port]}'s too", "a port of its own")
            elif port > 65535:
                yield Finding(key, f"{port} for the last data-parallel rank", "at most 65535")
            seen.setdefault(port, key)


@rule("rdma-device-requested", "error", "Pods ask for the RDMA devices of their nodes.",
      "https://github.com/skypilot-org/skypilot/issues/10055: a pod without the request runs over TCP, silently")  # fmt: skip
def rdma_requested(plan: Plan) -> Iterator[Finding]:
    stated = plan.settings.hardware
    for tier in plan.settings.tiers:
        extended = plan.settings.resources_of(tier).extended
        hardware = plan.hardware[tier]
        instance = hardware.instance if hardware else None
        wanted = EFA_RESOURCE if instance and instance.efa_interfaces else stated.rdma_resource if stated else None
        if plan.settings.topology == "prefill-decode" and wanted and not extended.get(wanted):
            count = instance.efa_per_gpu(_gpus(plan, tier)) if instance else _gpus(plan, tier)
            yield Finding(f"{tier}.resources.extended.{wanted}", "not asked for", f"{count} for this tier's GPUs",
                          "add it to the tier's or to engine.resources")  # fmt: skip


@rule("rdma-devices-used", "warning", "Pods ask for all RDMA devices that belong to their GPUs.",
      "https://github.com/skypilot-org/skypilot/issues/8391: one of four EFAs used")  # fmt: skip
def rdma_used(plan: Plan) -> Iterator[Finding]:
    for tier in plan.settings.tiers:
        hardware = plan.hardware[tier]
        asked = plan.settings.resources_of(tier).extended.get(EFA_RESOURCE)
        if hardware and hardware.instance and isinstance(asked, int):
            share = hardware.instance.efa_per_gpu(_gpus(plan, tier))
            if asked < share:
                yield Finding(f"{tier}.resources.extended.{EFA_RESOURCE}", f"{asked}",
                              f"{share}, the share of {_gpus(plan, tier)} GPUs of a {hardware.instance.name}")  # fmt: skip


@rule("efa-on-the-node", "error", "Pods ask for no more EFA interfaces than their nodes have.",
      "Kubernetes: a pod that asks for more of a device than a node has is never scheduled")  # fmt: skip
def efa_on_the_node(plan: Plan) -> Iterator[Finding]:
    for tier in plan.settings.tiers:
        hardware = plan.hardware[tier]
        asked = plan.settings.resources_of(tier).extended.get(EFA_RESOURCE)
        if hardware is None or hardware.instance is None or not isinstance(asked, int):
            continue
        key, there = f"{tier}.resources.extended.{EFA_RESOURCE}", hardware.instance.efa_interfaces
        if not there:
            yield Finding(key, f"{asked} on a {hardware.instance.name}", "nothing: the type has no EFA",
                          f"leave it out, or choose {_with_efa(hardware.instance)}")  # fmt: skip
        elif (pods := _pods(plan, tier)) > hardware.nodes * (there // asked):
            yield Finding(key, f"{asked} for each of {pods} pods",
                          f"no more than {hardware.nodes} {hardware.instance.name} of {there} hold",
                          "ask for fewer, or more nodes")  # fmt: skip


@rule("gpus-requested", "error", "An engine asks for as many GPUs as it is parallel.",
      "vLLM starts one worker a rank; too few GPUs end it at start-up")  # fmt: skip
def gpus_requested(plan: Plan) -> Iterator[Finding]:
    for tier in plan.settings.tiers:
        if plan.hardware[tier] is None:
            continue
        asked = plan.settings.resources_of(tier).extended.get("nvidia.com/gpu", 0)
        if asked != _gpus(plan, tier):
            yield Finding(f"{tier}.resources.extended.nvidia.com/gpu", f"{asked}",
                          f"{_gpus(plan, tier)}: tensor x pipeline x data{_over(plan, tier)} of {tier}.engine.parallel")  # fmt: skip


@rule("dra-efa-whole", "error", "Under Dynamic Resource Allocation each GPU gets a whole number of EFA devices.",
      "splitserve: a claim holds one GPU with the EFA devices on its PCIe root")  # fmt: skip
def dra_efa_whole(plan: Plan) -> Iterator[Finding]:
    for tier in plan.settings.tiers:
        extended = plan.settings.resources_of(tier).extended
        gpus, efas = (int(extended.get(name, 0)) for name in ("nvidia.com/gpu", EFA_RESOURCE))
        if plan.settings.platform.node_software.devices == "dra" and gpus and efas % gpus:
            yield Finding(f"{tier}.resources.extended.{EFA_RESOURCE}", f"{efas} for {gpus} GPUs",
                          "a multiple of the GPUs", "or set platform.nodeSoftware.devices: plugin")  # fmt: skip


@rule("gpus-enough", "error", "The nodes of a tier hold its replicas, and its engine fits the nodes that it spans.",
      "splitserve: pods that can't be scheduled wait for ever")  # fmt: skip
def gpus_enough(plan: Plan) -> Iterator[Finding]:
    for tier, settings in plan.settings.tiers.items():
        hardware = plan.hardware[tier]
        if hardware is None:
            continue
        each, pods, nodes = _gpus(plan, tier), _pods(plan, tier), plan.settings.engine_of(tier).parallel.nodes
        if each > hardware.gpus_per_node:
            on_node = "an engine" if nodes == 1 else f"on each of an engine's {nodes} nodes"
            yield Finding(f"{tier}.engine.parallel", f"{each} GPUs {on_node}", f"at most {hardware.gpus_per_node}, a node's",
                          f"spread it over more nodes: {tier}.engine.parallel.nodes")  # fmt: skip
        elif each and hardware.instance and pods > (room := hardware.nodes * (hardware.gpus_per_node // each)):
            found = f"{settings.replicas} of {each} GPUs" + (f" on each of {nodes} nodes" if nodes > 1 else "")
            yield Finding(f"{tier}.replicas", found, f"at most {room // nodes} on {hardware.nodes} nodes")


@rule("gpus-shared", "error", "The nodes of an existing cluster hold the engines of all tiers together.",
      "splitserve: pods that can't be scheduled wait for ever")  # fmt: skip
def gpus_shared(plan: Plan) -> Iterator[Finding]:
    stated = plan.settings.hardware
    if stated is None:
        return
    wanted = sum(_gpus(plan, tier) * _pods(plan, tier) for tier in plan.settings.tiers)
    if wanted > stated.gpus_per_node * stated.nodes:
        yield Finding("platform.hardware.nodes", f"{stated.nodes} of {stated.gpus_per_node} GPUs",
                      f"{wanted} GPUs for the replicas of all tiers", "fewer replicas or more nodes")  # fmt: skip


@rule("hugepages-fit", "error", "The pods of a node ask for no more huge pages than it has.",
      "EKS user guide, node-efa: the EFA driver sets 5,128 pages of 2 MiB aside, a node's whole share")  # fmt: skip
def hugepages_fit(plan: Plan) -> Iterator[Finding]:
    for tier in plan.settings.tiers:
        hardware = plan.hardware[tier]
        text = plan.settings.resources_of(tier).extended.get(HUGEPAGES)
        asked = _bytes(text) if isinstance(text, str) else 0
        if text and not asked:
            yield Finding(f"{tier}.resources.extended.{HUGEPAGES}", f"{text}", "an amount with its unit, such as 5120Mi",
                          "https://github.com/aws-neuron/aws-neuron-sdk/issues/109")  # fmt: skip
        if not asked or hardware is None or hardware.instance is None:
            continue
        pods = min(_pods(plan, tier), max(1, hardware.gpus_per_node // max(1, _gpus(plan, tier))))
        if asked > hardware.instance.hugepages_2mi * 2 * (1 << 20) // pods:
            yield Finding(f"{tier}.resources.extended.{HUGEPAGES}", f"{text} in each of {pods} pods a node",
                          f"at most {hardware.instance.hugepages_2mi * 2 // pods}Mi each")  # fmt: skip


@rule("memory-lock", "error", "Where nodes limit locked memory, RDMA pods may run with the capability.",
      "https://github.com/openucx/ucx/issues/8229, https://github.com/NVIDIA/nccl-tests/issues/206: ibv_reg_mr "
      "fails with ENOMEM")  # fmt: skip
def memory_lock(plan: Plan) -> Iterator[Finding]:
    stated, user = plan.settings.hardware, plan.settings.run_as_user
    rdma = plan.on_efa or bool(stated and stated.rdma_resource)
    unlimited = bool(stated and stated.memory_lock == "unlimited")
    if plan.settings.topology == "prefill-decode" and rdma and not unlimited and user != 0:
        yield Finding(
            "runAsUser", f"{user}", "0: a capability such as IPC_LOCK takes effect for root alone",
            "or lift the nodes' limit (LimitMEMLOCK=infinity for containerd) and set platform.hardware.memoryLock: "
            "unlimited",
        )  # fmt: skip


def _gpus(plan: Plan, tier: str) -> int:
    """Of one pod: an engine over several nodes has one on each."""
    return plan.settings.engine_of(tier).parallel.gpus_per_pod


def _over(plan: Plan, tier: str) -> str:
    return " / nodes" if plan.settings.engine_of(tier).parallel.nodes > 1 else ""


def _pods(plan: Plan, tier: str) -> int:
    """Of all engines of a tier together."""
    return plan.settings.tiers[tier].replicas * plan.settings.engine_of(tier).parallel.nodes


def _with_efa(instance: Instance) -> str:
    """Types of the same GPU that have it."""
    names = [one.name for one in catalogue().values() if one.gpu == instance.gpu and one.efa_interfaces]
    return f"a type with it: {', '.join(names[:4])}" if names else "another GPU: no type with this one has EFA"


def _bytes(quantity: str) -> int:
    """`5120Mi` and its kind; the schema admits no other."""
    return int(quantity[:-2]) * {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}[quantity[-2:]]
