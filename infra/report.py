"""What a run says at its end: the gate's table, and the one message when a release was refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from infra.table_text import table_text

MOST_CLUES = 3


def gate_table(verdict: dict[str, Any], limit_ms: float) -> str:
    """Per pair: samples, bytes, descriptors, mean and p90 in ms fresh and aged, GB/s, expectation."""
    table = Table(title=f"KV transfer, limit {limit_ms:g} ms: {verdict['outcome']}", title_justify="left")
    table.add_column("prefill -> decode", overflow="fold")
    for name in ("KV", "n", "MB", "wanted MB", "desc.", "mean ms", "p90 ms", "GB/s"):
        table.add_column(name, justify="right")
    for pair in verdict["pairs"]:
        label = f"{pair['prefill']} -> {pair['decode']}"
        for kind in ("fresh", "aged"):
            table.add_row(label, *_row(kind, pair.get(kind), pair["expected_bytes"]))
            label = ""
    return table_text(table)


def refusal(stack: str, release: str, note: str, verdict: dict[str, Any], live: str | None, endpoint: str) -> str:
    """Why the update failed, what became of the release, and what to do."""
    named = f"release {release}" + (f" ({note})" if note else "")
    inconclusive = verdict["outcome"] == "inconclusive"
    became = "could not be judged and is stopped" if inconclusive else "was taken back"
    lines = [
        f"{stack}: {named} {became}: {verdict['cause']}",
        f"  found: {verdict['message']}",
        *clue_lines(verdict.get("clues") or []),
        f"  fix:   {verdict['fix']}",
        f"  live:  release {live} answers at {endpoint}" if live else "  live:  no release has passed yet",
    ]
    recheck = (verdict.get("rollback") or {}).get("live")
    if recheck:
        lines.append(f"  check: live release after the rollback: {recheck['outcome']}: {recheck['message']}")
    if inconclusive:
        lines.append("  next:  the same `pulumi up` measures again")
    else:
        lines.append("  next:  this release is quarantined until its configuration changes or gate.retry is raised")
    return "\n".join(lines)


def clue_lines(clues: Sequence[Mapping[str, Any]]) -> list[str]:
    """What logs say of the cause, the likeliest root first; as in a verdict's JSON."""
    lines = []
    for clue in clues[:MOST_CLUES]:
        times = f", {clue['count']:.0f} times" if clue["count"] > 1 else ""
        lines += [f"  clue:  {clue['where']}{times}: {clue['line']}", f"         {clue['means']}; {clue['fix']}"]
    if len(clues) > MOST_CLUES:
        lines.append(f"         and {len(clues) - MOST_CLUES} more in the evidence")
    return lines


def _row(kind: str, figures: dict[str, Any] | None, expected_bytes: float | None) -> list[str]:
    wanted = "-" if expected_bytes is None else f"{expected_bytes / 1e6:.2f}"
    if figures is None:
        return [kind, "0", "-", wanted, "-", "-", "-", "-"]
    megabytes = figures["mean_bytes"] / 1e6
    speed = figures["mean_bytes"] / figures["mean_ms"] / 1e6 if figures["mean_ms"] else 0.0
    return [
        f"{kind}*" if figures["estimated"] else kind,
        f"{figures['samples']:.0f}",
        f"{megabytes:.2f}",
        wanted,
        f"{figures['mean_descriptors']:.0f}",
        f"{figures['mean_ms']:.1f}",
        f"{figures['p90_ms']:.1f}",
        f"{speed:.3f}",
    ]
