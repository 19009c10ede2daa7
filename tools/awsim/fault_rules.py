"""Faults on request: which calls fail, how, and in which error code of their service. Pure.

A rule: {"service": "ec2", "action": "CreateVpc" or "*", "kind": …, "every": N | "times": N, "after": N,
"seconds": S, "match": "p5.48xlarge"}. `match` is an instance type or node group, or the access key that has expired.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from tools.awsim.wire import Answer, Call, protocol, refusal

Kind = Literal[
    "throttle", "access-denied", "expired-token", "server-error", "partial", "timeout", "slow", "insufficient-capacity"
]
KINDS = get_args(Kind)
KEYS = {"service", "action", "kind", "every", "times", "after", "seconds", "match"}

THROTTLED = {"ec2": "RequestLimitExceeded", "s3": "SlowDown"}
"""https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-throttling.html and the S3 error list."""
DENIED = {"ec2": "UnauthorizedOperation", "query": "AccessDenied", "rest-xml": "AccessDenied"}
"""By service, else by protocol; JSON services answer AccessDeniedException."""


@dataclass
class Rule:
    """One rule and how often it was asked."""

    kind: Kind
    service: str = "*"
    action: str = "*"
    every: int = 1
    times: int | None = None
    after: int = 0
    seconds: float = 5.0
    match: str = ""
    seen: int = field(default=0, compare=False)
    fired: int = field(default=0, compare=False)

    def takes(self, call: Call) -> bool:
        """Whether this call fails; counts it either way."""
        if self.service not in ("*", call.service) or self.action not in ("*", call.action):
            return False
        if self.kind == "expired-token" and self.match not in ("", call.access_key):
            return False
        self.seen += 1
        position = self.seen - self.after
        due = position > 0 and position % self.every == 0 and (self.times is None or self.fired < self.times)
        self.fired += due
        return due


def read_rules(content: Any) -> list[Rule]:
    """Rules from JSON. Raises ValueError for what is no rule."""
    if not isinstance(content, list):
        raise ValueError("need a list of rules")
    rules = []
    for entry in content:
        unknown = entry.keys() - KEYS
        if unknown or entry.get("kind") not in KINDS:
            raise ValueError(f"rule {entry}: keys {sorted(KEYS)}, kind one of {', '.join(KINDS)}")
        rules.append(Rule(**entry))
    return rules


class Faults:
    """The rules in force."""

    def __init__(self) -> None:
        self._rules: list[Rule] = []
        self._lock = threading.Lock()

    def replace(self, rules: Iterable[Rule]) -> None:
        with self._lock:
            self._rules = list(rules)

    def due(self, call: Call) -> Rule | None:
        """The rule that this call falls to, if any."""
        with self._lock:
            taken = [rule for rule in self._rules if rule.kind != "insufficient-capacity" and rule.takes(call)]
        return taken[0] if taken else None

    def capacity_fault(self, node_group: str, instance_types: Iterable[str]) -> str | None:
        """What has no capacity: the instance type or node group that a rule names, else None."""
        call = Call("eks", "CreateNodegroup", "", "")
        names = [*instance_types, node_group]
        with self._lock:
            for rule in self._rules:
                matched = [name for name in names if rule.match in ("", name)]
                if rule.kind == "insufficient-capacity" and matched and rule.takes(call):
                    return matched[0]
        return None


def faulty_answer(rule: Rule, call: Call) -> Answer | None:
    """The error of a rule; None for kinds that are not an answer (slow, timeout, partial)."""
    form = protocol(call.service)
    where = f"{call.service}:{call.action}"
    if rule.kind == "throttle":
        code = THROTTLED.get(call.service, "Throttling" if form == "query" else "ThrottlingException")
        status = 503 if call.service in THROTTLED else 400 if form in ("query", "json") else 429
        return refusal(call.service, status, code, "Request limit exceeded." if form == "ec2" else "Rate exceeded")
    if rule.kind == "access-denied":
        code = DENIED.get(call.service, DENIED.get(form, "AccessDeniedException"))
        message = f"You are not authorized to perform: {where} because no identity-based policy allows it"
        return refusal(call.service, 400 if form == "json" else 403, code, message)
    if rule.kind == "expired-token":
        return refusal(call.service, 403, *_expired(form))
    if rule.kind in ("server-error", "partial"):
        code = "InternalError" if form in ("ec2", "rest-xml") else "InternalFailure"
        return refusal(call.service, 500, code, "An internal error has occurred")
    return None


def _expired(form: str) -> tuple[str, str]:
    """Codes: `ExpiredToken` in the XML protocols, `RequestExpired` in EC2's, else `ExpiredTokenException`."""
    message = "The security token included in the request is expired"
    codes = {"query": "ExpiredToken", "rest-xml": "ExpiredToken", "ec2": "RequestExpired"}
    return codes.get(form, "ExpiredTokenException"), message
