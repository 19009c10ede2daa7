"""What is asked of the engines: one rendered prompt becomes one or more samples, each with its two bodies.

Why n > 1 is n pairs of legs, each with n = 1: the blocks that one prefill holds are freed by the first
decode that says it has them (vLLM 0.32 `nixl/pull_scheduler.py`: "Only trigger 1 KV transfer per
request"; `v1/engine/parallel_sampling.py` hands every child the same `kv_transfer_params`). A second
child would read blocks that may by then hold another prompt. The n prefills of one prompt go to one
pod, where all but the first find their blocks cached; a push connector matches one prefill to one
decode by request id, so it needs pairs too. With one engine tier nothing is moved, and n goes as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .faults import Fault
from .pods import Pod
from .sanitize import strip

RENDERED_MAX_TOKENS = 16
"""`SamplingParams` leaves out what equals its default (msgspec `omit_defaults`), and 16 is the default of
`max_tokens`: /render answers a request for 16 tokens without the field, and /inference/v1/generate
takes a missing field for "as many as fit". So 16 is written back."""
FOR_DECODE_OF_TRANSFERRED = ("prompt_logprobs", "prompt_logprob_token_ids", "skip_reading_prefix_cache")
"""Prefill has answered them. Left in, they make decode compute the prompt itself and load no KV (vLLM
0.32 `v1/core/sched/scheduler.py`: `skip_reading_prefix_cache` sets the external tokens to 0)."""
FOR_PREFILL_USELESS = ("min_tokens", "logprobs", "logprob_token_ids", "seed")
"""`min_tokens` must not exceed `max_tokens` = 1; the rest is about a token that is thrown away."""
ASK_TO_KEEP = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}


@dataclass
class Siblings:
    """What the samples of one prompt share: the prefill pod that has its blocks cached."""

    prefill: Pod | None = None


@dataclass
class Sample:
    """One run of the engines: `n` choices of the prompt, numbered from `first` in the client's answer."""

    prompt: int
    first: int
    n: int
    request: dict[str, Any]
    headers: dict[str, str]
    siblings: Siblings = field(default_factory=Siblings)
    prefilled: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None

    @property
    def token_ids(self) -> list[int]:
        return self.request["token_ids"]


def split(
    rendered: list[dict[str, Any]], *, pairs: bool, limit: int, headers: dict[str, str], unique: str = ""
) -> list[Sample]:
    """The samples of a request, in the order of their choices. Raises: Fault 400 when there are too many."""
    samples: list[Sample] = []
    first = 0
    for prompt, request in enumerate(rendered):
        strip(request)
        params = {"max_tokens": RENDERED_MAX_TOKENS, **request["sampling_params"]}
        n = params.get("n", 1)
        runs, each = (n, 1) if pairs else (1, n)
        if len(samples) + runs > limit:
            raise Fault(400, f"prompts times n: more than {limit} in one request", reason="too_many_samples", param="n")
        siblings = Siblings()
        for run in range(runs):
            own = params | {"n": each} | ({} if params.get("seed") is None else {"seed": params["seed"] + run})
            name = headers["X-Request-Id"] + (f"-{len(samples)}" if samples else "") + unique
            body = request | {"request_id": name, "sampling_params": own}
            samples.append(Sample(prompt, first, each, body, headers | {"X-Request-Id": name}, siblings))
            first += each
    return samples


def media_bytes(samples: list[Sample]) -> int:
    """What the rendered images, videos and sounds of a request weigh: many times what the client sent. The samples
    of one prompt share them."""
    prompts = {sample.prompt: sample.request.get("features") or {} for sample in samples}
    given = (
        one for features in prompts.values() for items in (features.get("kwargs_data") or {}).values() for one in items
    )
    return sum(len(one) for one in given if one)


def prefill_body(sample: Sample, kv_transfer_params: dict[str, Any] = ASK_TO_KEEP) -> dict[str, Any]:
    params = {
        name: value for name, value in sample.request["sampling_params"].items() if name not in FOR_PREFILL_USELESS
    }
    changed = {"sampling_params": params | {"max_tokens": 1, "n": 1}, "stream": False, "stream_options": None}
    return sample.request | changed | {"kv_transfer_params": dict(kv_transfer_params)}


def decode_body(sample: Sample, *, stream: bool, kv_transfer_params: dict[str, Any] | None) -> dict[str, Any]:
    """The engine's usage is asked for always: it counts what the client was not shown.

    Embeddings are named to prefill alone: a decoder has no connector for them, and the KV is made of them."""
    params = dict(sample.request["sampling_params"])
    if kv_transfer_params is not None:
        for name in FOR_DECODE_OF_TRANSFERRED:
            params.pop(name, None)
    options = {"include_usage": True} if stream else None
    changed = {"sampling_params": params, "stream": stream, "stream_options": options}
    if kv_transfer_params is not None:
        changed["ec_transfer_params"] = None
    return sample.request | changed | {"kv_transfer_params": kv_transfer_params}
