"""A pull request's comment on one stack: what would change, the plan, its cost against the base, policies.

Markdown that GitHub and GitLab both show. The first line is hidden, and is the same for each comment on the
stack: whoever posts one finds the last by it and writes over it.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from components.hardware.prices import price
from infra.plan import Plan
from infra.plan_report import cost_text, plan_markdown
from infra.plan_summary import PriceOf, summary
from infra.preview_events import Change, Operation, Preview
from infra.rules.rule import Finding

DONE: dict[Operation, str] = {
    "replace": "replaced", "delete": "deleted", "import": "imported", "update": "updated", "create": "created",
}  # fmt: skip
"""In the order of what a reviewer must see first."""
OPEN: tuple[Operation, ...] = ("replace", "delete")
"""These take something away that runs: they are listed openly."""
LONGEST_LIST = 60
"""Rows for one operation; GitHub takes 65,536 characters a comment."""
LONGEST_TEXT = 2000
"""Characters of one message."""


@dataclass(frozen=True)
class Planned:
    """What a stack file means: a plan with what rules find, or the faults for which there is none."""

    plan: Plan | None
    findings: Sequence[Finding] = ()
    faults: Sequence[str] = ()

    @property
    def errors(self) -> list[str]:
        return [*self.faults, *(str(finding) for finding in self.findings if finding.severity == "error")]


@dataclass(frozen=True)
class Base:
    """The base branch's plan of the stack; None where it has none or it can't be read, and then why."""

    plan: Plan | None
    why: str = ""


def marker(stack: str) -> str:
    """The comment's first line, unlike that of every other stack."""
    return f"<!-- splitserve preview: {stack} -->"


def refused(preview: Preview, planned: Planned) -> bool:
    """Whether `pulumi up` would stop before it changes anything, or could not be previewed."""
    return preview.failed or bool(planned.errors) or any(finding.stops for finding in preview.policies)


def comment(stack: str, preview: Preview, planned: Planned, base: Base, commit: str = "",
            price_of: PriceOf = price) -> str:  # fmt: skip
    """The whole comment, without a secret of the preview."""
    parts = [
        marker(stack),
        f"## Preview of {stack}: {_outcome(preview, planned)}",
        *([f"Of commit {_plain(commit)}."] if commit else []),
        *_refusal(preview, planned),
        *_changes(preview),
        *_plan(planned, base, price_of),
        *_policies(preview),
        *_warnings(preview, planned),
    ]
    return preview.redact("\n\n".join(parts) + "\n")


def _outcome(preview: Preview, planned: Planned) -> str:
    counted = ", ".join(f"{len(found)} {DONE[operation]}" for operation, found in _by_operation(preview.changes))
    return "**refused**" if refused(preview, planned) else counted or "no change"


def _by_operation(changes: Sequence[Change]) -> list[tuple[Operation, list[Change]]]:
    groups: dict[Operation, list[Change]] = {}
    for operation in DONE:
        groups[operation] = [one for one in changes if one.operation == operation]
    return [(operation, found) for operation, found in groups.items() if found]


def _refusal(preview: Preview, planned: Planned) -> Iterable[str]:
    """Everything that stops the update, once."""
    errors = list(planned.errors)
    errors += [text for text in preview.errors if not _says_no_more_than(text, errors)]
    errors += [f"{finding.policy}: {finding.text}" for finding in preview.policies if finding.stops]
    if errors:
        yield "`pulumi up` would stop here and change nothing:"
        yield "\n".join(f"- {_plain(text)}" for text in errors)
    elif preview.failed:
        yield "The preview failed without a reason among its events: see the log of the job."


def _says_no_more_than(text: str, errors: Sequence[str]) -> bool:
    """Whether a message is the list of these faults, as the program ends with it."""
    lines = [line.strip().removeprefix("- ") for line in text.splitlines()[1:]]
    return bool(lines) and all(line in errors for line in lines)


def _changes(preview: Preview) -> Iterable[str]:
    yield "### Resources"
    groups = _by_operation(preview.changes)
    if preview.failed and not groups:
        yield "None was looked at: the preview stopped before."
        return
    yield ", ".join([*(f"{len(found)} {DONE[one]}" for one, found in groups), f"{preview.unchanged} unchanged"]) + "."
    for operation, found in groups:
        table = _table(operation, found)
        if operation in OPEN:
            yield f"**{len(found)} {DONE[operation]}**: what runs there now goes away."
            yield table
        else:
            yield f"<details><summary>{len(found)} {DONE[operation]}</summary>\n\n{table}\n\n</details>"


def _table(operation: Operation, found: Sequence[Change]) -> str:
    """In one order whatever the engine's was: the same preview makes the same comment."""
    ordered = sorted(found, key=lambda one: (one.type, one.name))[:LONGEST_LIST]
    columns = ("resource", "type", *(["because of"] if any(one.keys for one in ordered) else []))
    rows = [[_cell(one.name), f"`{_cell(one.type)}`", _cell(", ".join(one.keys))] for one in ordered]
    if len(found) > LONGEST_LIST:
        rows.append([f"… and {len(found) - LONGEST_LIST} more {DONE[operation]}", "", ""])
    lines = [columns, ["---"] * len(columns), *(row[: len(columns)] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _plan(planned: Planned, base: Base, price_of: PriceOf) -> Iterable[str]:
    if planned.plan is None:
        yield "### Plan\n\nNone: the stack file can't be read as settings."
        return
    if planned.plan.settings.platform.layers == "cluster":
        yield "### Plan\n\nA cluster that other stacks serve on."
        yield f"- **cost**: {cost_text(summary(planned.plan, price_of))}"
    else:
        yield plan_markdown(planned.plan, list(planned.findings), planned.faults, price_of).rstrip()
    yield "\n".join(_against(planned.plan, base, price_of))


def _against(plan: Plan, base: Base, price_of: PriceOf) -> Iterable[str]:
    """What the change does to cost and KV transfer."""
    if base.plan is None:
        yield f"- **against the base branch**: {_plain(base.why)}"
        return
    here, there = summary(plan, price_of), summary(base.plan, price_of)
    yield f"- **cost against the base branch**: {_difference(there.usd_per_hour, here.usd_per_hour)}"
    if here.aged_ms is not None and there.aged_ms is not None:
        yield f"- **KV transfer against the base branch**: {there.aged_ms:.0f} ms to {here.aged_ms:.0f} ms aged"


def _difference(before: float | None, now: float | None) -> str:
    if before is None or now is None:
        return "unknown"
    change = round(now - before, 2)
    return f"{change:+,.2f} USD an hour ({before:,.2f} to {now:,.2f})" if change else f"none ({now:,.2f} USD an hour)"


def _policies(preview: Preview) -> Iterable[str]:
    yield "### Policies"
    if not preview.policies_ran:
        yield "None ran." if preview.failed else "None ran: the preview was made without `--policy-pack policies`."
    elif not preview.policies:
        yield "None was violated before the preview stopped." if preview.errors else "All hold."
    else:
        rows = ["| level | policy | finding |", "| --- | --- | --- |"]
        ordered = sorted(preview.policies, key=lambda finding: not finding.stops)
        rows += [f"| {_cell(f.level)} | `{_cell(f.policy)}` | {_cell(f.text)} |" for f in ordered[:LONGEST_LIST]]
        more = len(ordered) - LONGEST_LIST
        yield "\n".join([*rows, *([f"| | | … and {more} more |"] if more > 0 else [])])


def _warnings(preview: Preview, planned: Planned) -> Iterable[str]:
    """What the preview warned of beyond the rules' own findings, which are in the plan."""
    known = {str(finding) for finding in planned.findings}
    found = [text for text in preview.warnings if text not in known]
    if found:
        yield "### Warnings"
        yield "\n".join(f"- {_plain(text)}" for text in found[:LONGEST_LIST])


def _plain(text: str) -> str:
    """Text of others in a line of its own: no markup takes effect, no one is called by name."""
    short = text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + " …"
    return html.escape(" ".join(short.split()), quote=False).replace("@", "@\N{ZERO WIDTH SPACE}").replace("`", "'")


def _cell(text: str) -> str:
    return _plain(text).replace("|", "\\|")
