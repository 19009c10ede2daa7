"""What a gate found: the probe's samples, summed up per pair, and how readiness went.

Pure. Keeps every figure with its unit; judging them is `verdict.py`'s.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Sample:
    """One transfer, as the decoder's counters and the probe's clock saw it. None: not exported.

    `answer` is the text after the transfer, `reference` the same prompt answered by the prefiller.
    """

    tokens: int
    ms: float | None
    post_ms: float | None
    bytes: float | None
    descriptors: float | None
    transfers: float | None
    failed: float | None
    external_tokens: float | None
    prefill_tokens: float
    decode_tokens: float
    """Prompt tokens that the decoder counted meanwhile: more than `tokens` are other requests'."""
    prefill_ms: float
    decode_ms: float
    answer: str
    reference: str

    @property
    def moved(self) -> bool:
        return bool(self.bytes) and bool(self.transfers)


@dataclass(frozen=True)
class Figures:
    """Several samples of one pair. Times are per request: parts of one request add up, ranks' own do not."""

    samples: int
    mean_ms: float
    p90_ms: float
    mean_bytes: float
    mean_descriptors: float
    mean_post_ms: float
    descriptor_ms: float
    """What posting one descriptor takes, from the sample that was posted quickest: a busy CPU holds a
    post up once, not once a descriptor."""
    estimated: bool = False

    @property
    def gb_per_s(self) -> float:
        return self.mean_bytes / self.mean_ms / 1e6 if self.mean_ms else 0.0


@dataclass(frozen=True)
class PairEvidence:
    """`error` says what ended the measurement of this pair, `failed` how many transfers the decoder
    had counted as failed by then."""

    prefill: str
    decode: str
    fresh: list[Sample] = field(default_factory=list)
    aged: list[Sample] = field(default_factory=list)
    error: str | None = None
    failed: float = 0


@dataclass(frozen=True)
class Evidence:
    """Everything one gate saw.

    `not_ready` says what kept pods from getting ready (then nothing was probed); `unmeasured` what
    kept the probe from measuring; `no_nodes` why the candidate's nodes did not start. `ended` names the pods whose container ended while the probe ran, and
    says why. `ageing`, `router`, `render` and `encoder` are the probe's own records.
    """

    pairs: list[PairEvidence] = field(default_factory=list)
    router: dict[str, Any] | None = None
    render: dict[str, Any] | None = None
    encoder: dict[str, Any] | None = None
    ageing: dict[str, Any] | None = None
    not_ready: str | None = None
    unmeasured: str | None = None
    no_nodes: str | None = None
    ended: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def read_evidence(content: dict[str, Any]) -> Evidence:
    """The probe's printed JSON as Evidence."""
    return Evidence(
        pairs=[
            PairEvidence(
                prefill=pair["prefill"],
                decode=pair["decode"],
                fresh=[Sample(**sample) for sample in pair["fresh"]],
                aged=[Sample(**sample) for sample in pair["aged"]],
                error=pair["error"],
                failed=pair.get("failed", 0),
            )
            for pair in content["pairs"]
        ],
        router=content.get("router"),
        render=content.get("render"),
        encoder=content.get("encoder"),
        ageing=content.get("ageing"),
        seconds=dict(content.get("seconds", {})),
    )


def figures(samples: Sequence[Sample], ranks: int = 1) -> Figures | None:
    """Mean and 90th percentile over the samples that moved something; None when none did.

    The counters add up what `ranks` of one engine took at the same time: a request waits for one of them.
    """
    moved = [sample for sample in samples if sample.moved]
    if not moved:
        return None
    times = sorted((sample.ms or 0.0) / _at_once(sample, ranks) for sample in moved)
    return Figures(
        samples=len(moved),
        mean_ms=statistics.fmean(times),
        p90_ms=percentile(times, 0.9),
        mean_bytes=statistics.fmean(sample.bytes or 0.0 for sample in moved),
        mean_descriptors=statistics.fmean(sample.descriptors or 0.0 for sample in moved),
        mean_post_ms=statistics.fmean((sample.post_ms or 0.0) / _at_once(sample, ranks) for sample in moved),
        descriptor_ms=min(
            (sample.post_ms or 0.0) / sample.descriptors if sample.descriptors else 0.0 for sample in moved
        ),
    )


def _at_once(sample: Sample, ranks: int) -> float:
    """Never more than the transfers that were counted: where a push is counted, there may be fewer ranks."""
    return max(1.0, min(float(ranks), sample.transfers or 1.0))


def percentile(ordered: Sequence[float], share: float) -> float:
    """Nearest rank: the smallest value that at least `share` of the values do not exceed."""
    rank = max(1, -(-int(share * 1000) * len(ordered) // 1000))
    return ordered[rank - 1]


def estimate_aged(fresh: Figures, worst_descriptors: float, ranks: int = 1) -> Figures:
    """What an aged cache would take, from the time that posting one descriptor takes.

    `worst_descriptors` is one for each block of each layer, over all `ranks`, which post theirs at once. Where the samples moved as many already, the
    cache was aged before, and they are the answer.
    """
    worst = max(worst_descriptors, fresh.mean_descriptors)
    added_ms = (worst - fresh.mean_descriptors) * fresh.descriptor_ms / ranks
    return replace(
        fresh,
        mean_ms=fresh.mean_ms + added_ms,
        p90_ms=fresh.p90_ms + added_ms,
        mean_descriptors=worst,
        mean_post_ms=fresh.mean_post_ms + added_ms,
        estimated=True,
    )
