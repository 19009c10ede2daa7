"""Events of a preview, as Pulumi streams them, for tests to spoil."""

from __future__ import annotations

import json
from typing import Any

ROOT = "urn:pulumi:dev::splitserve::pulumi:pulumi:Stack::splitserve-dev"
SUMMARY = {"summaryEvent": {"isPreview": True, "result": "succeeded", "PolicyPacks": {"splitserve|local|p": "0.0.1"}}}
FAILED = {"summaryEvent": {**SUMMARY["summaryEvent"], "result": "failed"}}
END = {"cancelEvent": {}}


def step(
    op: str, kind: str = "aws:ec2/vpc:Vpc", name: str = "net", *, stack: str = "dev", **more: Any
) -> dict[str, Any]:
    """A step on one resource; `old` and `new` are its states, `keys` what forces a replacement."""
    urn = f"urn:pulumi:{stack}::splitserve::{kind}::{name}"
    states = {
        "old": {"custom": True, **(more.pop("old", None) or {})},
        "new": {"custom": True, **(more.pop("new", None) or {})},
    }
    return {"resourcePreEvent": {"metadata": {"op": op, "urn": urn, "type": kind, **states, **more}, "planning": True}}


def said(severity: str, message: str) -> dict[str, Any]:
    return {"diagnosticEvent": {"severity": severity, "message": message, "prefix": f"{severity}: ", "color": "never"}}


def policy(name: str, level: str, message: str) -> dict[str, Any]:
    return {
        "policyEvent": {
            "policyName": name,
            "enforcementLevel": level,
            "message": message,
            "policyPackName": "splitserve",
        }
    }


def stream(*events: dict[str, Any], end: tuple[dict[str, Any], ...] = (SUMMARY, END)) -> str:
    stack = {"resourcePreEvent": {"metadata": {"op": "same", "urn": ROOT, "type": "pulumi:pulumi:Stack", "new": {}}}}
    numbered = [{"sequence": n, **event} for n, event in enumerate([stack, *events, *end])]
    return "".join(json.dumps(event) + "\n" for event in numbered)
