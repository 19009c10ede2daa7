"""Read what vLLM logs of KV transfers. Pure.

The line is `KV Transfer metrics: key=value, …` (vllm 0.32 `distributed/kv_transfer/kv_connector/v1/metrics.py`),
one an interval (10 s) in which something was recorded; keys are those of `nixl/stats.py` and `mooncake/stats.py`,
reduce. MultiConnector writes `Name={'key': value, …}` for each connector inside. MB are 2^20 bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

MARK = "KV Transfer metrics: "
NUMBER = r"(?:np\.\w+\()?(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"
PART = re.compile(r"(\w+)=\{([^}]*)\}")
SUCCESSES = "Num successful transfers"
KEYS = {
    SUCCESSES: "transfers",
    "Avg xfer time (ms)": "mean_ms",
    "P90 xfer time (ms)": "p90_ms",
    "Avg MB per transfer": "mib",
    "Avg number of descriptors": "descriptors",
    "Num failed transfers": "failed",
    "Num failed recvs": "failed_receipts",
    "Num KV expired reqs": "expired",
    "Num notifs after expiry": "late",
}
PATTERNS = {name: re.compile(re.escape(key) + r"""['"\\]*\s*[=:]\s*""" + NUMBER) for key, name in KEYS.items()}


@dataclass(frozen=True)
class Interval:
    """One line's figures, of `transfers` transfers; None: this version does not say."""

    transfers: float
    mean_ms: float
    p90_ms: float
    mib: float
    descriptors: float
    failed: float | None
    expired: float | None
    late: float | None


@dataclass(frozen=True)
class LogFigures:
    """All intervals of one log. `worst_p90_ms` is the worst interval's: percentiles can't be added up."""

    name: str
    intervals: int
    transfers: float
    mean_ms: float
    worst_p90_ms: float
    mib: float
    descriptors: float
    failed: float | None
    expired: float | None
    late: float | None

    @property
    def mb_per_s(self) -> float:
        """Of one transfer at a time, in 10^6 bytes a second."""
        return self.mib * 2**20 / 1e3 / self.mean_ms if self.mean_ms else 0.0


def read_log(name: str, lines: Iterable[str]) -> LogFigures | None:
    """The figures of a log; None where no line of it holds any."""
    found = [interval for line in lines for interval in read_line(line)]
    if not found:
        return None
    count = sum(one.transfers for one in found)

    def mean(of: str) -> float:
        return sum(getattr(one, of) * one.transfers for one in found) / count if count else 0.0

    return LogFigures(
        name, len(found), count, mean("mean_ms"), max(one.p90_ms for one in found), mean("mib"), mean("descriptors"),
        _sum(found, "failed"), _sum(found, "expired"), _sum(found, "late"),
    )  # fmt: skip


def read_line(line: str) -> list[Interval]:
    """The intervals of a line, one for each connector that it tells of; none of any other line."""
    _, mark, content = line.partition(MARK)
    if not mark:
        return []
    parts = [inner for _, inner in PART.findall(content)] or [content]
    return [interval for part in parts if (interval := _interval(part))]


def _interval(text: str) -> Interval | None:
    found = {name: float(match[1]) for name, pattern in PATTERNS.items() if (match := pattern.search(text))}
    needed = ("transfers", "mean_ms", "p90_ms", "mib", "descriptors")
    if not all(name in found for name in needed):
        return None
    failures = [found[name] for name in ("failed", "failed_receipts") if name in found]
    return Interval(*(found[name] for name in needed), failed=sum(failures) if failures else None,
                    expired=found.get("expired"), late=found.get("late"))  # fmt: skip


def _sum(found: list[Interval], of: str) -> float | None:
    values = [getattr(one, of) for one in found if getattr(one, of) is not None]
    return sum(values) if values else None
