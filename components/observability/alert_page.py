"""docs/reference/alerts.md: every alert, what it means, what to look at and what to do. Pure.

`python -m components.observability.alert_page` prints it.
"""

from __future__ import annotations

from components.observability.alert import Alert
from components.observability.limits import AlertLimits, Part, duration
from components.observability.recording import recordings
from components.observability.rules import ALERTS

TITLES = {"splitserve-kv-path": "KV path", "splitserve-serving": "Serving"}
THERE: dict[Part, str] = {
    "split": "`topology: prefill-decode`",
    "gateway": "the gateway as router (with a render tier)",
    "vllm-router": "vllm-router as router",
    "measured": "a connector whose transfers [can be measured](connectors.md)",
    "names-kv": "a connector whose prefillers name the KV cache in their answers",
    "idle-probe": "`observability.idleProbe.schedule`",
}
HEAD = """# Alerts

From real traffic and the idle probe, on the gate's own limit. Switched on by
[`observability.rules`](settings.md#observability), or printed for a plain Prometheus by `splitserve alerts`
([how to](../how-to/observe.md)). Made by `python -m components.observability.alert_page` from
`components/observability/`. Expressions are those of the default limits; the stack file's replace them.

An alert by itself never moves traffic: `splitserve check` measures the same pods as the gate does, and its
[verdict](verdicts.md) has one cause.
"""


def page() -> str:
    """The whole page: an overview, each alert, then what is recorded."""
    limits = AlertLimits()
    parts = [HEAD, "\n| alert | severity | for | means |\n|---|---|---|---|\n"]
    parts += [_row(alert) for alerts in ALERTS.values() for alert in alerts]
    for group, alerts in ALERTS.items():
        parts.append(f"\n## {TITLES[group]}\n")
        parts += [_section(alert, limits) for alert in alerts]
    parts += ["\n## Recorded\n\n| series | labels | expression |\n|---|---|---|\n"]
    for rule in recordings(limits):
        labels = ", ".join(f"{name} {value}" for name, value in rule.labels.items())
        parts.append(f"| `{rule.record}` | {labels} | `{rule.expr.replace('|', chr(92) + '|')}` |\n")
    return "".join(parts)


def _row(alert: Alert) -> str:
    first = alert.means.split(": ")[0].split(". ")[0].rstrip(".")
    held = duration(alert.for_s) if alert.for_s else "at once"
    return f"| [`{alert.full_name}`](#{alert.full_name.lower()}) | {alert.severity} | {held} | {first} |\n"


def _section(alert: Alert, limits: AlertLimits) -> str:
    facts = {"Look at": alert.evidence, "Fix": alert.fix}
    if alert.verdicts:
        causes = ", ".join(f"`{cause}`" for cause in alert.verdicts)
        facts["The gate's words for it"] = f"{causes} ([verdicts](verdicts.md))"
    if alert.needs:
        facts["Needs"] = "; ".join(THERE[part] for part in THERE if part in alert.needs)
    lines = "".join(f"- {title}: {text}\n" for title, text in facts.items())
    return f"\n### {alert.full_name}\n\n{alert.means}\n\n{lines}\n```\n{alert.expr(limits)}\n```\n"


if __name__ == "__main__":
    print(page(), end="")
