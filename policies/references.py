"""Which resources of the stack a property points to, at preview too, when no id is known yet.

A known id names its resource. An unknown one can only be a resource that the property depends on: the
engine records those by property (pulumi pkg resource/deploy/step_generator.go, AnalyzeResources).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pulumi_policy import PolicyResource

from policies.unknown import known

IDENTITIES = ("id", "arn", "bucket", "name")
"""The outputs by which others name an AWS resource."""


@dataclass(frozen=True)
class Reference:
    """`resources` are the possible targets; more than one only at preview. `foreign` is an id of nothing here."""

    resources: tuple[PolicyResource, ...]
    foreign: str | None = None

    @property
    def certain(self) -> bool:
        return self.foreign is not None or len(self.resources) == 1

    def may_be(self, target: PolicyResource) -> bool:
        return any(resource.urn == target.urn for resource in self.resources)


class References:
    """Looks up references among the stack's resources."""

    def __init__(self, resources: Sequence[PolicyResource], *kinds: str) -> None:
        self._targets = [resource for resource in resources if resource.resource_type in kinds]

    def of(self, source: PolicyResource, key: str, read: Callable[[], Any]) -> Reference:
        """Where the value that `read` reads from the top-level property `key` points to."""
        depends_on = {found.urn for found in source.property_dependencies.get(key, [])}
        candidates = tuple(target for target in self._targets if target.urn in depends_on)
        value = known(read)
        if value is None:
            if not candidates:
                read()  # not given, or unknown and from elsewhere: that is raised
            return Reference(candidates)
        named = tuple(target for target in self._targets if value in identities(target))
        if named:
            return Reference(named)
        nameless = tuple(target for target in candidates if not identities(target))
        return Reference(nameless) if nameless else Reference((), str(value))


def given(resource: PolicyResource, key: str) -> Any:
    """A property of a stack rule's resource, None where nobody gave it.

    A preview also shows what only the provider computes, as unknown; such a property depends on nothing.
    """
    if resource.property_dependencies.get(key):
        return resource.props.get(key)
    return known(lambda: resource.props.get(key))


def identities(resource: PolicyResource) -> set[str]:
    """The names by which others may point to a resource, as far as they are known."""
    found = (known(lambda key=key: resource.props.get(key)) for key in IDENTITIES)
    return {str(value) for value in found if value}
