"""One check from URLs to a result: preflight, measure as the gate does, judge as the gate does.

Without the model's geometry the gate's verdict stands on less; what is missing is then judged by
consistency, or leaves the check inconclusive.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from components.check.client import Client
from components.check.connector import Detected
from components.check.consistency import WAY_OUT, bytes_per_token, inconsistent, shorter
from components.check.measure import how_counted, measure, probe_plan, wrapped_before
from components.check.preflight import Ready, preflight
from components.check.process import is_known, same_process
from components.check.result import Basis, Result, judged, overruled, unmeasured
from components.check.settings import CannotCheck, Deployment, Fault, Settings
from components.hardware.geometry import DTYPE_BYTES
from components.release.evidence import Evidence, PairEvidence
from components.release.verdict import Finding, Limits, Verdict, judge
from components.serving.connectors.profiles import PROFILES

SHORT_SAMPLES = 2
MEASURED = ("fast", "slow-link", "fragmented-cache")
"""Causes by which a whole measurement was made."""


@dataclass
class Memory:
    """What an earlier check of the same engines left: a cache that has aged stays aged until its engine ends."""

    ready: Ready | None = None
    evidence: Evidence | None = None

    def holds(self, ready: Ready) -> bool:
        """Whether the same processes answer that were aged."""
        known = self.ready.engines if self.ready else {}
        return known.keys() == ready.engines.keys() and all(
            is_known(known[url].birth, engine.birth) and same_process(known[url].birth, engine.birth)
            for url, engine in ready.engines.items()
        )


def check(client: Client, deployment: Deployment, settings: Settings, memory: Memory) -> Result:
    """Measure and judge once; whatever can't be measured is said, never raised."""
    try:
        ready = preflight(client, deployment, settings)
        plan = probe_plan(ready, deployment, settings)
        detected = how_counted(client, plan, ready, settings.connector)
        plan |= {"measurement": detected.measurement, "router": _router(deployment, detected)}
        limits = _limits(ready, detected, settings, router=plan["router"] is not None)
        evidence = _evidence(client, plan, ready, memory)
        verdict = judge(evidence, limits)
        if not detected.seen:
            verdict = _unseen(verdict)
        basis = _basis(limits)
        if verdict.outcome == "pass" and basis == "counters":
            verdict, basis = _without_geometry(client, plan, ready, evidence, verdict), "consistency"
    except CannotCheck as error:
        return unmeasured(error.faults, settings.limit_ms)
    if verdict.cause in MEASURED and evidence.ageing and evidence.ageing["complete"]:
        memory.ready, memory.evidence = ready, evidence
    notes = [*ready.notes, *_notes(client, plan, detected, verdict, evidence, settings)]
    if deployment.router and plan["router"] is None:
        notes.append("the router was not judged: the decoders don't count what arrives")
    return judged(
        verdict, settings.limit_ms, basis=basis, connector=detected.name, model=ready.model, notes=tuple(notes)
    )


def _limits(ready: Ready, detected: Detected, settings: Settings, *, router: bool) -> Limits:
    """What the gate holds a release against, from what these engines say of themselves."""
    geometry, engine = settings.geometry, ready.decode[0]
    dtype = engine.cache_dtype if engine.cache_dtype != "auto" else settings.dtype
    dtype = dtype or (geometry.dtype if geometry else "bfloat16")
    if geometry and dtype not in DTYPE_BYTES:
        raise CannotCheck([Fault("dtype", f"KV cache dtype: found {dtype}, wanted one of {', '.join(DTYPE_BYTES)}; "
                                 "leave --model-config out, then bytes are judged by consistency")])  # fmt: skip
    return Limits(
        limit_ms=settings.limit_ms,
        geometry=geometry,
        block_size=engine.block_size,
        kv_dtype=dtype,
        tensor_parallel=settings.tensor_parallel,
        router=router,
        unmeasured=detected.measurement["unmeasured"],
        accept_unmeasured=settings.accept_unmeasured,
        whole_blocks=detected.measurement["wholeBlocks"],
    )


def _router(deployment: Deployment, detected: Detected) -> str | None:
    """What goes through a router is seen by nothing but the decoders' count of arrived tokens."""
    return deployment.router if detected.arrival_counted else None


def _basis(limits: Limits) -> Basis:
    return "content" if limits.unmeasured else "geometry" if limits.geometry else "counters"


def _evidence(client: Client, plan: dict[str, Any], ready: Ready, memory: Memory) -> Evidence:
    """The probe's; a cache that an earlier check, or its own traffic, has aged is not aged again."""
    still = plan | {"age": {"mode": "off", "limit_s": 0}}
    if memory.evidence and memory.holds(ready):
        return _aged_already(memory.evidence, measure(client, still, ready), memory.evidence.ageing)
    if plan["age"]["mode"] == "on" and (ageing := wrapped_before(client, ready)):
        first = measure(client, still, ready)
        if any(pair.error for pair in first.pairs):
            return first
        return _aged_already(first, measure(client, still | {"router": None}, ready), ageing, first.router)
    return measure(client, plan, ready)


def _aged_already(fresh: Evidence, new: Evidence, ageing: dict[str, Any] | None, router: Any = None) -> Evidence:
    """New samples as aged ones, beside what was measured before."""
    pairs = [_as_aged(pair, old) for pair, old in zip(new.pairs, fresh.pairs, strict=True)]
    return replace(new, pairs=pairs, ageing=ageing, router=router or new.router)


def _as_aged(pair: PairEvidence, old: PairEvidence) -> PairEvidence:
    return replace(pair, fresh=old.fresh, aged=pair.fresh) if pair.fresh else pair


def _unseen(verdict: Verdict) -> Verdict:
    """Neither side shows any connector: there may be none, or one that the probe can't ask."""
    if verdict.cause != "never-disaggregated":
        return verdict
    return overruled(verdict, Finding(
        "inconclusive", "no-connector-seen",
        "neither side exposes series of a KV transfer, and no KV arrived: both run without a connector, or with one that "
        "the probe can't ask",
        "give both tiers the connector (`--kv-transfer-config`); with Mooncake judge the prefiller's log: --decode-log FILE",
    ))  # fmt: skip


def _without_geometry(client: Client, plan: dict[str, Any], ready: Ready, evidence: Evidence,
                      verdict: Verdict) -> Verdict:  # fmt: skip
    """The gate's pass, as far as it stands without the model: by a second prompt length, and by real ageing."""
    block, whole = ready.decode[0].block_size, plan["measurement"]["wholeBlocks"]
    second = plan | {"prompt_tokens": shorter(plan["prompt_tokens"], block), "samples": SHORT_SAMPLES, "router": None,
                     "age": {"mode": "off", "limit_s": 0}}  # fmt: skip
    short = measure(client, second, ready)
    if finding := inconsistent(evidence.pairs, short.pairs, block, whole_blocks=whole):
        return overruled(verdict, finding)
    if any(pair.aged is None for pair in verdict.pairs):
        return overruled(verdict, _aged_unknown(verdict, evidence))
    rate = bytes_per_token(evidence.pairs[0], block, whole_blocks=whole)
    return replace(verdict, message=f"{verdict.message}; bytes not compared with the model, only with each other: "
                   f"{rate:,.0f} a token at {plan['prompt_tokens']} and {second['prompt_tokens']} tokens")  # fmt: skip


def _aged_unknown(verdict: Verdict, evidence: Evidence) -> Finding:
    ageing = evidence.ageing or {}
    why = ageing.get("error") or ("its time was over" if ageing else "it was not asked for")
    return Finding(
        "inconclusive", "aged-unknown",
        f"{verdict.message}; what an aged cache takes is not known: the cache was not aged ({why}), and without the model "
        "nothing can be estimated",
        f"{WAY_OUT}; or give ageing its time: --age SECONDS",
    )  # fmt: skip


def _notes(client: Client, plan: dict[str, Any], detected: Detected, verdict: Verdict, evidence: Evidence,
           settings: Settings) -> list[str]:  # fmt: skip
    """What helps to read the verdict and is no cause by itself."""
    profile = PROFILES.get(detected.name)
    by_answer = profile is None or profile.requests.decode != "none"
    notes = [f"{pair.prefill} -> {pair.decode}: {pair.error}" for pair in evidence.pairs if pair.error]
    prefillers = {pair[0]["url"]: pair[0]["name"] for pair in plan["pairs"]}
    silent = [name for url, name in prefillers.items() if url in client.params and not client.params[url]]
    if by_answer and silent and verdict.cause in ("never-disaggregated", "no-connector-seen"):
        notes.append(f"{', '.join(silent)} told nothing for a decoder (no kv_transfer_params in its answer): it runs "
                     "without a connector, or in the decoder's role")  # fmt: skip
    if evidence.ageing and evidence.ageing.get("before"):
        notes.append("the caches had wrapped by their own traffic: they were not aged again, and `fresh` is as they were "
                     "found")  # fmt: skip
    if evidence.ageing and not evidence.ageing["complete"]:
        done = evidence.ageing.get("passed_tokens", 0), evidence.ageing.get("cache_tokens", 0)
        notes.append(f"ageing is not complete: {done[0]} tokens passed, a cache holds {done[1]}")
    parts = max((sample.transfers or 0 for pair in evidence.pairs for sample in pair.fresh), default=0)
    if parts > settings.tensor_parallel:
        notes.append(f"a request moved in {parts:g} parts, whose times are added up: where they are ranks that transfer "
                     f"at once, say --tensor-parallel {parts:g}")  # fmt: skip
    if settings.geometry and verdict.cause == "wrong-bytes" and parts > settings.tensor_parallel:
        notes.append(f"with {parts:g} ranks the model's bytes may be others: is --tensor-parallel {parts:g}?")
    return notes
