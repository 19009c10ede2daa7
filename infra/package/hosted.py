"""Resources that the package's plugin makes itself: a release's own in place of dynamic ones, and what it adds.

Pulumi's plugin for dynamic resources would run the Python on PATH, which in another language's project knows
nothing of splitserve. A type here has the provider of the dynamic resource of the same name, so that both do the
same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pulumi
from pulumi.dynamic import ResourceProvider

from components.release.drain import DrainProvider
from components.release.fleet import FleetCheckProvider
from components.release.gate import KvGateProvider
from components.release.kinds import Inputs, Kinds
from components.release.ledger_record import LedgerRecordProvider
from infra.naming import PROJECT
from infra.package.admission import AdmissionProvider
from infra.package.version import VERSION

NAMES = ("KvGate", "FleetCheck", "Drain", "Ledger", "Admission")
GATE, FLEET, DRAIN, LEDGER, ADMISSION = (f"{PROJECT}:release:{name}" for name in NAMES)
PROVIDERS: dict[str, ResourceProvider] = {
    GATE: KvGateProvider(),
    FLEET: FleetCheckProvider(),
    DRAIN: DrainProvider(),
    LEDGER: LedgerRecordProvider(),
    ADMISSION: AdmissionProvider(),
}
"""By the resource's type, what carries it out."""


class Hosted(pulumi.CustomResource):
    """Any of them; `answers` are the outputs that it gives beside its inputs."""

    def __init__(self, kind: str, name: str, inputs: Inputs, opts: pulumi.ResourceOptions, *answers: str) -> None:
        own = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(version=VERSION))
        super().__init__(kind, name, {**inputs, **dict.fromkeys(answers)}, own)


def _kind(token: str, *answers: str) -> Callable[[str, Inputs, pulumi.ResourceOptions], Any]:
    return lambda name, inputs, opts: Hosted(token, name, inputs, opts, *answers)


HOSTED = Kinds(
    gate=cast(Any, _kind(GATE, "verdict", "evidence")),
    fleet=cast(Any, _kind(FLEET, "verdict")),
    drain=cast(Any, _kind(DRAIN, "drained")),
)
