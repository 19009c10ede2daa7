"""What a run of the load generator says of each request: read from the pod's log, checked, never guessed.

The fields are those that `vllm bench serve --save-detailed` writes (vllm 0.32 `benchmarks/serve.py`): one
list entry a request; times in seconds; a failed request has `output_lens` 0 and usually a text in `errors`.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from components.bench.in_pod import BEGIN, END
from components.bench.load import Load

LISTS = ("input_lens", "output_lens", "ttfts", "itls", "start_times", "errors")
LATE = 1.1
"""Arrivals are spread over requests / rate seconds; a generator that needs more had too little CPU."""
LATE_S = 0.5


class Unreadable(Exception):
    """The log holds no result that can be believed; the message says what is wrong with it."""


@dataclass(frozen=True)
class Request:
    """`gaps_ms` are the times between its tokens; `error` says why it doesn't count as answered."""

    ttft_ms: float
    gaps_ms: tuple[float, ...]
    error: str | None = None


@dataclass(frozen=True)
class Run:
    """One run at one rate. `span_s` lies between the first and the last request sent; `duration_s` ends
    with the last answer. `late`: the generator itself could not keep to the rate."""

    requests: tuple[Request, ...]
    span_s: float
    duration_s: float
    late: bool


def read_log(log: str) -> dict[str, Any]:
    """The result between the marks, as `in_pod.py` printed it. Raises Unreadable."""
    for line in reversed(log.splitlines()):
        if line.startswith(f"{BEGIN} "):
            if not line.endswith(f" {END}"):
                raise Unreadable("the pod's log ends within the result")
            return _unpacked(line.removeprefix(BEGIN).removesuffix(END).strip())
    raise Unreadable("the pod's log holds no result")


def _unpacked(text: str) -> dict[str, Any]:
    try:
        content = json.loads(zlib.decompress(base64.b64decode(text, validate=True)))
    except (binascii.Error, zlib.error, ValueError) as error:
        raise Unreadable(f"the result in the pod's log is damaged: {error}") from None
    if not isinstance(content, dict):
        raise Unreadable("the result in the pod's log is no JSON object")
    return content


def read_run(content: Mapping[str, Any], load: Load, rate_per_s: float) -> Run:
    """One run's requests. Raises Unreadable when another version of the generator wrote something else."""
    for key in LISTS:
        if not isinstance(content.get(key), list):
            raise Unreadable(f"the result has no list `{key}`: this vLLM's `bench serve` writes another format")
        if len(content[key]) != load.requests:
            raise Unreadable(f"the result's `{key}` has {len(content[key])} entries; wanted {load.requests} requests")
    columns = zip(content["output_lens"], content["ttfts"], content["itls"], content["errors"], strict=True)
    requests = tuple(_request(*column, load) for column in columns)
    span_s = max(content["start_times"]) - min(content["start_times"])
    late = span_s > LATE * load.requests / rate_per_s + LATE_S
    return Run(requests, span_s, float(content["duration"]), late)


def _request(output_tokens: int, ttft_s: float, itls_s: list[float], error: str, load: Load) -> Request:
    gaps_ms = tuple(gap * 1000 for gap in itls_s)
    # The server's own count where it sends one, else the pieces that came: either may bundle tokens.
    came = max(output_tokens, len(gaps_ms) + 1)
    if error or output_tokens == 0 or ttft_s <= 0:
        reason = error or "no answer, and no reason given"
    elif came < load.output_tokens:
        reason = f"the answer broke off after {came} of {load.output_tokens} tokens"
    else:
        reason = None
    return Request(ttft_s * 1000, gaps_ms, reason)
