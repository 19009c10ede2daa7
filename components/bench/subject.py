"""What is measured: the live release of one stack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from components.release.release import Release
from components.serving.gateway import KEY
from components.serving.spec import NOT_ENGINES

GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")


@dataclass(frozen=True)
class Subject:
    """`url` is the front door inside the cluster; `sizes` are the replicas of each tier."""

    stack: str
    release: Release
    url: str
    sizes: Mapping[str, int]

    @property
    def topology(self) -> str:
        return self.release.expectation.topology

    @property
    def engines(self) -> int:
        return sum(self.sizes.get(tier, 0) for tier in self.release.pods if tier not in NOT_ENGINES)

    @property
    def gpus(self) -> int:
        """0 where engines ask for none by count: on CPUs, or by device claims."""
        return sum(
            _gpus(pod) * self._pods_an_engine(tier) * self.sizes.get(tier, 0) for tier, pod in self.release.pods.items()
        )

    def _pods_an_engine(self, tier: str) -> int:
        return int(self.release.groups[tier]["size"]) if tier in self.release.groups else 1

    @property
    def units(self) -> tuple[int, str]:
        """What the hardware is counted in, for comparison: GPUs, else engines."""
        return (self.gpus, "GPU") if self.gpus else (self.engines, "engine")

    @property
    def key_secret(self) -> tuple[str, str] | None:
        """The Secret, and the key in it, that opens the release's own front door; None where it is open."""
        secret = self.release.expectation.api_key_secret
        return (secret, KEY) if secret else None

    def describe(self) -> str:
        tiers = " + ".join(f"{self.sizes.get(tier, 0)} {tier}" for tier in self.release.engine_tiers)
        return f"{self.topology}: {tiers}" + (f", {self.gpus} GPUs" if self.gpus else "")


def _gpus(pod: dict[str, Any]) -> int:
    requests = pod["containers"][0].get("resources", {}).get("requests", {})
    return sum(int(requests.get(name, 0)) for name in GPU_RESOURCES)
