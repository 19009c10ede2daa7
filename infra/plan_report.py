"""A plan's summary for people: as a table in a run's output, and as Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from components.hardware.prices import price
from infra.plan import Plan
from infra.plan_summary import PriceOf, Summary, TierRow, summary
from infra.rules.rule import Finding
from infra.table_text import table_text

COLUMNS = ("tier", "replicas", "nodes", "on", "GPUs", "parallel", "USD/h")
CHOICES = {"split": "split", "collocated": "stay collocated", "measure": "measure first"}


def plan_text(plan: Plan, price_of: PriceOf = price) -> str:
    """The summary as a table and a few lines."""
    found = summary(plan, price_of)
    table = Table(title=f"plan: {plan.settings.model.name}, {plan.settings.topology}", title_justify="left")
    for name in COLUMNS:
        table.add_column(name, justify="left" if name in ("tier", "on", "parallel") else "right")
    for row in found.tiers:
        table.add_row(*_cells(row))
    lines = [f"{name:<12} {text}" for name, text in _lines(found)]
    return "\n".join([table_text(table), *lines])


def plan_markdown(plan: Plan, findings: list[Finding], faults: Sequence[str] = (), price_of: PriceOf = price) -> str:
    """The summary as a pull request's comment shows it."""
    found = summary(plan, price_of)
    rows = [COLUMNS, tuple("---" for _ in COLUMNS), *(_cells(row) for row in found.tiers)]
    parts = [f"### {plan.settings.model.name}, {plan.settings.topology}", ""]
    parts += ["| " + " | ".join(row) + " |" for row in rows]
    parts += [""] + [f"- **{name}**: {text}" for name, text in _lines(found)]
    if findings or faults:
        parts += ["", "| | rule | finding |", "| --- | --- | --- |"]
        parts += [f"| error | | {_escaped(fault)} |" for fault in faults]
        parts += [f"| {f.severity} | `{f.rule}` | {_escaped(str(f))} |" for f in findings]
    return "\n".join(parts) + "\n"


def _cells(row: TierRow) -> tuple[str, ...]:
    def known(value: object) -> str:
        return "unknown" if value is None else f"{value:,.2f}" if isinstance(value, float) else str(value)

    return (row.tier, str(row.replicas), known(row.nodes), known(row.hardware), known(row.gpus), row.parallel,
            known(row.usd_per_hour))  # fmt: skip


def _lines(found: Summary) -> list[tuple[str, str]]:
    lines = [
        *found.beside,
        ("KV per prompt", _kv(found)),
        ("KV transfer", _transfer(found)),
        ("cost", cost_text(found)),
    ]
    if found.advice:
        lines.append(("advice", f"{CHOICES[found.advice.choice]}: {'; '.join(found.advice.reasons)}"))
    return lines


def _kv(found: Summary) -> str:
    if found.kv_bytes is None:
        return "unknown"
    return f"{found.kv_bytes / 1e6:,.1f} MB for the gate's {found.prompt_tokens:,} tokens"


def _transfer(found: Summary) -> str:
    if found.fresh_ms is None or found.aged_ms is None:
        return "unknown: the link between the tiers is not stated (platform.hardware.link); the gate measures it"
    over = (
        ""
        if found.aged_ms < found.limit_ms
        else ": over the limit when aged"
        if found.fresh_ms < found.limit_ms
        else ": over the limit"
    )
    text = f"{found.fresh_ms:.0f} ms fresh, {found.aged_ms:.0f} ms aged expected over {found.link}, limit {found.limit_ms:g} ms{over}"
    return text + (f" (estimate: {', '.join(found.unmeasured)} not measured on it)" if found.unmeasured else "")


def cost_text(found: Summary) -> str:
    """Dollars an hour, by what is billed, and where the prices are from."""
    if not found.costs:
        return "unknown: not on AWS"
    amount = "unknown" if found.usd_per_hour is None else f"{found.usd_per_hour:,.2f} USD an hour"
    parts = ", ".join(f"{name} {'unknown' if usd is None else f'{usd:,.2f}'}" for name, usd in found.costs)
    return f"{amount}: {parts} ({'; '.join(found.price_notes)})"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
