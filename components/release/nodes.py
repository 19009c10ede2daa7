"""What a release switch may ask of a platform that makes nodes: start a release's, stop them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import pulumi


class Nodes(Protocol):
    """Node groups by name, with how many nodes each is to have."""

    def start(
        self, wanted: Mapping[str, int], opts: pulumi.ResourceOptions
    ) -> tuple[pulumi.Resource, pulumi.Output[str | None]]:
        """Start them. Returns what to wait for, and why they did not start (None: they did)."""
        ...

    def stop(self, wanted: pulumi.Input[Mapping[str, int]], opts: pulumi.ResourceOptions) -> pulumi.Resource:
        """Set the sizes once it is known which nodes are still needed."""
        ...

    def group(self, generation: Mapping[str, object]) -> tuple[str, int]:
        """The node group of a release's generation, and its full size."""
        ...
