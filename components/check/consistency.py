"""Judge bytes without the model's geometry: by their agreement over two prompt lengths. Pure.

Weaker than the geometry. A KV cache of the wrong dtype on both sides, or layers that never move, agree
just as well; and windows or states, whose bytes don't grow with the prompt, can't be told from a part
that is missing. Such findings are inconclusive, never a pass.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from components.hardware.geometry import blocks
from components.release.evidence import PairEvidence, Sample
from components.release.verdict import ARRIVED_SHARE, BYTES_TOLERANCE, Finding

WAY_OUT = "give the model's config.json: --model-config FILE"


def shorter(tokens: int, block_size: int) -> int:
    """The second length: half of the first in whole blocks. `tokens` has at least two."""
    return max(tokens // block_size // 2, 1) * block_size


def inconsistent(long: Sequence[PairEvidence], short: Sequence[PairEvidence], block_size: int, *,
                 whole_blocks: bool) -> Finding | None:  # fmt: skip
    """What speaks against the bytes of pairs that were measured at two lengths."""
    for first, second in zip(long, short, strict=True):
        label = f"{first.prefill} -> {first.decode}"
        if second.error or not second.fresh:
            return Finding("inconclusive", "pair-unmeasured", f"{label}: could not measure a shorter prompt: "
                           f"{second.error or 'no sample was taken'}", WAY_OUT)  # fmt: skip
        samples = [*first.fresh, *first.aged, *second.fresh]
        if found := _arrival(label, samples, block_size) or _spread(label, first, second, block_size, whole_blocks):
            return found
    return None


def bytes_per_token(pair: PairEvidence, block_size: int, *, whole_blocks: bool) -> float:
    """The median over the pair's samples, of the whole blocks that were to move."""
    return statistics.median(_rates([*pair.fresh, *pair.aged], block_size, whole_blocks))


def _arrival(label: str, samples: list[Sample], block_size: int) -> Finding | None:
    if any(sample.external_tokens is None for sample in samples):
        return Finding("inconclusive", "bytes-unknown", f"{label}: bytes moved, but how many of the prompt's tokens they "
                       "hold is not known: the decoder does not count those that arrive", WAY_OUT)  # fmt: skip
    for sample in samples:
        if (sample.external_tokens or 0) < ARRIVED_SHARE * (sample.tokens - block_size):
            return Finding("fail", "part-arrived", f"{label}: {sample.external_tokens:g} of a prompt's {sample.tokens} "
                           "tokens arrived as KV cache; the decoder computed the others again",
                           "read the decoder's log; block size and KV cache groups must be the same on both tiers")  # fmt: skip
    return None


def _spread(label: str, first: PairEvidence, second: PairEvidence, block_size: int, whole: bool) -> Finding | None:
    lengths = [
        (pair.fresh[0].tokens, bytes_per_token(pair, block_size, whole_blocks=whole)) for pair in (first, second)
    ]
    (long, of_long), (short, of_short) = lengths
    least = min(_rates([*first.fresh, *first.aged], block_size, whole))
    if abs(of_long / of_short - 1) <= BYTES_TOLERANCE and least >= of_long * (1 - BYTES_TOLERANCE):
        return None
    return Finding("inconclusive", "bytes-inconsistent", f"{label}: {of_long:,.0f} bytes a token moved at {long} tokens "
                   f"(least {least:,.0f}), {of_short:,.0f} at {short}: a part is missing, or the model has windows or "
                   "states", WAY_OUT)  # fmt: skip


def _rates(samples: list[Sample], block_size: int, whole_blocks: bool) -> list[float]:
    return [
        (sample.bytes or 0.0) / (max(sample.tokens // block_size, 1) if whole_blocks else blocks(sample.tokens, block_size)) / block_size
        for sample in samples
    ]  # fmt: skip
