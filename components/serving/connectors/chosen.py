"""A connector as the stack file chooses it, before anything of a tier is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Chosen:
    """One connector, or one inside another.

    `options` become its `kv_connector_extra_config`. `cpu_gib` is the host memory that it may fill with KV
    cache, in GiB for one engine with all of its ranks. `module` and `class_name` name a connector of one's
    own, `inner` what a MultiConnector holds, in order.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    cpu_gib: float | None = None
    module: str | None = None
    class_name: str | None = None
    inner: tuple[Chosen, ...] = ()

    @property
    def parts(self) -> tuple[Chosen, ...]:
        """The connectors that do something: those inside, or itself."""
        return self.inner if self.name == "multi" else (self,)

    def with_options(self, own: Mapping[str, Any]) -> Chosen:
        """The same with a tier's options over its own; with `multi` these are by the name of a connector inside."""
        if self.name != "multi":
            return replace(self, options={**self.options, **own})
        return replace(self, inner=tuple(one.with_options(_mapping(own.get(one.name))) for one in self.inner))


def _mapping(value: Any) -> Mapping[str, Any]:
    """Nothing where the stack file has something else than options: the rules refuse it."""
    return value if isinstance(value, Mapping) else {}
