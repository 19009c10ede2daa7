"""What is known of the way that the blocks went, beside a check's result. Pure."""

from __future__ import annotations

from dataclasses import replace

from components.check.result import Result
from components.topology.evidence import Topology
from components.topology.explain import reason

UNREAD = (
    "found no matrix of `nvidia-smi topo` that is whole, and no line that names a transport: nothing is known from it"
)


def with_topology(result: Result, topology: Topology) -> Result:
    """The result with its topology; a slow transfer says why it was slow, as far as that tells. The outcome stays."""
    notes = (*result.notes, *(f"{name}: {UNREAD}" for name in topology.unread))
    result = replace(result, topology=topology, notes=notes)
    found = reason(result.cause, topology)
    if found is None:
        return result
    return replace(result, message=f"{result.message}; {found.found}", fix=found.fix)
