"""What a release's measurement is held against: its own expectation, and the gate's settings. Pure."""

from __future__ import annotations

from typing import Any

from components.release.expectation import Expectation
from components.release.verdict import Limits


def limits_of(wanted: Expectation, settings: dict[str, Any]) -> Limits:
    """`settings` are the gate's, by camelCase key."""
    how = wanted.measurement or {}
    return Limits(
        limit_ms=float(settings["limitMs"]),
        geometry=wanted.geometry,
        block_size=wanted.block_size,
        kv_dtype=wanted.kv_dtype,
        tensor_parallel=wanted.tensor_parallel,
        collocated=wanted.topology == "collocated",
        render=wanted.render_port is not None,
        encoder=wanted.encoder is not None,
        unmeasured=how.get("unmeasured"),
        accept_unmeasured=settings.get("unmeasured") == "accept-content-only",
        whole_blocks=bool(how.get("wholeBlocks")),
        max_ratio=settings.get("maxRatio"),
        expected_ms=settings.get("expectedMs"),
    )
