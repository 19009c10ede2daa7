"""What the EKS stand-in remembers, and the errors that it answers.

Shapes and names: botocore's `eks` model; messages as far as they are published
(https://docs.aws.amazon.com/eks/latest/APIReference/CommonErrors.html and each operation's page).
"""

from __future__ import annotations

import os
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

from tools.awsim.fault_rules import Faults

ACCOUNT = "123456789012"
"""moto's default account."""
SETTLE_S = float(os.environ.get("AWSIM_SETTLE_S", "0.3"))
"""How long something is CREATING, UPDATING or DELETING: enough to make a caller wait and ask again."""


class Refused(Exception):
    """AWS refuses a call: the error code, the message and the HTTP status."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status


def invalid(message: str) -> Refused:
    return Refused("InvalidParameterException", message)


def not_found(message: str) -> Refused:
    return Refused("ResourceNotFoundException", message, 404)


def in_use(message: str) -> Refused:
    return Refused("ResourceInUseException", message, 409)


@dataclass
class Thing:
    """Anything of EKS that takes a while to change: its API fields and what it is turning into."""

    fields: dict[str, Any]
    status: str = "CREATING"
    until: float = field(default_factory=lambda: time.monotonic() + SETTLE_S)
    failure: list[dict[str, Any]] = field(default_factory=list)
    issues: list[dict[str, Any]] = field(default_factory=list)
    """What is wrong with a thing that was made all right."""
    """Health issues it ends with instead of ACTIVE."""
    failed_status: str = "CREATE_FAILED"
    """What it is then; DEGRADED for what was ACTIVE before."""
    token: str = ""
    """The creating call's idempotency token."""

    def change(self, status: str) -> None:
        self.status, self.until = status, time.monotonic() + SETTLE_S

    @property
    def busy(self) -> bool:
        return time.monotonic() < self.until

    @property
    def gone(self) -> bool:
        return self.status == "DELETING" and not self.busy

    def settled_status(self) -> str:
        if self.busy:
            return self.status
        if self.failure:
            return self.failed_status
        if self.issues:
            return "DEGRADED"
        return "ACTIVE"


@dataclass
class Cluster(Thing):
    """A cluster and all that belongs to it."""

    node_groups: dict[str, Thing] = field(default_factory=dict)
    addons: dict[str, Thing] = field(default_factory=dict)
    access: dict[str, dict[str, Any]] = field(default_factory=dict)
    policies: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    """By principal, then by policy ARN."""
    associations: dict[str, dict[str, Any]] = field(default_factory=dict)
    updates: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.fields["name"]


@dataclass
class Region:
    """EKS of one region."""

    name: str
    faults: Faults
    endpoint: str | None = None
    """The local cluster's server and CA, where there is one."""
    authority: str | None = None
    clusters: dict[str, Cluster] = field(default_factory=dict)
    caller: str = ""
    """The ARN that makes the current call."""

    def cluster(self, name: str) -> Cluster:
        found = self.clusters.get(name)
        if found is None or found.gone:
            raise not_found(f"No cluster found for name: {name}.")
        return found

    def active_cluster(self, name: str) -> Cluster:
        found = self.cluster(name)
        if found.busy and found.status != "UPDATING":
            raise Refused("InvalidRequestException", f"Cluster '{name}' is not in ACTIVE status")
        return found

    def arn(self, kind: str, *parts: str) -> str:
        return f"arn:aws:eks:{self.name}:{ACCOUNT}:{kind}/" + "/".join(parts)


def now() -> float:
    """A timestamp as the rest-json protocol writes it: seconds since the epoch."""
    return round(time.time(), 3)


def new_id(prefix: str = "") -> str:
    return prefix + str(uuid.uuid4())


def update(cluster: Cluster, kind: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """The record that a change answers; done at once, as DescribeUpdate tells."""
    shown = [{"type": key, "value": str(value)} for key, value in parameters.items() if value is not None]
    record = {"id": new_id(), "status": "Successful", "type": kind, "params": shown, "createdAt": now(), "errors": []}
    cluster.updates[record["id"]] = record
    return {"update": record}
