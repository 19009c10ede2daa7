"""Judge a gate: evidence and limits in, one verdict with one cause and one fix out. Pure.

Three outcomes. `pass`: bytes moved, as many as the model's geometry says, fast, with the right
answer. `fail`: the release was measured, or had its time, and does not serve. `inconclusive`: it
could not be measured, which is never a pass and never the release's fault.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from components.diagnosis.diagnose import Clue
from components.hardware.geometry import Geometry
from components.release.evidence import (
    Evidence,
    Figures,
    PairEvidence,
    Sample,
    estimate_aged,
    figures,
)

Outcome = Literal["pass", "fail", "inconclusive"]
BYTES_TOLERANCE = 0.05
"""Moved bytes may differ from the geometry's expectation by this share."""
ARRIVED_SHARE = 0.9
"""At least this share of a prompt's whole blocks must have arrived where only tokens can be counted."""
ANSWER_SHARE = 0.5
"""At least this share of answers must equal the prefiller's own. The last prompt token is computed
again by the decoder, in another batch shape, so that near ties may fall the other way now and then;
a wrong KV cache makes every answer differ."""


@dataclass(frozen=True)
class Limits:
    """What the measurement is held against."""

    limit_ms: float
    geometry: Geometry | None
    """None: the model is not known; then bytes are not judged, and an aged cache is not estimated."""
    block_size: int
    kv_dtype: str = "bfloat16"
    tensor_parallel: int = 1
    collocated: bool = False
    router: bool = True
    """Whether the release has a router."""
    render: bool = False
    """Whether the release has a render tier."""
    encoder: bool = False
    """Whether it has an encoder tier."""
    unmeasured: str | None = None
    """Why times and bytes of its connector can't be measured; None where they can."""
    accept_unmeasured: bool = False
    """Whether it may pass on what arrived and was answered alone."""
    whole_blocks: bool = False
    """Whether the last block of a prompt moves only when it is full."""
    max_ratio: float | None = None
    expected_ms: float | None = None
    """What the plan expects of an aged cache on this hardware; judged with `max_ratio` alone."""


@dataclass(frozen=True)
class PairResult:
    """One pair's figures, for the table and the outputs."""

    prefill: str
    decode: str
    fresh: Figures | None
    aged: Figures | None
    expected_bytes: int | None
    error: str | None = None


@dataclass(frozen=True)
class Verdict:
    """`message` says what was found and wanted; `fix` what to do. Times in milliseconds."""

    outcome: Outcome
    cause: str
    message: str
    fix: str
    pairs: tuple[PairResult, ...] = ()
    kv_transfer_ms: float | None = None
    kv_transfer_aged_ms: float | None = None
    aged_is_estimated: bool = False
    clues: tuple[Clue, ...] = ()
    """What logs and events say of the cause, the likeliest root first."""
    topology: dict[str, Any] | None = None
    """Of a slow transfer: what moved the blocks and how the GPUs are joined, as far as the logs say."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Finding:
    """A cause that applies: its outcome and words."""

    outcome: Outcome
    cause: str
    message: str
    fix: str


Check = Callable[[Evidence, Limits], Finding | None]


def judge(evidence: Evidence, limits: Limits) -> Verdict:
    """The first check that finds something decides; a release that none finds fault with passes."""
    results = tuple(_pair_result(pair, limits) for pair in evidence.pairs)
    slowest_fresh = _slowest(result.fresh for result in results)
    slowest_aged = _slowest(result.aged for result in results)
    numbers = {
        "pairs": results,
        "kv_transfer_ms": slowest_fresh.mean_ms if slowest_fresh else None,
        "kv_transfer_aged_ms": slowest_aged.mean_ms if slowest_aged else None,
        "aged_is_estimated": bool(slowest_aged and slowest_aged.estimated),
    }
    for check in CHECKS:
        if finding := check(evidence, limits):
            verdict = Verdict(finding.outcome, finding.cause, finding.message, finding.fix)
            return replace(verdict, **numbers)
    embeddings = "; embeddings come from the encoder tier" if limits.encoder else ""
    if limits.collocated:
        return Verdict("pass", "collocated", f"collocated: no KV is transferred{embeddings}", "", **numbers)
    if limits.unmeasured:
        message = f"prompts arrived and answers are right; the transfer's time {limits.unmeasured}{embeddings}"
        return Verdict("pass", "content-only", message, "", **numbers)
    message = f"KV transfer {_ms(slowest_fresh)} fresh, {_ms(slowest_aged)} aged"
    return Verdict("pass", "fast", f"{message}; limit {limits.limit_ms:g} ms{embeddings}", "", **numbers)


def _not_ready(evidence: Evidence, _: Limits) -> Finding | None:
    if evidence.not_ready is None:
        return None
    return Finding(
        "fail", "not-ready", evidence.not_ready,
        "read the pod's message above; correct the configuration and run `pulumi up` again",
    )  # fmt: skip


def _no_nodes(evidence: Evidence, _: Limits) -> Finding | None:
    if evidence.no_nodes is None:
        return None
    return Finding(
        "inconclusive", "no-nodes", f"the candidate's nodes did not start: {evidence.no_nodes}",
        "run `pulumi up` again when the zone has capacity, or reserve it (nodeGroups.*.capacity: reservation or block)",
    )  # fmt: skip


def _ended(evidence: Evidence, _: Limits) -> Finding | None:
    if not evidence.ended:
        return None
    out_of_memory = any("OOMKilled" in pod for pod in evidence.ended)
    return Finding(
        "fail", "pod-ended", f"a container ended while it was measured: {'; '.join(evidence.ended)}",
        "raise the tier's `resources.memory`" if out_of_memory
        else "read the pod's message above: its exit code, its last warning and its log",
    )  # fmt: skip


def _unmeasured(evidence: Evidence, _: Limits) -> Finding | None:
    if evidence.unmeasured is None:
        return None
    return Finding(
        "inconclusive", "probe-failed", f"the probe could not measure: {evidence.unmeasured}",
        "remove what stopped the probe and run `pulumi up` again: it measures once more",
    )  # fmt: skip


def _no_pairs(evidence: Evidence, limits: Limits) -> Finding | None:
    if limits.collocated or evidence.pairs:
        return None
    return Finding(
        "inconclusive", "no-pairs", "the probe found no pair of prefill and decode pods",
        "check that both tiers have at least one replica and run `pulumi up` again",
    )  # fmt: skip


def _pair_unmeasured(evidence: Evidence, _: Limits) -> Finding | None:
    for pair in evidence.pairs:
        if pair.error or not pair.fresh:
            return Finding(
                "inconclusive", "pair-unmeasured",
                f"{pair.prefill} -> {pair.decode}: could not measure: "
                f"{pair.error or 'the probe took no sample'}",
                "see the message; the release was not judged. Correct it and run `pulumi up` "
                "again: it measures once more",
            )  # fmt: skip
    return None


def _arrived(sample: Sample, limits: Limits) -> bool:
    """Where nothing else can be measured: whether nearly all of the prompt came as KV cache."""
    if limits.unmeasured:
        return (sample.external_tokens or 0.0) >= ARRIVED_SHARE * (sample.tokens - limits.block_size)
    return sample.moved


def _never_disaggregated(evidence: Evidence, limits: Limits) -> Finding | None:
    for pair in evidence.pairs:
        still = [sample for sample in _samples(pair) if not _arrived(sample, limits) and not sample.failed]
        if still:
            found = (
                "there are no transfer metrics: it runs without a connector"
                if still[0].transfers is None and not limits.unmeasured
                else "the decoder counted no transfer and computed the prompt again"
            )
            return Finding(
                "fail", "never-disaggregated",
                f"{pair.prefill} -> {pair.decode}: {len(still)} of {len(_samples(pair))} requests "
                f"were answered with 200 OK but moved 0 bytes of KV cache; {found}",
                "give both tiers the connector: look for an argument or an admission webhook that "
                "overrides `--kv-transfer-config` on the decode tier",
            )  # fmt: skip
    return None


def _failed_transfers(evidence: Evidence, _: Limits) -> Finding | None:
    for pair in evidence.pairs:
        failed = pair.failed + sum(sample.failed or 0 for sample in _samples(pair))
        if failed:
            return Finding(
                "fail", "failed-transfers",
                f"{pair.prefill} -> {pair.decode}: {failed:g} transfers failed",
                "read the decoder's log for the handshake: image, model name, dtype and block size "
                "must be the same on both tiers, and port and side channel reachable",
            )  # fmt: skip
    return None


def _prefill_not_served(evidence: Evidence, _: Limits) -> Finding | None:
    for pair in evidence.pairs:
        if any(sample.prefill_tokens <= 0 for sample in _samples(pair)):
            return Finding(
                "fail", "prefill-not-served",
                f"{pair.prefill} -> {pair.decode}: the prefiller's own counter shows no prompt",
                "another pod answers at the prefiller's address: check labels and addresses",
            )  # fmt: skip
    return None


def _unmeasurable(evidence: Evidence, limits: Limits) -> Finding | None:
    if not limits.unmeasured or limits.accept_unmeasured:
        return None
    return Finding(
        "inconclusive", "unmeasurable", f"the connector's transfers {limits.unmeasured}",
        "take a connector that can be measured, or accept answers alone: gate.unmeasured: accept-content-only",
    )  # fmt: skip


def _wrong_bytes(evidence: Evidence, limits: Limits) -> Finding | None:
    """Any sample with too few bytes; too many only where most samples have them, since a request of
    somebody else that ends with the sample adds its own."""
    geometry = limits.geometry
    if geometry is None or limits.unmeasured:
        return None
    for pair in evidence.pairs:
        samples = _samples(pair)
        too_many = [sample for sample in samples if _byte_error(sample, geometry, limits) > BYTES_TOLERANCE]
        for sample in samples:
            expected = _expected_bytes(sample.tokens, geometry, limits)
            found = sample.bytes or 0.0
            fewer = _byte_error(sample, geometry, limits) < -BYTES_TOLERANCE
            if fewer or (sample in too_many and len(too_many) * 2 > len(samples)):
                return Finding(
                    "fail", "wrong-bytes",
                    f"{pair.prefill} -> {pair.decode}: {found:,.0f} bytes moved for "
                    f"{sample.tokens} tokens; the model's geometry says {expected:,}",
                    "part of the prompt was computed again, or the KV cache has another dtype or "
                    "layout than the stack file says: compare `engine.dtype` with the pods' logs",
                )  # fmt: skip
    return None


def _byte_error(sample: Sample, geometry: Geometry, limits: Limits) -> float:
    """How far the bytes moved are from the geometry's, as a share of those."""
    return (sample.bytes or 0.0) / _expected_bytes(sample.tokens, geometry, limits) - 1


def _wrong_answer(evidence: Evidence, _: Limits) -> Finding | None:
    for pair in evidence.pairs:
        samples = _samples(pair)
        equal = sum(sample.answer == sample.reference for sample in samples)
        if equal < len(samples) * ANSWER_SHARE:
            return Finding(
                "fail", "wrong-answer",
                f"{pair.prefill} -> {pair.decode}: {len(samples) - equal} of {len(samples)} answers "
                "after the transfer differ from the prefiller's own at temperature 0",
                "the KV cache arrives damaged: check that both tiers run the same image and "
                "attention backend, and compare with another transport",
            )  # fmt: skip
    return None


def _slow(evidence: Evidence, limits: Limits) -> Finding | None:
    for pair in evidence.pairs:
        result = _pair_result(pair, limits)
        fresh, judged = result.fresh, result.aged or result.fresh
        if judged is None or fresh is None or judged.mean_ms < limits.limit_ms:
            continue
        found = (
            f"{pair.prefill} -> {pair.decode}: KV transfer mean {judged.mean_ms:.0f} ms over "
            f"{judged.samples} transfers{' (estimated)' if judged.estimated else ''}, "
            f"limit {limits.limit_ms:g} ms; {judged.gb_per_s:.3f} GB/s"
        )
        if fresh.mean_ms < limits.limit_ms:
            return Finding(
                "fail", "fragmented-cache",
                f"{found}; a fresh cache took {fresh.mean_ms:.0f} ms with "
                f"{fresh.mean_descriptors:.0f} descriptors, the aged one {judged.mean_descriptors:.0f}",
                "raise `engine.blockSize`: fewer, larger pieces for the same bytes",
            )  # fmt: skip
        return Finding(
            "fail", "slow-link", found,
            "the KV cache takes a slow path: on one host check peer access "
            "(`nvidia-smi topo -p2p r`), between hosts the RDMA devices and `connector.backend`; "
            "or shorten the probe's prompt if the link is as fast as it can be",
        )  # fmt: skip
    return None


def _slower_than_expected(evidence: Evidence, limits: Limits) -> Finding | None:
    if limits.max_ratio is None or limits.expected_ms is None:
        return None
    for pair in evidence.pairs:
        result = _pair_result(pair, limits)
        judged = result.aged or result.fresh
        if judged is not None and judged.mean_ms > limits.max_ratio * limits.expected_ms:
            return Finding(
                "fail", "slower-than-expected",
                f"{pair.prefill} -> {pair.decode}: KV transfer mean {judged.mean_ms:.0f} ms, "
                f"{judged.mean_ms / limits.expected_ms:.1f} times the {limits.expected_ms:.0f} ms that this hardware "
                f"should take; gate.maxRatio {limits.max_ratio:g}",
                "within the limit, but not over the path that was planned: compare the transport in use with "
                "`connector.backend` and the RDMA devices of both pods",
            )  # fmt: skip
    return None


def _router_trouble(evidence: Evidence, limits: Limits) -> Finding | None:
    router = evidence.router
    if not limits.router:
        return None
    if router is None:
        return Finding(
            "inconclusive", "router-not-asked", "the probe did not ask the release's router",
            "check that the router has a pod and run `pulumi up` again",
        )  # fmt: skip
    if router["error"]:
        return Finding(
            "fail", "router-failed", f"the release's router does not serve: {router['error']}",
            "read the router's log; it must find the pods of its release by their labels",
        )  # fmt: skip
    if not limits.collocated and router["external_tokens"] <= 0:
        return Finding(
            "fail", "router-not-disaggregated",
            f"a prompt of {router['tokens']} tokens through the router was answered, but no decoder "
            "received its KV cache",
            "the router sends requests to one tier only: check its arguments and that it sees both "
            "tiers",
        )  # fmt: skip
    return None


def _render_trouble(evidence: Evidence, limits: Limits) -> Finding | None:
    found = evidence.render
    if not limits.render:
        return None
    if found is None or (found["error"] is None and not (found["pods"] and found["answers"])):
        return Finding(
            "inconclusive", "render-not-asked", "the probe did not ask the release's render tier",
            "check that the render tier has a pod and run `pulumi up` again",
        )  # fmt: skip
    faults = [f"{pod['name']}: {pod['error']}" for pod in found["pods"] if pod["error"]]
    if faults or found["error"]:
        return Finding(
            "fail", "render-failed", f"the render flow does not serve: {'; '.join(faults) or found['error']}",
            "read the logs of the pod that is named, and of the gateway",
        )  # fmt: skip
    return _render_differs(found)


def _render_differs(found: dict[str, Any]) -> Finding | None:
    """Another prompt than the engines', or other answers than theirs to the same one."""
    answers = found["answers"]
    other = [pod["name"] for pod in found["pods"] if not pod["equal"]]
    lengths = [a for a in answers if a["router_tokens"] != a["engine_tokens"]]
    texts = [a for a in answers if a["router"] != a["engine"]]
    if other:
        message = f"{', '.join(other)}: another prompt than an engine's own of the same request"
    elif lengths:
        message = (f"through the gateway a prompt has {lengths[0]['router_tokens']} tokens, an engine counts "
                   f"{lengths[0]['engine_tokens']}")  # fmt: skip
    elif len(texts) > len(answers) * (1 - ANSWER_SHARE):
        message = f"{len(texts)} of {len(answers)} answers through the gateway differ from an engine's own"
    else:
        return None
    return Finding(
        "fail", "render-differs", message,
        "give the render tier the engines' image, model files and `chat` settings: look for arguments in "
        "`render.extraArgs` that the tiers don't have",
    )  # fmt: skip


def _encoder_trouble(evidence: Evidence, limits: Limits) -> Finding | None:
    found = evidence.encoder
    if not limits.encoder:
        return None
    if found is None or not (found["error"] or found["pairs"]):
        return Finding(
            "inconclusive", "encoder-not-asked", "the probe did not ask the release's encoder tier",
            "check that the encoder tier has a pod and run `pulumi up` again",
        )  # fmt: skip
    failed = [f"{pair['encoder']} -> {pair['consumer']}: {pair['error']}" for pair in found["pairs"] if pair["error"]]
    if failed:
        return Finding(
            "fail", "encoder-failed", f"an embedding could not be made or loaded: {'; '.join(failed)}",
            "read the logs of the pods that are named: they need one image and one connector",
        )  # fmt: skip
    if found["error"]:
        return Finding(
            "inconclusive", "encoder-unmeasured", f"the probe could not measure the encoder tier: {found['error']}",
            "the probe asks with an image: see the message; the release was not judged",
        )  # fmt: skip
    return next((f for pair in found["pairs"] if (f := _embeddings(pair))), None) or _encoder_routed(found)


def _embeddings(pair: dict[str, Any]) -> Finding | None:
    """An item's embedding came from the encoder where the engine, given other pixels under its name, answered as
    it does of the item itself."""
    way, samples = f"{pair['encoder']} -> {pair['consumer']}", pair["samples"]
    telling = [sample for sample in samples if sample["own"] != sample["decoy"]]
    if not telling:
        return Finding(
            "inconclusive", "encoder-blind", f"{way}: the model answers alike whatever the image shows",
            "whether embeddings move can't be told from such answers; raise gate.answerTokens",
        )  # fmt: skip
    ignored = sum(sample["moved"] == sample["decoy"] for sample in telling)
    right = sum(sample["moved"] == sample["own"] for sample in telling)
    if right > len(telling) * ANSWER_SHARE:
        return None
    if ignored:
        return Finding(
            "fail", "encoder-never-used",
            f"{way}: {ignored} of {len(telling)} images were encoded by the encoder and again by the engine",
            "the engine loads no embedding: look for an argument or an admission webhook that overrides "
            "`--ec-transfer-config`, and for a folder or a side channel that the two don't share",
        )  # fmt: skip
    return Finding(
        "fail", "encoder-differs",
        f"{way}: {len(telling) - right} of {len(telling)} answers to a moved embedding differ from the engine's own",
        "the embedding arrives damaged: check that both run the same image, model files and dtype",
    )  # fmt: skip


def _encoder_routed(found: dict[str, Any]) -> Finding | None:
    answers = found["answers"]
    if found["router_error"] or not answers:
        return Finding(
            "fail", "encoder-failed", f"the gateway does not serve images: {found['router_error'] or 'no answer'}",
            "read the gateway's log and the encoders'",
        )  # fmt: skip
    if found["encoded"] < len(answers):
        return Finding(
            "fail", "encoder-not-routed",
            f"{len(answers)} images went through the gateway, the encoders counted {found['encoded']:g} requests",
            "read the gateway's log: it must have `--encoder-tier yes` and see the encoders' pods",
        )  # fmt: skip
    other = sum(answer["router"] != answer["engine"] for answer in answers)
    if other > len(answers) * (1 - ANSWER_SHARE):
        return Finding(
            "fail", "encoder-differs", f"{other} of {len(answers)} answers to images through the gateway differ from "
            "an engine's own", "give encoders, render tier and engines one image, one model and one `chat`",
        )  # fmt: skip
    return None


CHECKS: tuple[Check, ...] = (
    _no_nodes,
    _not_ready,
    _ended,
    _unmeasured,
    _no_pairs,
    _failed_transfers,
    _never_disaggregated,
    _pair_unmeasured,
    _prefill_not_served,
    _unmeasurable,
    _wrong_bytes,
    _wrong_answer,
    _slow,
    _slower_than_expected,
    _router_trouble,
    _render_trouble,
    _encoder_trouble,
)
"""In order: what explains the others comes first."""


def _samples(pair: PairEvidence) -> list[Sample]:
    return [*pair.fresh, *pair.aged]


def _expected_bytes(tokens: int, geometry: Geometry, limits: Limits) -> int:
    if limits.whole_blocks:
        tokens -= tokens % limits.block_size
    return geometry.transfer(tokens, limits.block_size, limits.kv_dtype, limits.tensor_parallel).total_bytes


def _worst_descriptors(tokens: int, geometry: Geometry, limits: Limits) -> int:
    """Over all ranks, as the decoder's counter sums them."""
    moved = geometry.transfer(tokens, limits.block_size, limits.kv_dtype, limits.tensor_parallel)
    return moved.descriptors_aged * limits.tensor_parallel


def _pair_result(pair: PairEvidence, limits: Limits) -> PairResult:
    """A pair's figures; the aged ones estimated where the cache could not be aged and the model is known."""
    ranks = limits.tensor_parallel
    fresh, aged = figures(pair.fresh, ranks), figures(pair.aged, ranks)
    tokens = pair.fresh[0].tokens if pair.fresh else 0
    if limits.geometry is None:
        return PairResult(pair.prefill, pair.decode, fresh, aged, None, pair.error)
    if fresh and aged is None:
        aged = estimate_aged(fresh, _worst_descriptors(tokens, limits.geometry, limits), ranks)
    expected = _expected_bytes(tokens, limits.geometry, limits)
    return PairResult(pair.prefill, pair.decode, fresh, aged, expected, pair.error)


def _slowest(candidates: Any) -> Figures | None:
    return max((f for f in candidates if f), key=lambda f: f.mean_ms, default=None)


def _ms(found: Figures | None) -> str:
    if found is None:
        return "-"
    return f"{found.mean_ms:.1f} ms{' (estimated)' if found.estimated else ''}"
