"""A cluster's answers as its API server gave them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components.existing.found import Right


@dataclass(frozen=True)
class Answers:
    """The API server's answers. A list that could not be had is None and has a line in `unknown`."""

    version: Mapping[str, Any]
    nodes: Sequence[Mapping[str, Any]]
    pods: Sequence[Mapping[str, Any]] | None = None
    daemon_sets: Sequence[Mapping[str, Any]] | None = None
    deployments: Sequence[Mapping[str, Any]] | None = None
    services: Sequence[Mapping[str, Any]] | None = None
    storage_classes: Sequence[Mapping[str, Any]] | None = None
    claims: Sequence[Mapping[str, Any]] | None = None
    dra_api: str | None = None
    device_classes: Sequence[Mapping[str, Any]] = ()
    resource_slices: Sequence[Mapping[str, Any]] = ()
    rights: tuple[Right, ...] = ()
    unknown: tuple[str, ...] = ()
    namespace: str = "splitserve"
    leader_worker_sets: bool | None = None
    """Whether the cluster serves that kind; None: could not be asked."""
    topology_keys: tuple[str, ...] = ()
    """Labels of the user's own that say where a node stands."""
    operator_kinds: tuple[str, ...] | None = None
    """The Prometheus operator's kinds that the cluster serves, as in a URL; None: could not be asked."""
