"""The ledger in the cluster, where a stack's outputs are not ours to keep it in.

A record as a release has one, replaced as a whole: an update that is killed leaves the ledger before or after it.
Pulumi's own ConfigMap would be deleted before it is made anew.
"""

from __future__ import annotations

from typing import Any

from pulumi.dynamic import CreateResult, DiffResult, ResourceProvider, UpdateResult

from components.release.cluster import Access, Cluster
from components.release.expectation import whole_numbers
from components.release.progress import engine_log

NAME = "splitserve-ledger"
"""The ConfigMap's name, in the namespace of what is served."""


class LedgerRecordProvider(ResourceProvider):
    """Writes `ledger`. Raises ClusterFault: an update must not end well whose ledger was lost."""

    def create(self, props: dict[str, Any]) -> CreateResult:
        _write(props)
        return CreateResult(f"{props['namespace']}/{NAME}", props)

    def update(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> UpdateResult:
        _write(_news)
        return UpdateResult(_news)

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> DiffResult:
        """Another namespace is another record."""
        moved = ["namespace"] if _olds.get("namespace") != _news.get("namespace") else []
        return DiffResult(changes=bool(moved) or _olds.get("ledger") != _news.get("ledger"), replaces=moved)

    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        try:
            Cluster(Access.of(_props)).remove_record(NAME)
        except Exception as error:  # the cluster may be gone: its records went with it
            engine_log(f"{_id} was left behind: {error}", warn=True)


def _write(props: dict[str, Any]) -> None:
    Cluster(Access.of(props)).record(NAME, whole_numbers(props["ledger"]))
