"""A release's own resources, made by the package's plugin in place of Pulumi's for dynamic ones.

That one would run the Python on PATH, which in another language's project knows nothing of splitserve. A type
here has the provider of the dynamic resource of the same name, so that both do the same.
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
from infra.naming import PROJECT

GATE, FLEET, DRAIN = (f"{PROJECT}:release:{name}" for name in ("KvGate", "FleetCheck", "Drain"))
PROVIDERS: dict[str, ResourceProvider] = {GATE: KvGateProvider(), FLEET: FleetCheckProvider(), DRAIN: DrainProvider()}
"""By the resource's type, what carries it out."""


class Hosted(pulumi.CustomResource):
    """Any of them; `answers` are the outputs that it gives beside its inputs."""

    def __init__(self, kind: str, name: str, inputs: Inputs, answers: tuple[str, ...], version: str,
                 opts: pulumi.ResourceOptions) -> None:  # fmt: skip
        own = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(version=version))
        super().__init__(kind, name, {**inputs, **dict.fromkeys(answers)}, own)


def hosted(version: str) -> Kinds:
    """Kinds that the plugin of this version makes."""

    def kind(token: str, *answers: str) -> Callable[[str, Inputs, pulumi.ResourceOptions], Any]:
        return lambda name, inputs, opts: Hosted(token, name, inputs, answers, version, opts)

    return Kinds(
        gate=cast(Any, kind(GATE, "verdict", "evidence")),
        fleet=cast(Any, kind(FLEET, "verdict")),
        drain=cast(Any, kind(DRAIN, "drained")),
    )
