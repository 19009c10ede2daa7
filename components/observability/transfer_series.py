"""The transfer series of every connector that has some, as its profile names them for the gate.

Each counts a transfer on one side alone (NIXL: who posts it), so a sum over both tiers is right for pull and push.
"""

from __future__ import annotations

from dataclasses import dataclass

from components.serving.connectors.measurement import Measurement
from components.serving.connectors.profiles import PROFILES


@dataclass(frozen=True)
class TransferSeries:
    """Series as vLLM exposes them, with what selects them in braces: seconds and bytes are sums, `count` is transfers."""

    family: str
    seconds_sum: str
    count: str
    bytes_sum: str
    failed: str

    @property
    def seconds_bucket(self) -> str:
        return self.seconds_sum.replace("_seconds_sum", "_seconds_bucket")


def transfer_series() -> tuple[TransferSeries, ...]:
    """One entry a family of series, in the order of the profiles; pull and push of NIXL share theirs."""
    found: dict[str, TransferSeries] = {}
    for profile in PROFILES.values():
        if profile.measurement.unmeasured is None and "ms" in profile.measurement.series:
            made = _of(profile.name, profile.measurement)
            found.setdefault(made.seconds_sum, made)
    return tuple(found.values())


def _of(name: str, measurement: Measurement) -> TransferSeries:
    series = {key: one.name for key, one in measurement.series.items()}
    return TransferSeries(name, series["ms"], series["transfers"], series["bytes"], series["failed"])


def selected(series: str, *matchers: str) -> str:
    """A series with further matchers: `a{b="1"}` and `c="2"` make `a{b="1",c="2"}`."""
    name, _, own = series.partition("{")
    wanted = [part for part in (own.rstrip("}"), *matchers) if part]
    return f"{name}{{{','.join(wanted)}}}" if wanted else name
