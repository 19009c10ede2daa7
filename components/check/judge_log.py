"""Judge transfers by an engine's log alone. Pure.

A log tells of transfers that were made. A request that moved nothing leaves no line, and nothing is known
of answers or of the bytes that were wanted: a pass by a log says less than the gate's, and says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from components.check.log import MARK, LogFigures
from components.check.result import Result
from components.diagnosis.diagnose import Clues
from components.release.verdict import Outcome

SAYS_NOTHING = "a log says nothing of requests that moved nothing, of answers, or of the bytes that were wanted"
NO_LINE = (
    "give the log of the side that counts (decode; with NIXL push and Mooncake prefill) from a time with requests; the "
    "engine must not run with --disable-log-stats or --api-server-count above 1, and log at INFO"
)


def judge_logs(found: Sequence[tuple[str, LogFigures | None]], limit_ms: float, clues: Clues) -> Result:
    """The verdict on (name of a log, its figures), with what else the logs said of its cause."""
    result = _judged(found, limit_ms)
    return result if result.outcome == "pass" else replace(result, clues=clues.explaining(result.cause))


def _judged(found: Sequence[tuple[str, LogFigures | None]], limit_ms: float) -> Result:
    """The first that finds something decides."""
    figures = [one for _, one in found if one]
    empty = [name for name, one in found if one is None]

    def result(outcome: Outcome, cause: str, message: str, fix: str, **more: Any) -> Result:
        slowest = max((one.mean_ms for one in figures if one.transfers), default=None)
        return Result(outcome, cause, message, fix, limit_ms, basis="log" if figures else "nothing",
                      kv_transfer_ms=slowest, notes=tuple(_notes(figures)), **more)  # fmt: skip

    for one in figures:
        if one.failed:
            return result("fail", "failed-transfers", f"{one.name}: {one.failed:g} transfers failed, {one.transfers:g} did "
                          "not", "read the same log for the handshake: version, model name, dtype and block size must be "
                          "the same on both tiers, and port and side channel reachable")  # fmt: skip
        if one.late:
            return result("fail", "read-after-expiry", f"{one.name}: {one.late:g} transfers ended after their blocks had "
                          "expired, which may hold another request's KV by then",
                          "raise `kv_lease_duration` in the connector's extra config, or take load off the decoders")  # fmt: skip
        if one.transfers and one.mean_ms >= limit_ms:
            return result("fail", "slow-link", f"{describe(one)}; limit {limit_ms:g} ms",
                          "compare MB/s with the link: a slow path (no peer access, TCP instead of RDMA), or, with many "
                          "descriptors of few bytes, a fragmented cache: raise vLLM's `--block-size`")  # fmt: skip
    if empty:
        return result("inconclusive", "no-transfer-logged", f"could not measure: {', '.join(empty)}: found no line with "
                      f"`{MARK.strip()}`, wanted at least one", NO_LINE)  # fmt: skip
    if any(not one.transfers for one in figures):
        names = ", ".join(one.name for one in figures if not one.transfers)
        return result(
            "inconclusive", "no-transfer-logged", f"could not measure: {names}: no transfer in any line", NO_LINE
        )
    told = "; ".join(describe(one) for one in figures)
    return result("pass", "log-only", f"{told}; limit {limit_ms:g} ms; {SAYS_NOTHING}", "")


def describe(one: LogFigures) -> str:
    """The figures of a log in words."""
    return (
        f"{one.name}: {one.transfers:g} transfers in {one.intervals} lines: mean {one.mean_ms:.1f} ms, p90 of the worst "
        f"line {one.worst_p90_ms:.1f} ms, {one.mib * 2**20 / 1e6:.2f} MB and {one.descriptors:.0f} descriptors a transfer, "
        f"{one.mb_per_s:.0f} MB/s"
    )


def _notes(figures: Sequence[LogFigures]) -> list[str]:
    notes = [
        f"{one.name}: {one.expired:g} prompts expired before a decoder read them" for one in figures if one.expired
    ]
    unknown = [one.name for one in figures if one.failed is None]
    if unknown:
        notes.append(f"{', '.join(unknown)}: this version does not log failed transfers")
    return notes
