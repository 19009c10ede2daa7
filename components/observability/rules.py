"""The rules file: recording rules and the alerts that a stack's parts need. Pure.

One content for both readers: the file of a plain Prometheus, and the `spec` of a PrometheusRule
(https://prometheus.io/docs/prometheus/latest/configuration/recording_rules/).
"""

from __future__ import annotations

from typing import Any

from components.observability import kv_alerts, serving_alerts
from components.observability.alert import Alert
from components.observability.limits import AlertLimits, duration
from components.observability.recording import Recording, recordings

ALERTS: dict[str, tuple[Alert, ...]] = {
    "splitserve-kv-path": kv_alerts.ALERTS,
    "splitserve-serving": serving_alerts.ALERTS,
}
"""By group, in the order of docs/reference/alerts.md."""
RULE_NAME = "splitserve"


def rules_file(limits: AlertLimits) -> dict[str, Any]:
    """`{groups: [{name, rules}]}`."""
    recorded = [_recording(rule) for rule in recordings(limits)]
    groups = [{"name": "splitserve-recorded", "rules": recorded}]
    for name, alerts in ALERTS.items():
        rules = [_alert(alert, limits) for alert in alerts if alert.needs <= limits.parts]
        groups.append({"name": name, "rules": rules})
    return {"groups": groups}


def all_alerts() -> list[Alert]:
    return [alert for alerts in ALERTS.values() for alert in alerts]


def _recording(rule: Recording) -> dict[str, Any]:
    labels = {"labels": rule.labels} if rule.labels else {}
    return {"record": rule.record, "expr": rule.expr, **labels}


def _alert(alert: Alert, limits: AlertLimits) -> dict[str, Any]:
    """`for` is left out where the first sample is enough."""
    held = {"for": duration(alert.for_s)} if alert.for_s else {}
    return {
        "alert": alert.full_name,
        "expr": alert.expr(limits),
        **held,
        "labels": {"severity": alert.severity},
        "annotations": {
            "summary": alert.summary,
            "description": alert.means,
            "evidence": alert.evidence,
            "fix": alert.fix,
            "page": alert.anchor,
        },
    }
