"""Split or stay collocated: advice from a stated traffic profile and what is expected of the plan. Pure.

The rules are those of vLLM's guide to disaggregated serving, section "Who should use it"; each names
what it looked at. They advise, they don't decide: the guide's own advice is to measure first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Choice = Literal["split", "collocated", "measure"]

LONG_PROMPT_TOKENS = 4096
"""The guide's tests use about 8k; AWS's HyperPod asks for 4k and more before it splits."""
SLOW_TRANSFER_SHARE_OF_TTFT = 0.25
"""Every first token pays for the transfer: a quarter of the target leaves prefill too little."""
LOW_RATE_PER_S = 0.2
"""The lowest rate of the guide's tests, where splitting lost on TTFT and won nothing on ITL."""
BURSTY = 3.0
"""Peak over mean rate from which a fixed ratio of tiers is wrong most of the time."""


@dataclass(frozen=True)
class Traffic:
    """`rate_per_s` is the mean; `burstiness` peak over mean rate; targets in milliseconds.

    `collocated_itl_p99_ms` is measured in production; None when it was not. `cpu_bound` says that
    templating or parsing shows in the GPU nodes' CPU profile.
    """

    prompt_tokens: int
    output_tokens: int
    rate_per_s: float
    burstiness: float = 1.0
    ttft_target_ms: float | None = None
    itl_p99_target_ms: float | None = None
    collocated_itl_p99_ms: float | None = None
    growing_context: bool = False
    cpu_bound: bool = False


@dataclass(frozen=True)
class Advice:
    choice: Choice
    reasons: tuple[str, ...]
    render_tier: bool
    shared_cache: bool


def advise(traffic: Traffic, transfer_ms: float | None, limit_ms: float) -> Advice:
    """`transfer_ms` is what the plan's KV transfer should take for such a prompt; None if unknown."""
    against, unsure, favour = _against(traffic, transfer_ms, limit_ms), _unsure(traffic, transfer_ms), _favour(traffic)
    if against:
        choice: Choice = "collocated"
    elif favour and not unsure:
        choice = "split"
    else:
        choice = "measure"
    reasons = (*against, *unsure, *favour) or ("nothing in this profile asks for a split: measure collocated first",)
    return Advice(choice, reasons, traffic.cpu_bound, traffic.growing_context)


def _against(traffic: Traffic, transfer_ms: float | None, limit_ms: float) -> tuple[str, ...]:
    found = []
    if transfer_ms is not None and transfer_ms >= limit_ms:
        found.append(f"KV transfer is slow: {transfer_ms:.0f} ms expected, limit {limit_ms:g} ms")
    elif transfer_ms is not None and traffic.ttft_target_ms:
        share = transfer_ms / traffic.ttft_target_ms
        if share >= SLOW_TRANSFER_SHARE_OF_TTFT:
            found.append(
                f"TTFT binds: the transfer alone takes {share:.0%} of the {traffic.ttft_target_ms:g} ms target"
            )
    if traffic.rate_per_s <= LOW_RATE_PER_S:
        found.append(f"traffic is low ({traffic.rate_per_s:g} requests/s): decode streams seldom wait for a prefill")
    if traffic.burstiness >= BURSTY:
        found.append(f"traffic is bursty (peak {traffic.burstiness:g} times the mean): a fixed ratio of tiers idles")
    if traffic.itl_p99_target_ms is None and traffic.ttft_target_ms is not None:
        found.append("TTFT is the only target: a split adds the transfer to it and wins on ITL, which has none")
    return tuple(found)


def _unsure(traffic: Traffic, transfer_ms: float | None) -> tuple[str, ...]:
    found = []
    if transfer_ms is None:
        found.append("the KV transfer time is unknown: state instance or link, or let a release's gate measure it")
    if traffic.itl_p99_target_ms is not None and traffic.collocated_itl_p99_ms is None:
        found.append("collocated ITL p99 under production load is not stated: measure it against the target first")
    return tuple(found)


def _favour(traffic: Traffic) -> tuple[str, ...]:
    found = []
    measured, target = traffic.collocated_itl_p99_ms, traffic.itl_p99_target_ms
    if measured is not None and target is not None and measured > target:
        found.append(f"collocated ITL p99 {measured:g} ms misses its {target:g} ms target")
    if traffic.prompt_tokens >= LONG_PROMPT_TOKENS and traffic.rate_per_s > LOW_RATE_PER_S:
        found.append(
            f"long prompts ({traffic.prompt_tokens:,} tokens) at {traffic.rate_per_s:g} requests/s stall decode"
        )
    if traffic.growing_context:
        found.append("contexts grow from turn to turn: pair the split with KV offloading or a shared cache")
    return tuple(found)
