"""The time that a prompt's KV transfer should take, before anything is built. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from components.hardware.geometry import Geometry, Transfer
from components.hardware.links import Link


@dataclass(frozen=True)
class Expected:
    """Milliseconds for one prompt, one request at a time, all ranks side by side.

    `unmeasured`: the assumptions that the figures rest on; empty when every constant was measured.
    """

    transfer: Transfer
    fresh_ms: float
    aged_ms: float
    unmeasured: tuple[str, ...]


def expected(geometry: Geometry, link: Link, tokens: int, block_size: int, dtype: str, tp: int = 1) -> Expected:
    """Fresh and aged times for a prompt of `tokens`. `tp` is the decode tier's; raises GeometryFault."""
    moved = geometry.transfer(tokens, block_size, dtype, tp)
    fresh = transfer_ms(link, moved.rank_bytes, moved.descriptors_fresh)
    aged = transfer_ms(link, moved.rank_bytes, moved.descriptors_aged)
    return Expected(moved, fresh, aged, link.unmeasured)


def transfer_ms(link: Link, rank_bytes: int, descriptors: int) -> float:
    """base + bytes / rate + pieces x cost: see links.py."""
    moving = rank_bytes / (link.effective_gb_per_s * 1e6)
    return link.base_ms.value + moving + descriptors * link.descriptor_us.value / 1000
