"""The runbook's pages: symptom, evidence, cause, fix, from the code that gives verdicts, alerts and clues. Pure."""

from __future__ import annotations

from components.diagnosis.causes import CAUSES, Cause
from components.diagnosis.report import Report, read_reports
from components.diagnosis.signatures import SIGNATURES
from components.observability.rules import all_alerts

MADE = "Made by `python -m tools.pages`"
REFUSED = f"""# A release was refused, or could not be judged

{MADE} from `components/diagnosis/`: one entry for each [cause](../reference/verdicts.md) that is no pass.

**Symptom.** `pulumi up` ends with exit code 1 and `… was taken back: CAUSE` or `… could not be judged and is stopped:
CAUSE`; or `splitserve check` and the idle probe end with 1 or 2 and name it. The live release keeps the traffic.

**Evidence** is kept in the outputs: [how to read it](../how-to/read-the-evidence.md).
"""
ALERTS = f"""# An alert fires

{MADE} from `components/observability/`: one row for each [alert](../reference/alerts.md), whose entry there has the
evidence and the fix. `splitserve check` measures the same pods as the gate does, and names one cause.

| alert | symptom | the gate's word for it |
|---|---|---|
"""
REPORTS = f"""# Faults that others reported

{MADE} from `docs/runbook/reports.yaml`: bug reports of deployments with separate prefill and decode tiers, and what of
this project finds or prevents each. [Rules](../reference/rules.md) and [policies](../reference/policies.md) speak
before anything is built.
"""
PAGES = {
    "rule": "../reference/rules.md",
    "policy": "../reference/policies.md",
    "preflight": "../reference/preflight.md",
    "signature": "../reference/signatures.md",
}


def refused_page() -> str:
    """Each cause that is no pass, with the lines that explain it and the alerts that say the same."""
    return REFUSED + "".join(_cause(cause) for cause in CAUSES if cause.outcome != "pass")


def alerts_page() -> str:
    rows = []
    for alert in all_alerts():
        words = ", ".join(f"[`{cause}`](refused.md#{cause})" for cause in alert.verdicts)
        link = f"[`{alert.full_name}`](../reference/alerts.md#{alert.full_name.lower()})"
        rows.append(f"| {link} | {alert.means} | {words} |\n")
    return ALERTS + "".join(rows)


def reports_page() -> str:
    parts = [REPORTS]
    for subject, reports in read_reports().items():
        head = "| symptom | evidence | cause | fix | known here as | reports |\n|---|---|---|---|---|---|\n"
        parts += [f"\n## {subject}\n\n{head}", *(_report(report) for report in reports)]
    return "".join(parts)


def _cause(cause: Cause) -> str:
    who = " (`splitserve check`)" if cause.judge == "check" else ""
    facts = {"Symptom": f"{cause.outcome}{who}: {cause.means}", "Evidence": cause.look.replace("](", "](../reference/"),
             "Fix": cause.fix}  # fmt: skip
    lines = [f"- {title}: {text}\n" for title, text in facts.items()]
    texts = [f"`{signature.text.strip(' ,')}`" for signature in SIGNATURES if cause.name in signature.explains]
    if texts:
        lines.append(f"- Lines that explain it ([what each means](../reference/signatures.md)): {'; '.join(texts)}\n")
    alerts = [f"[`{alert.full_name}`](../reference/alerts.md#{alert.full_name.lower()})"
              for alert in all_alerts() if cause.name in alert.verdicts]  # fmt: skip
    if alerts:
        lines.append(f"- On a live release: {', '.join(alerts)}\n")
    return f"\n## {cause.name}\n\n{''.join(lines)}"


def _report(report: Report) -> str:
    known = [_known(kind, name) for kind, name in report.caught.items()]
    known += [f"can't happen: `{report.built}`"] if report.built else []
    links = ", ".join(f"[{number}]({url})" for number, url in enumerate(report.reports, 1))
    cells = (report.symptom, report.evidence, report.cause, report.fix, "; ".join(known), links)
    return f"| {' | '.join(cells)} |\n"


def _known(kind: str, name: str) -> str:
    if kind == "verdict":
        return f"[verdict](../reference/verdicts.md) [`{name}`](refused.md#{name})"
    if kind == "alert":
        return f"[alert](alerts.md) [`Splitserve{name}`](../reference/alerts.md#splitserve{name.lower()})"
    return f"[{kind}]({PAGES[kind]}) `{name}`"
