"""The resources of a release that are Python of ours: by whose plugin they are made.

The stack's own program makes them dynamic resources, which Pulumi's plugin runs by the Python that runs the
program. A program in another language has no such Python: there the package's own plugin makes them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pulumi

from components.release.drain import Drain
from components.release.fleet import FleetCheck
from components.release.gate import KvGate

Inputs = dict[str, pulumi.Input[Any]]


@dataclass(frozen=True)
class Kinds:
    """What declares each kind, from a name, inputs and options."""

    gate: Callable[[str, Inputs, pulumi.ResourceOptions], KvGate]
    fleet: Callable[[str, Inputs, pulumi.ResourceOptions], FleetCheck]
    drain: Callable[[str, Inputs, pulumi.ResourceOptions], Drain]


DYNAMIC = Kinds(KvGate, FleetCheck, Drain)
