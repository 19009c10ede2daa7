"""docs/reference/verdicts.md: every outcome and cause. Pure."""

from __future__ import annotations

from components.diagnosis.causes import CHECK, GATE, Cause

HEAD = """# Verdicts

Made by `python -m tools.pages` from `components/diagnosis/causes.py`. What to look at, cause by cause:
[runbook](../runbook/refused.md).

| outcome | cause | means | fix |
|---|---|---|---|
"""
FOOT = """
With a verdict that is no pass come the lines of the pods' logs that explain it: [signatures](signatures.md).

The same causes are watched after the deploy, from real traffic: [alerts](alerts.md). The idle probe has one more,
`busy`: clients use the release, and their transfers are the samples.

Counters are vLLM 0.32's: [which of them, by connector](connectors.md).

## Of `splitserve check` alone

[What it does](../how-to/check-any-deployment.md).

| outcome | cause | means | fix |
|---|---|---|---|
"""


def verdict_page() -> str:
    """The whole page."""
    return HEAD + "".join(map(_row, GATE)) + FOOT + "".join(map(_row, CHECK))


def _row(cause: Cause) -> str:
    name = f"`{cause.name}`"
    if cause.outcome != "pass":
        name = f"[{name}](../runbook/refused.md#{cause.name})"
    return f"| {cause.outcome} | {name} | {cause.means} | {cause.fix} |\n"
