"""The checks as Markdown: the tables of docs/reference/preflight.md."""

from __future__ import annotations

import json

from components.platform.preflight.all_checks import checks, iam_actions


def checks_table() -> str:
    """What each check holds to, the IAM actions it needs, and its source."""
    rows = ["| check | all is well when | IAM actions | source |", "|---|---|---|---|"]
    for check in checks():
        actions = ", ".join(f"`{action}`" for action in check.actions) or "none"
        rows.append(f"| `{check.id}` | {check.what} | {actions} | {check.source} |")
    return "\n".join(rows)


def iam_policy() -> str:
    """An IAM policy with which every check can be asked. Reads only."""
    statement = {"Effect": "Allow", "Action": iam_actions(), "Resource": "*"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]}, indent=2)
