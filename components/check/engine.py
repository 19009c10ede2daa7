"""Ask one engine, before anything is measured, whether it can be: what it serves, and what it counts.

Everything is asked of vLLM's own pages: `/v1/models` (0.32 `entrypoints/serve/engine/protocol.py`,
ModelCard) and `/metrics` (`v1/metrics/loggers.py`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from components.check.client import Client, NoAnswer, OtherProcess
from components.check.process import Series, Values, is_known, same_process
from components.release import probe
from components.release.probe import PROMPT_TOKENS, CannotMeasure

READS = 6
"""Of the metrics page, each on a connection of its own: a load balancer of two pods is found by 31 in 32."""
OWN_REQUESTS = 3
SEVERAL = (
    "this URL answers from several pods; counters then mean nothing: give each pod's own URL "
    "(--namespace with --prefill-selector and --decode-selector finds them)"
)
SIZES = ("block_size", "num_gpu_blocks")


@dataclass(frozen=True)
class Target:
    """An engine as it was given: a name for tables, and where it listens."""

    name: str
    url: str

    def to_json(self) -> dict[str, str]:
        return {"name": self.name, "url": self.url}


@dataclass(frozen=True)
class Engine:
    """An engine that can be measured. Lengths in tokens.

    `models` has each served name with the model behind it; `cache_dtype` is vLLM's `--kv-cache-dtype`.
    """

    target: Target
    models: dict[str, str]
    max_model_len: int
    block_size: int
    cache_tokens: int
    cache_dtype: str
    series: frozenset[str]
    birth: Values = field(default_factory=dict)


class Unfit(Exception):
    """An engine that can't be measured; `kind` says in a word why."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def inspect(client: Client, target: Target) -> Engine:
    """What the engine says of itself. Raises Unfit, or CannotMeasure where it does not answer."""
    url = target.url
    models, longest = _models(url, client.get_json(f"{url}/v1/models"))
    series = _pages(client, url)
    block_size, cache_tokens, cache_dtype = cache_of(url, series)
    birth = client.births.get(url, {})
    return Engine(target, models, longest, block_size, cache_tokens, cache_dtype, frozenset(series), birth)


def prove_own_counter(client: Client, engine: Engine, model: str) -> None:
    """Send plain requests and see the engine's own counter take each of them.

    Raises Unfit where it does not: then somebody else answers.
    """
    url = engine.target.url
    tokens = min(probe.WARM_UP_TOKENS, max(engine.max_model_len // 2, 1))
    plan = {"model": model, "vocabulary": 0}
    for _ in range(OWN_REQUESTS):
        before = probe.total(_one_process(client, url), PROMPT_TOKENS) or 0
        probe.complete(client, url, plan, probe.random_prompt(plan, tokens), 2)
        deadline = time.monotonic() + probe.SETTLE_LIMIT_S
        while (found := probe.total(_one_process(client, url), PROMPT_TOKENS) or 0) < before + tokens:
            if time.monotonic() > deadline:
                raise Unfit("several-pods", (
                    f"{url} answered a prompt of {tokens} tokens, but its counter {PROMPT_TOKENS} went up by "
                    f"{found - before:g} within {probe.SETTLE_LIMIT_S:g} s; {SEVERAL}"))  # fmt: skip
            time.sleep(0.05)


def same_engine(one: Engine, other: Engine) -> bool:
    """Whether two URLs lead to one process."""
    return is_known(one.birth, other.birth) and same_process(one.birth, other.birth)


def _models(url: str, answer: Any) -> tuple[dict[str, str], int]:
    """({served name: model behind it}, longest context) without adapters, which have a parent."""
    try:
        cards = [card for card in answer["data"] if not card.get("parent")]
        models = {str(card["id"]): str(card.get("root") or card["id"]) for card in cards}
        lengths = [int(card["max_model_len"]) for card in cards]
    except (KeyError, TypeError, ValueError, AttributeError):
        models, lengths = {}, []
    if not lengths:
        raise Unfit("not-vllm", (
            f"{url}/v1/models: found no model with `max_model_len`, wanted vLLM's own list: is this a vLLM engine, "
            "and not a router or another server?"))  # fmt: skip
    return models, min(lengths)


def _pages(client: Client, url: str) -> Series:
    """The metrics page, read several times: it must be one process's."""
    try:
        text = client.get(f"{url}/metrics")
    except (NoAnswer, OtherProcess):
        raise
    except CannotMeasure as error:
        raise Unfit("no-metrics", f"{error}; wanted vLLM's metrics there") from None
    series = probe.parse_metrics(text)
    if not any(name.startswith("vllm:") for name in series):
        raise Unfit("no-metrics", (
            f"{url}/metrics: found no series of vLLM, wanted vllm:…: start the engine without --disable-log-stats"))  # fmt: skip
    if PROMPT_TOKENS not in series:
        seen = ", ".join(sorted(name for name in series if name.startswith("vllm:"))[:4])
        raise Unfit("other-metrics", (
            f"{url}/metrics: found no {PROMPT_TOKENS} (but {seen}, …), wanted the names of vLLM 0.30 to 0.33: which "
            "version is it?"))  # fmt: skip
    for _ in range(READS - 1):
        series = _one_process(client, url)
    return series


def _one_process(client: Client, url: str) -> Series:
    try:
        return client.series(url)
    except OtherProcess as error:
        raise Unfit("several-pods", f"{error}; {SEVERAL}") from None


def cache_of(url: str, series: Series) -> tuple[int, int, str]:
    """(block size, tokens that the KV cache holds, its dtype), by vllm:cache_config_info."""
    infos = series.get("vllm:cache_config_info") or [({}, 0.0)]
    labels = infos[0][0]
    try:
        block_size, count = (int(labels[key]) for key in SIZES)
    except (KeyError, ValueError):
        found = ", ".join(f"{key} {labels.get(key, 'missing')}" for key in SIZES)
        raise Unfit("other-metrics", (
            f"{url}/metrics: vllm:cache_config_info: found {found}, wanted whole numbers: which version of vLLM is "
            "it?")) from None  # fmt: skip
    return block_size, block_size * count, labels.get("cache_dtype", "auto")
