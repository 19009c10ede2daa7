"""The one page that a preview shows: tiers, link, KV transfer against the limit, cost, advice. Pure.

Unknown is None, and written as "unknown"; never 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from components.hardware.expected import Expected
from components.hardware.prices import Price, eks_cluster_price, price, total
from components.hardware.traffic import Advice, Traffic, advise
from infra.autoscaling import scaled
from infra.aws_names import POOLS
from infra.plan import Plan
from infra.schema.serving import Parallel


@dataclass(frozen=True)
class TierRow:
    """One tier; `usd_per_hour` is of its nodes. None: unknown, or not stated off AWS."""

    tier: str
    replicas: int
    nodes: int | None
    hardware: str | None
    gpus: int | None
    parallel: str
    usd_per_hour: float | None


@dataclass(frozen=True)
class Summary:
    """Times in milliseconds for one prompt of `prompt_tokens`, the gate's."""

    tiers: tuple[TierRow, ...]
    link: str | None
    gb_per_s: float | None
    prompt_tokens: int
    kv_bytes: int | None
    descriptors_fresh: int | None
    descriptors_aged: int | None
    fresh_ms: float | None
    aged_ms: float | None
    limit_ms: float
    unmeasured: tuple[str, ...]
    usd_per_hour: float | None
    costs: tuple[tuple[str, float | None], ...]
    """What is billed by the hour, each with its share of the sum."""
    price_notes: tuple[str, ...]
    advice: Advice | None
    beside: tuple[tuple[str, str], ...] = ()
    """What else there is: the render tier, and what is sized by its own signals."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


PriceOf = Callable[[str, str], Price]
"""(instance type, region) -> what it costs: the repository's table, or AWS's price list."""


def summary(plan: Plan, price_of: PriceOf = price) -> Summary:
    """Everything that is known of a plan, on one page."""
    settings = plan.settings
    found = plan.expected(settings.gate.prompt_tokens)
    moved = found.transfer if found else None
    prices = dict(_prices(plan, price_of))
    return Summary(
        tiers=tuple(_row(plan, tier, prices) for tier in settings.tiers),
        link=plan.link.name if plan.link else None,
        gb_per_s=plan.link.effective_gb_per_s if plan.link else None,
        prompt_tokens=settings.gate.prompt_tokens,
        kv_bytes=moved.total_bytes if moved else _kv_bytes(plan),
        descriptors_fresh=moved.descriptors_fresh if moved else None,
        descriptors_aged=moved.descriptors_aged if moved else None,
        fresh_ms=found.fresh_ms if found else None,
        aged_ms=found.aged_ms if found else None,
        limit_ms=settings.gate.limit_ms,
        unmeasured=found.unmeasured if found else (),
        usd_per_hour=total(prices.values()) if prices else None,
        costs=tuple((name, total([entry])) for name, entry in prices.items()),
        price_notes=tuple(dict.fromkeys(p.source for _, p in prices.values())),
        advice=_advice(plan),
        beside=tuple(_beside(plan)),
    )


def _beside(plan: Plan) -> Iterable[tuple[str, str]]:
    pods = plan.settings.render.replicas
    if pods:
        yield "render", f"{pods} pods on CPUs; the gateway is the router"
    encoder = plan.settings.encoder
    if encoder.replicas:
        yield "encoder", f"{encoder.replicas} pods that encode images and sounds; embeddings by {encoder.connector}"
    if plan.settings.connector.name != "nixl" and plan.settings.topology == "prefill-decode":
        parts = ", ".join(one.name for one in plan.settings.connector.chosen.parts)
        yield "connector", parts if plan.settings.connector.name != "multi" else f"multi: {parts}"
    bounds = scaled(plan.settings)
    if bounds:
        yield "autoscale", ", ".join(f"{tier} {b.min} to {b.max}" for tier, b in bounds.items())


def _row(plan: Plan, tier: str, prices: dict[str, tuple[int, Price]]) -> TierRow:
    hardware, parallel = plan.hardware[tier], plan.settings.engine_of(tier).parallel
    name = None
    if hardware:
        name = hardware.instance.name if hardware.instance else f"{hardware.gpus_per_node} x {hardware.gpu}"
    return TierRow(
        tier=tier,
        replicas=plan.settings.tiers[tier].replicas,
        nodes=hardware.nodes if hardware else None,
        hardware=name,
        gpus=hardware.gpus if hardware else None,
        parallel=_parallel(parallel),
        usd_per_hour=total([prices[tier]]) if tier in prices else None,
    )


def _parallel(parallel: Parallel) -> str:
    experts = ", EP" if parallel.expert else ""
    nodes = f", over {parallel.nodes} nodes" if parallel.nodes > 1 else ""
    return f"TP {parallel.tensor}, PP {parallel.pipeline}, DP {parallel.data}{experts}{nodes}"


def _prices(plan: Plan, price_of: PriceOf) -> Iterable[tuple[str, tuple[int, Price]]]:
    """(what, (how many, price)) of everything that AWS bills by the hour, as far as it is planned."""
    aws = plan.settings.platform.aws
    if aws is None:
        return
    for tier in (*plan.settings.tiers, *POOLS):
        group = getattr(aws.node_groups, tier)
        if group:
            on_demand = group.capacity in ("on-demand", "reservation")
            kind = Price(None, f"unknown: {group.capacity} capacity of {group.instance} has no list price here")
            yield tier, (group.nodes, price_of(group.instance, aws.region) if on_demand else kind)
    if plan.settings.platform.layers != "serving":
        yield "control plane", (1, eks_cluster_price())


def _kv_bytes(plan: Plan) -> int | None:
    """Of a prompt, where no link is known."""
    if plan.geometry is None:
        return None
    tier = "decode" if plan.settings.topology == "prefill-decode" else "collocated"
    engine = plan.settings.engine_of(tier)
    tokens, tp = plan.settings.gate.prompt_tokens, engine.parallel.tensor
    if plan.geometry.tp_faults(tp):
        return None
    return plan.geometry.transfer(tokens, engine.block_size, plan.kv_dtype(engine), tp).total_bytes


def _advice(plan: Plan) -> Advice | None:
    stated = plan.settings.traffic
    if stated is None:
        return None
    found: Expected | None = plan.expected(stated.prompt_tokens)
    return advise(Traffic(**stated.model_dump()), found.aged_ms if found else None, plan.settings.gate.limit_ms)
