"""The rules of the pack as a Markdown table: docs/reference/policies.md is made from it.

`python -m policies.table > docs/reference/policies.md`
"""

from __future__ import annotations

import json

from policies.all_rules import SUBJECTS, rules, rules_of

HEAD = """# Policies

Checked by `pulumi preview --policy-pack policies` and `pulumi up --policy-pack policies`. A mandatory rule stops,
an advisory one is shown. `--policy-pack-config FILE` sets a rule's level and settings by its name:
`{"gpu-ceiling": {"enforcementLevel": "mandatory", "ceiling": 16}}`. What a preview can't know yet is no violation:
Pulumi says that the rule could not run, and the update checks it. Made by `python -m policies.table` from
`policies/`.
"""


def policy_table() -> str:
    """One table a subject, then the settings."""
    parts = [HEAD]
    for subject in SUBJECTS:
        title = (subject.__doc__ or "").strip().splitlines()[0]
        parts.append(f"\n## {title}\n\n| rule | level | holds when | way out | source |\n|---|---|---|---|---|\n")
        for rule in rules_of(subject):
            parts.append(f"| `{rule.name}` | {rule.level} | {rule.what} | {rule.fix} | {rule.source} |\n")
    parts.append("\n## Settings of the rules.\n\n| rule | setting | default | what |\n|---|---|---|---|\n")
    for rule in rules():
        for setting in rule.settings:
            default = json.dumps(setting.default)
            parts.append(f"| `{rule.name}` | `{setting.name}` | `{default}` | {setting.what} |\n")
    return "".join(parts)


if __name__ == "__main__":
    print(policy_table(), end="")
