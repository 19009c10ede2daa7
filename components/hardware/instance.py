"""What an EC2 GPU instance type is, as far as a plan needs to know. Pure.

Everything but `gpudirect` is what EC2's DescribeInstanceTypes answers
(https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_InstanceTypeInfo.html).
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

HUGEPAGES_2MI = 5128
"""2 MiB pages that a node with the EFA driver sets aside, 10,256 MiB for all of its pods (EKS user
guide, node-efa)."""

GPUDIRECT_RDMA = {"p4d": True, "p4de": True, "p5": True, "p5e": True, "p5en": True,
                  "p6-b200": True, "p6-b300": True, "p6e-gb200": True}  # fmt: skip
"""Families whose EFA reads and writes GPU memory by itself: p4d by the EKS user guide (node-efa), the
others by NVIDIA Dynamo's EKS guide (docs/kubernetes/cloud-providers/eks/efa.md). No source says it of
the G families: unknown, and the gate decides."""


GRAVITON = re.compile(r"[a-z]+\d+g[a-z]*\.")
"""A `g` after the generation's number (EC2 user guide, "Instance type naming conventions")."""


def architecture_of(name: str, found: Instance | None) -> str:
    """EC2's word, from the catalogue or, of CPU types, from the name."""
    if found:
        return found.architecture
    return "arm64" if GRAVITON.match(name) else "x86_64"


@dataclass(frozen=True)
class NetworkCard:
    """One network card: which kinds of interface it takes, how many, and its peak rate."""

    index: int
    interface_types: tuple[str, ...]
    max_interfaces: int
    gbit_per_s: float

    @property
    def takes_efa(self) -> bool:
        return "efa-only" in self.interface_types or "efa" in self.interface_types


@dataclass(frozen=True)
class Instance:
    """An instance type. None means unknown. `cards` is empty where AWS has published no layout."""

    name: str
    gpu: str
    gpus: int
    gpu_memory_mib: int | None
    architecture: str
    vcpus: int | None
    memory_mib: int | None
    nvme_gb: int | None
    network_gbit_per_s: float
    efa_interfaces: int
    cards: tuple[NetworkCard, ...]
    regions: tuple[str, ...]

    @property
    def family(self) -> str:
        return self.name.split(".")[0]

    @property
    def gpudirect(self) -> bool | None:
        return GPUDIRECT_RDMA.get(self.family) if self.efa_interfaces else False

    @property
    def hugepages_2mi(self) -> int:
        return HUGEPAGES_2MI if self.efa_interfaces else 0

    @property
    def gbit_per_s_per_gpu(self) -> float:
        """The node's rate shared by its GPUs: what one rank gets when all of them transfer."""
        return self.network_gbit_per_s / self.gpus

    def efa_per_gpu(self, gpus: int) -> int:
        """EFA interfaces for a pod of `gpus` GPUs: its share, at least one where there is any."""
        return max(1, self.efa_interfaces * gpus // self.gpus) if self.efa_interfaces else 0

    def to_json(self) -> dict[str, Any]:
        """As in instances.json: equal neighbouring cards are written once, with their count."""
        runs: list[dict[str, Any]] = []
        for card in self.cards:
            same = {"interface_types": list(card.interface_types), "max_interfaces": card.max_interfaces,
                    "gbit_per_s": card.gbit_per_s}  # fmt: skip
            if runs and {key: runs[-1][key] for key in same} == same:
                runs[-1]["count"] += 1
            else:
                runs.append({"count": 1, **same})
        return {**asdict(self), "cards": runs, "regions": list(self.regions)}

    @staticmethod
    def from_json(content: dict[str, Any]) -> Instance:
        cards: list[NetworkCard] = []
        for run in content["cards"]:
            for _ in range(run["count"]):
                kinds = tuple(run["interface_types"])
                cards.append(NetworkCard(len(cards), kinds, run["max_interfaces"], run["gbit_per_s"]))
        return Instance(**{**content, "cards": tuple(cards), "regions": tuple(content["regions"])})
