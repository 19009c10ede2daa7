"""Measure engines that are ready: the gate's probe by pairs, and what became of the engines meanwhile."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from components.check.client import Client, NoAnswer, OtherProcess
from components.check.connector import Detected, detect, stated
from components.check.engine import READS, SEVERAL, Engine
from components.check.preflight import Ready
from components.check.process import is_known, same_process
from components.check.settings import CannotCheck, Deployment, Fault, Settings
from components.release import probe
from components.release.evidence import Evidence, PairEvidence, read_evidence
from components.release.pairs import cover
from components.release.probe import CannotMeasure

SAFE_VOCABULARY = 2048
"""Where the model is not known: the probe then draws ids 256 to 1791, which every model in use has (the smallest
vocabulary known here is 2048). Prompts are random in every token, so that fewer ids make no prompt come twice."""
BY_SOURCE = "vllm:prompt_tokens_by_source_total"
TAKING_BLOCKS = ("local_compute", "external_kv_transfer")
AGEING_TOKENS = 8192
"""Longest prompt that ages a cache, beside four times the measured one: a whole context may take minutes."""


def probe_plan(ready: Ready, deployment: Deployment, settings: Settings) -> dict[str, Any]:
    """The probe's plan (see components/release/probe.py), but for how transfers are counted."""
    tokens = ready.length.prompt_tokens
    vocabulary = settings.geometry.vocabulary if settings.geometry else 0
    return {
        "pairs": [[p.target.to_json(), d.target.to_json()] for p, d in cover(ready.prefill, ready.decode)],
        "router": deployment.router,
        "render": [],
        "reference": ready.prefill[0].target.url,
        "model": ready.model,
        "vocabulary": vocabulary or SAFE_VOCABULARY,
        "prompt_tokens": tokens,
        "answer_tokens": settings.answer_tokens,
        "samples": settings.samples,
        "age": {"mode": "on" if settings.age_limit_s else "off", "limit_s": settings.age_limit_s},
        "max_model_len": min(ready.length.max_model_len, max(AGEING_TOKENS, 4 * tokens)),
        "request_limit_s": settings.request_limit_s,
    }


def how_counted(client: Client, plan: dict[str, Any], ready: Ready, name: str | None) -> Detected:
    """By the connector that the user names, else by what is exposed. Raises CannotCheck."""
    if name is None:
        detected = detect(client, plan, ready.engines)
    else:
        try:
            detected = stated(name, list(ready.decode))
        except ValueError as error:
            raise CannotCheck([Fault("usage", f"--connector: {error}")]) from None
    if detected.measurement["unmeasured"] and not detected.arrival_counted:
        raise CannotCheck([Fault("other-metrics", (
            "the decode engines expose neither a series of their transfers nor vllm:prompt_tokens_by_source_total, "
            "wanted one of them: which version of vLLM is it?"))])  # fmt: skip
    return detected


def measure(client: Client, plan: dict[str, Any], ready: Ready) -> Evidence:
    """Run the probe. Raises CannotCheck where it turns out that a URL is no single engine."""
    before = [probe.failed_transfers(client, plan, pair) for pair in plan["pairs"]]
    evidence = read_evidence(probe.probe(plan, client))
    pairs = [
        _with_own_failures(client, plan, urls, pair, count) if pair.error else pair
        for pair, urls, count in zip(evidence.pairs, plan["pairs"], before, strict=True)
    ]
    broken = {pod["url"] for pair, urls in zip(pairs, plan["pairs"], strict=True) if pair.error for pod in urls}
    ended = [words for url in sorted(broken) if (words := _ended(client, ready.engines[url]))]
    return replace(evidence, pairs=pairs, ended=ended)


def wrapped_before(client: Client, ready: Ready) -> dict[str, Any] | None:
    """As the probe's record of an ageing, where every cache has already held more tokens than it can keep."""
    passed = {url: _passed_share(client, engine) for url, engine in ready.engines.items()}
    if min(passed.values()) < probe.AGEING_MARGIN:
        return None
    return {"complete": True, "seconds": 0, "error": None, "before": True}


def _passed_share(client: Client, engine: Engine) -> float:
    """Tokens that took blocks since the engine started, as a share of those that its caches hold. Tokens that were
    found in the prefix cache took none."""
    series = client.series(engine.target.url)
    passed = sum(probe.total(series, f'{BY_SOURCE}{{source="{source}"}}') or 0 for source in TAKING_BLOCKS)
    return passed / (engine.cache_tokens * len(series["vllm:cache_config_info"]))


def _with_own_failures(client: Client, plan: dict[str, Any], urls: Any, pair: PairEvidence,
                       before: float) -> PairEvidence:  # fmt: skip
    """A pair that broke off: the failures that came since, which vLLM publishes with a later step."""
    deadline = time.monotonic() + probe.SETTLED_LIMIT_S
    while (since := probe.failed_transfers(client, plan, urls) - before) <= 0 and time.monotonic() < deadline:
        time.sleep(0.2)
    return replace(pair, failed=max(since, 0))


def _ended(client: Client, engine: Engine) -> str | None:
    """What became of an engine, if it ended. One that is silent may be out of reach: that proves no end."""
    url = engine.target.url
    client.forget(url)
    try:
        for _ in range(READS):
            client.series(url)
    except OtherProcess as error:
        raise CannotCheck([Fault("several-pods", f"{error}; {SEVERAL}")]) from None
    except NoAnswer as error:
        return f"{engine.target.name}: {error}" if error.refused else None
    except CannotMeasure:
        return None
    now = client.births[url]
    restarted = is_known(engine.birth, now) and not same_process(engine.birth, now)
    return (
        f"{engine.target.name}: {url} answers from a new process: its engine was started again" if restarted else None
    )
