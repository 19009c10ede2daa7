"""The rules as a Markdown table: docs/reference/rules.md is made from it."""

from __future__ import annotations

from infra.rules.all_rules import SUBJECTS, of_subject

HEAD = """# Rules

Checked before anything is created, in `pulumi preview` as in `pulumi up`. An error stops; a warning is
shown. Made by `splitserve rules` from `infra/rules/`.
"""


def rule_table() -> str:
    """One table a subject."""
    parts = [HEAD]
    for subject in SUBJECTS:
        title = (subject.__doc__ or "").strip().splitlines()[0]
        parts.append(f"\n## {title}\n\n| rule | severity | holds when | source |\n|---|---|---|---|\n")
        for rule in of_subject(subject):
            parts.append(f"| `{rule.id}` | {rule.severity} | {rule.what} | {rule.source} |\n")
    return "".join(parts)
