"""Gate, rollout, edge and access: what decides whether a right plan also ends right."""

from __future__ import annotations

from collections.abc import Iterator

from infra.plan import Plan
from infra.rules.rule import Finding, rule

IDLE_TIMEOUT_S = {"application": 60, "network": 350}
"""Load balancers' own idle timeouts (https://docs.aws.amazon.com/elasticloadbalancing/latest/)."""
SILENCE_S = 60
"""How long a queued or prefilled request may send nothing: more than an application balancer allows."""


@rule("image-named", "error", "The image is named where it can't be made on the machine.",
      "splitserve: only the local platform makes its own image")  # fmt: skip
def image_named(plan: Plan) -> Iterator[Finding]:
    if plan.settings.image is None and plan.settings.platform.kind != "local":
        yield Finding("image", "nothing", "the vLLM image's name, by digest")


@rule("probe-longer-than-a-block", "error", "The probe's prompt fills more than a KV block.",
      "https://github.com/llm-d/llm-d-router/issues/867: a shorter prompt moves nothing")  # fmt: skip
def probe_longer_than_block(plan: Plan) -> Iterator[Finding]:
    size = max(plan.settings.engine_of(tier).block_size for tier in plan.settings.tiers)
    if plan.settings.gate.prompt_tokens <= size:
        yield Finding("gate.promptTokens", f"{plan.settings.gate.prompt_tokens}",
                      f"more than one KV block (engine.blockSize {size})", "a shorter prompt moves nothing")  # fmt: skip


@rule("probe-in-length", "error", "The probe's prompt and answer fit the model's length.",
      "vLLM refuses longer requests")  # fmt: skip
def probe_in_length(plan: Plan) -> Iterator[Finding]:
    gate = plan.settings.gate
    longest = min(plan.settings.engine_of(tier).max_model_len for tier in plan.settings.tiers)
    if gate.prompt_tokens + gate.answer_tokens > longest:
        yield Finding(
            "gate.promptTokens", f"{gate.prompt_tokens} (+ {gate.answer_tokens} for the answer)",
            f"at most {longest - gate.answer_tokens}", f"engine.maxModelLen is {longest}",
        )  # fmt: skip


@rule("gate-waits-for-loading", "error", "The gate waits at least as long as the start-up probes do.",
      "https://github.com/pulumi/pulumi-kubernetes/issues/712, 1421: waiting that ends before the model is loaded")  # fmt: skip
def gate_waits(plan: Plan) -> Iterator[Finding]:
    if plan.ready_limit_s < plan.load_limit_s:
        yield Finding("gate.readyLimitS", f"{plan.ready_limit_s}",
                      f"at least engine.loadLimitS {plan.load_limit_s}")  # fmt: skip


@rule("failures-are-seen", "warning", "A failed transfer is an error, not a slower answer.",
      "llm-d docs/operations/disaggregation/vllm.md: recompute hides failures as latency")  # fmt: skip
def failures_are_seen(plan: Plan) -> Iterator[Finding]:
    if plan.settings.connector.load_failure_policy == "recompute":
        yield Finding("connector.loadFailurePolicy", "recompute", "fail", "clients would only see it as latency")


@rule("silence-is-not-cut", "error", "The load balancer lets a stream be silent as long as a prefill may take.",
      "https://github.com/vllm-project/vllm/issues/47647: streams cut after 60 s in the queue")  # fmt: skip
def silence_is_not_cut(plan: Plan) -> Iterator[Finding]:
    edge, keep_alive = plan.settings.edge, plan.settings.engine.sse_keep_alive_s
    if edge.service_type != "LoadBalancer":
        return
    timeout = edge.idle_timeout_s or IDLE_TIMEOUT_S[edge.load_balancer]
    if keep_alive and keep_alive >= timeout:
        yield Finding("engine.sseKeepAliveS", f"{keep_alive}", f"less than the idle timeout of {timeout} s")
    elif not keep_alive and timeout <= SILENCE_S:
        yield Finding("edge.idleTimeoutS", f"{timeout} s, with engine.sseKeepAliveS off",
                      f"more than {SILENCE_S} s of silence, or comments in the stream",
                      "set engine.sseKeepAliveS: 15, or a longer edge.idleTimeoutS")  # fmt: skip


@rule("balancer-reaches-pods", "error", "A load balancer's zones reach the one zone of the GPU nodes.",
      "https://github.com/kubernetes-sigs/aws-load-balancer-controller/issues/1895: one address of three times out")  # fmt: skip
def balancer_reaches_pods(plan: Plan) -> Iterator[Finding]:
    aws, edge = plan.settings.platform.aws, plan.settings.edge
    if not aws or edge.service_type != "LoadBalancer" or edge.cross_zone:
        return
    others = [zone for zone in aws.load_balancer_zones if zone != aws.zone]
    if others:
        yield Finding("edge.crossZone", f"false, with the balancer in {', '.join(others)} and the pods in {aws.zone}",
                      "true, or platform.aws.loadBalancerZones with the pods' zone alone")  # fmt: skip


@rule("kubeconfig-not-inline", "error", "A kubeconfig is named by its path, so that no key gets into the state.",
      "https://github.com/pulumi/pulumi-eks/issues/725, 832: kubeconfig in plain text in the state")  # fmt: skip
def kubeconfig_not_inline(plan: Plan) -> Iterator[Finding]:
    given = plan.settings.platform.kubeconfig or ""
    if "\n" in given or "client-key-data" in given or given.lstrip().startswith("{"):
        yield Finding(
            "platform.kubeconfig", "a kubeconfig's content", "the path of a file", "its keys stay in the file"
        )


@rule("built-here", "error", "Only what this version deploys is asked for.",
      "splitserve: what is not built yet is refused, not ignored")  # fmt: skip
def built_here(plan: Plan) -> Iterator[Finding]:
    s = plan.settings
    asked = {
        "edge.certificate": s.edge.certificate if s.platform.kind != "aws" else None,
        "edge.idleTimeoutS": s.edge.idle_timeout_s if s.platform.kind != "aws" else None,
    }
    for key, value in asked.items():
        if value is not None:
            yield Finding(key, f"{value}", "nothing: this version does not deploy it yet", "leave it out")
