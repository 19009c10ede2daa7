"""What `splitserve check` prints."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime

from components.check.result import Result
from components.topology.explain import asks_line, path_line
from infra.report import clue_lines, gate_table

BASES = {
    "geometry": "bytes held against the model's geometry",
    "consistency": "bytes held against each other at two prompt lengths, not against the model",
    "counters": "the engines' own counters; whether bytes are right was not judged",
    "content": "what arrived and was answered; no bytes, no times",
    "log": "the engines' log alone",
    "nothing": "nothing was measured",
}


def result_text(result: Result) -> str:
    """The gate's table where something was measured, then the verdict in words."""
    lines = [gate_table(result.to_json(), result.limit_ms)] if result.pairs else []
    lines.append(f"{result.outcome}: {result.cause}")
    if result.faults:
        lines += [f"  found: {fault.message}" for fault in result.faults]
    else:
        lines.append(f"  found: {result.message}")
    lines += _way(result)
    lines += clue_lines([asdict(clue) for clue in result.clues])
    if result.fix:
        lines.append(f"  fix:   {result.fix}")
    if result.connector:
        lines.append(f"  what:  model {result.model}, connector {result.connector}; {BASES[result.basis]}")
    lines += [f"  note:  {note}" for note in result.notes]
    return "\n".join(lines)


def _way(result: Result) -> list[str]:
    """How the blocks went, and how to find out what is not known where that matters."""
    if result.topology is None:
        return []
    asked = asks_line(result.topology) if result.outcome != "pass" else None
    return [f"  way:   {path_line(result.topology)}", *([f"  ask:   {asked}"] if asked else [])]


def result_json(result: Result) -> str:
    """One line."""
    return json.dumps({"check": "kv-transfer", **result.to_json()})


def result_line(result: Result) -> str:
    """One line for a log: when, outcome, cause, and what was found."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    message = " ".join(result.message.split())
    return f"{now} {result.outcome} {result.cause}: {message}"
