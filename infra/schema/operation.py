"""How a release is judged, brought out, sized, watched and reached: gate, rollout, autoscale, observability, edge,
and the traffic to plan for."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from infra.schema.section import LabelKey, LabelValue, NonNegative, Port, Positive, PositiveNumber, Section, Text


class Gate(Section):
    """The check after each deploy."""

    limit_ms: PositiveNumber = 100.0
    """The mean transfer must stay below; "hundreds of milliseconds" starts here."""
    max_ratio: PositiveNumber | None = None
    """How many times the expected time a transfer may take; off where nothing is expected."""
    samples: Annotated[int, Field(ge=1, le=100)] = 5
    """Transfers a pair, fresh and again aged."""
    prompt_tokens: Positive = 1024
    """The length of the probe's prompts."""
    answer_tokens: Positive = 8
    age: Literal["auto", "off"] | Positive = "auto"
    """Age the KV cache before the judged samples: auto, off, or a limit in seconds."""
    ready_limit_s: Positive | None = None
    """How long a release may take to get ready; default engine.loadLimitS and 300, at least 900."""
    probe_limit_s: Positive = 300
    """How long the probe may take."""
    unmeasured: Literal["refuse", "accept-content-only"] = "refuse"
    """What becomes of a connector whose transfers can't be measured: it is refused, or judged by how many tokens
    arrived and by its answers alone."""
    on_first_failure: Literal["scale-to-zero", "keep"] = "scale-to-zero"
    """What becomes of a first release that fails: there is none to go back to."""
    retry: NonNegative = 0
    """Raise it to measure a refused release once more."""


class Rollout(Section):
    """`canary` puts the candidate beside the live release; `swap` stops the live one first."""

    strategy: Literal["canary", "swap"] = "canary"
    drain_limit_s: NonNegative = 60
    """How long the old release may finish its requests."""


class Bounds(Section):
    """Fewest and most pods of a tier."""

    min: Positive = 1
    max: Positive

    @model_validator(mode="after")
    def in_order(self) -> Bounds:
        if self.min > self.max:
            raise ValueError(f"found min {self.min} above max {self.max}; wanted min at most max")
        return self


class Autoscale(Section):
    """Tiers of the live release that are sized by their own signals; the others keep their `replicas`."""

    prefill: Bounds | None = None
    decode: Bounds | None = None
    collocated: Bounds | None = None
    render: Bounds | None = None
    ratio_min: PositiveNumber | None = None
    """Fewest prefill pods a decode pod."""
    ratio_max: PositiveNumber | None = None
    """Most prefill pods a decode pod."""
    targets: dict[str, Annotated[float, Field(ge=0, allow_inf_nan=False, strict=False)]] = {}
    """What a signal shall be per pod, by `tier.signal`, such as `decode.kv_usage: 0.6`; 0 switches it off."""
    prefill_tokens_per_s: PositiveNumber | None = None
    """Prompt tokens that one prefill pod computes a second; else learned while it has a queue."""
    average_s: NonNegative = 15
    """Queues and cache use are averaged over this time: at one moment they say little of the load."""
    up_window_s: NonNegative = 10
    """A tier grows to what was asked for throughout this time."""
    down_window_s: NonNegative = 300
    """A tier shrinks, a pod at a time, to the most that was asked for in this time."""
    settle_s: NonNegative = 120
    """Nothing shrinks for so long after traffic moved to another release."""
    period_s: Positive = 5
    image: str | None = None
    """In place of the engines' image, whose Python it runs on."""
    cpu: str = "100m"
    memory: str = "256Mi"

    @property
    def tiers(self) -> dict[str, Bounds]:
        """Those that are scaled."""
        found = {tier: getattr(self, tier) for tier in ("prefill", "decode", "collocated", "render")}
        return {tier: bounds for tier, bounds in found.items() if bounds}


class IdleProbe(Section):
    """A CronJob that sends the live release a few transfers when nobody uses it, and judges them as the gate does."""

    schedule: Text | None = None
    """Cron's five fields in the cluster's time zone, such as `*/10 * * * *`; none: there is no idle probe."""
    samples: Annotated[int, Field(ge=1, le=100)] = 3
    """Transfers a pair and run."""
    quiet_s: Annotated[int, Field(ge=1, le=300)] = 20
    """Nobody uses the engines if no request came for so long."""
    image: str | None = None
    """In place of the router's image, whose Python it runs on."""


class Observability(Section):
    """What watches the live release: see docs/how-to/observe.md. Nothing of it is part of a release."""

    pod_monitors: bool = False
    """Make PodMonitors, by which the Prometheus operator scrapes every pod with metrics."""
    rules: bool = False
    """Make a PrometheusRule of recording rules and alerts, on the gate's own limit."""
    dashboard: bool = False
    """Make a ConfigMap with the Grafana dashboard, which the sidecar of Grafana's chart loads."""
    idle_probe: IdleProbe = IdleProbe()
    labels: dict[LabelKey, LabelValue] = {}
    """On PodMonitors and rules, by which your Prometheus selects them, such as `release: kube-prometheus-stack`."""
    scrape_interval_s: Annotated[int, Field(ge=1, le=60)] = 15
    """How often each pod is asked for its metrics."""
    queued_per_pod: PositiveNumber = 10.0
    """More requests that wait for room, a pod, are alerted on."""


class Edge(Section):
    """The front door: the one address that clients use."""

    port: Port = 80
    service_type: Literal["ClusterIP", "NodePort", "LoadBalancer"] = "ClusterIP"
    load_balancer: Literal["network", "application"] = "network"
    node_port: Annotated[int, Field(ge=30000, le=32767)] = 31080
    """On AWS: the port of the router's nodes that the load balancer sends to."""
    internet_facing: bool = False
    """On AWS: whether the load balancer has public addresses; needs a certificate."""
    client_cidrs: list[str] = []
    """On AWS: the networks whose clients may connect; default the VPC's own range."""
    access_logs: bool = True
    """On AWS: write the load balancer's access logs to a bucket of the stack."""
    deletion_protection: bool = False
    """On AWS: refuse to delete the load balancer."""
    idle_timeout_s: Positive | None = None
    """After this much silence the load balancer cuts a connection; default its own (60 or 350 s)."""
    cross_zone: bool = True
    """Whether a load balancer's node in one zone reaches pods in another."""
    certificate: str | None = None
    """The ARN of a TLS certificate."""
    api_key_secret: str | None = None
    """The Secret that holds the clients' API key."""


class Traffic(Section):
    """What the stack is for, so that the preview can say whether a split pays."""

    prompt_tokens: Positive
    output_tokens: Positive
    rate_per_s: PositiveNumber
    burstiness: Annotated[float, Field(ge=1, le=1000, allow_inf_nan=False, strict=False)] = 1.0
    """Peak over mean rate."""
    ttft_target_ms: PositiveNumber | None = None
    itl_p99_target_ms: PositiveNumber | None = None
    collocated_itl_p99_ms: PositiveNumber | None = None
    """Measured in production on collocated serving."""
    growing_context: bool = False
    cpu_bound: bool = False
    """Templating or parsing shows in the GPU nodes' CPU profile."""
