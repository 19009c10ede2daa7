"""Links between a prefill and a decode GPU, and what is known of the time that KV takes over them. Pure.

    time = base + bytes of a rank / (line rate x efficiency) + descriptors x cost of one

Each constant carries its source; one that nobody measured says so, and a figure that rests on it is an
estimate (`unmeasured` lists them). NVLink's were measured by this project (docs/measurements).
"""

from __future__ import annotations

from dataclasses import dataclass

from components.hardware.instance import Instance

NVLINK_MEASURED = "2 x H200, vLLM 0.30.0, NIXL 1.4.1, cuda_ipc (docs/measurements/nvlink-h200.md)"
UNMEASURED = "unmeasured"


@dataclass(frozen=True)
class Constant:
    """A figure and where it is from."""

    value: float
    source: str

    @property
    def measured(self) -> bool:
        return not self.source.startswith(UNMEASURED)


BASE_MS = Constant(1.3, NVLINK_MEASURED)
DESCRIPTOR_US = Constant(3.4, NVLINK_MEASURED)
ASSUMED_BASE_MS = Constant(1.3, f"{UNMEASURED} here; NVLink's figure")
ASSUMED_DESCRIPTOR_US = Constant(3.4, f"{UNMEASURED} here; NVLink's figure, posting is CPU work in both")
FULL_RATE = Constant(1.0, f"{UNMEASURED}: the line rate, which no transfer exceeds")


@dataclass(frozen=True)
class Link:
    """A path between two GPUs. `gb_per_s` is the rate that one rank gets, in 10^9 bytes per second."""

    name: str
    gb_per_s: float
    rate_source: str
    efficiency: Constant = FULL_RATE
    base_ms: Constant = ASSUMED_BASE_MS
    descriptor_us: Constant = ASSUMED_DESCRIPTOR_US

    @property
    def effective_gb_per_s(self) -> float:
        return self.gb_per_s * self.efficiency.value

    @property
    def unmeasured(self) -> tuple[str, ...]:
        """The names of the constants that rest on an assumption."""
        named = {"efficiency": self.efficiency, "base": self.base_ms, "cost per descriptor": self.descriptor_us}
        return tuple(name for name, constant in named.items() if not constant.measured)


def _line_rate(name: str, gbit_per_s: float, source: str) -> Link:
    return Link(name, gbit_per_s / 8, source)


PROFILES: dict[str, Link] = {
    link.name: link
    for link in (
        Link("nvlink", 392.0, NVLINK_MEASURED, Constant(1.0, NVLINK_MEASURED), BASE_MS, DESCRIPTOR_US),
        Link("pcie-p2p", 25.0, "PCIe 4.0 x16: 31.5 GB/s by its specification, about 25 GB/s of payload"),
        _line_rate("ib-ndr", 400, "InfiniBand NDR, 4 lanes (InfiniBand Trade Association roadmap)"),
        _line_rate("ib-hdr", 200, "InfiniBand HDR, 4 lanes (InfiniBand Trade Association roadmap)"),
        _line_rate("roce-400", 400, "400 Gbit/s Ethernet, one port a GPU"),
        _line_rate("roce-200", 200, "200 Gbit/s Ethernet, one port a GPU"),
        _line_rate("roce-100", 100, "100 Gbit/s Ethernet, one port a GPU"),
        # 117.4 MB in 318 ms and 469.8 MB in 1,320 ms: proportional to bytes, whatever the pieces.
        Link("tcp", 0.36, "UCX tcp,cuda_copy between 2 x H200, vLLM 0.30.0 (docs/measurements/nvlink-h200.md)",
             Constant(1.0, NVLINK_MEASURED), Constant(0.0, NVLINK_MEASURED), Constant(0.0, NVLINK_MEASURED)),
    )
}  # fmt: skip
"""On-premises links by name. For InfiniBand and RoCE: one port a GPU."""

UCX_ON_EFA_GB_PER_S = 0.3
"""NIXL's default backend on EFA (https://github.com/ray-project/ray/pull/62339; nixl issue 1021: 0.324)."""


def efa_link(instance: Instance, backend: str) -> Link:
    """EFA as one rank of a fully used node sees it. UCX doesn't reach GPU memory over EFA."""
    source = f"{instance.name}: {instance.network_gbit_per_s:g} Gbit/s over {instance.gpus} GPUs (EC2)"
    if backend == "UCX":
        return Link(f"efa {instance.name}, UCX", UCX_ON_EFA_GB_PER_S, "ray pull request 62339, nixl issue 1021",
                    Constant(1.0, "measured there"))  # fmt: skip
    return _line_rate(f"efa {instance.name}", instance.gbit_per_s_per_gpu, source)
