"""Read the matrices that `nvidia-smi topo -m` and `nvidia-smi topo -p2p r` print. Pure.

nvidia-smi promises no form of its output, so that whatever is not as expected makes a matrix unreadable as a whole:
half a matrix would be taken for the other half. It underlines the head by escape codes, also into a pipe; columns
are divided by tabs or blanks, and a matrix of topo -m has columns of text behind those of the devices.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

LINKS = {
    "SYS": "PCIe and the interconnect between NUMA nodes",
    "NODE": "PCIe and the interconnect between host bridges of a NUMA node",
    "PHB": "PCIe and a host bridge",
    "PXB": "several PCIe bridges, no host bridge",
    "PIX": "one PCIe bridge at most",
}
"""The legend of topo -m, the farthest first; NV# is a bonded set of # NVLinks."""
PEER_STATES = {
    "OK": "supported",
    "CNS": "chipset not supported",
    "GNS": "GPU not supported",
    "TNS": "topology not supported",
    "NS": "not supported",
    "DR": "disabled by a registry key of the driver",
    "U": "unknown",
}
"""The legend of topo -p2p."""
NVLINK = re.compile(r"NV\d+")
DEVICE = re.compile(r"(?:GPU|NIC)\d+")
GPU = re.compile(r"GPU\d+")
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
NIC_NAME = re.compile(r"^\s*(NIC\d+):\s*(\S+)\s*$", re.MULTILINE)
SELF = "X"

Cells = Mapping[tuple[str, str], str]
"""By (row, column), without the diagonal."""


@dataclass(frozen=True)
class Links:
    """`nvidia-smi topo -m`: how devices are joined. `nics` has each NIC's own name."""

    cells: Cells
    nics: Mapping[str, str]

    @property
    def gpus(self) -> tuple[str, ...]:
        return _gpus(self.cells)

    def nearest_nics(self, gpu: str) -> tuple[tuple[str, str], ...]:
        """(name, link) of the NICs that are nearest to a GPU."""
        order = list(LINKS)
        found = {nic: self.cells[gpu, nic] for nic in self.nics}
        best = max((order.index(link) for link in found.values() if link in order), default=None)
        return tuple((self.nics[nic], link) for nic, link in found.items() if best is not None and link == order[best])


@dataclass(frozen=True)
class PeerAccess:
    """`nvidia-smi topo -p2p r`: whether the GPU of a row may read the memory of a column's."""

    cells: Cells

    @property
    def gpus(self) -> tuple[str, ...]:
        return _gpus(self.cells)


def read_links(text: str) -> Links | None:
    """The matrix of topo -m; None where there is none that can be read whole."""
    cells = _matrix(text, lambda cell: cell in LINKS or bool(NVLINK.fullmatch(cell)))
    if cells is None:
        return None
    names = dict(NIC_NAME.findall(ESCAPE.sub("", text)))
    nics = sorted({row for row, _ in cells if row.startswith("NIC")}, key=lambda nic: int(nic[3:]))
    return Links(cells, {nic: names.get(nic, nic) for nic in nics})


def read_peer_access(text: str) -> PeerAccess | None:
    """The matrix of topo -p2p; None where there is none that can be read whole."""
    cells = _matrix(text, lambda cell: cell in PEER_STATES)
    return None if cells is None else PeerAccess(cells)


def _matrix(text: str, known: Callable[[str], bool]) -> dict[tuple[str, str], str] | None:
    """The first matrix of a text whose cells are all `known`; one of a single device says nothing."""
    lines = ESCAPE.sub("", text).splitlines()
    for number, line in enumerate(lines):
        cells = _rows(lines[number + 1 :], columns) if (columns := _head(line)) else None
        if cells and all(known(cell) for cell in cells.values()):
            return cells
    return None


def _head(line: str) -> list[str]:
    """The devices of a head: they come first, and text may follow."""
    words = line.split()
    devices = [word for word in words if DEVICE.fullmatch(word)]
    starts = words[: len(devices)] == devices and "GPU0" in devices and len(set(devices)) == len(devices)
    return devices if starts else []


def _rows(lines: list[str], columns: list[str]) -> dict[tuple[str, str], str] | None:
    """A row for each column, in any order, and nothing else before the first line that is none."""
    cells: dict[tuple[str, str], str] = {}
    seen: set[str] = set()
    for line in lines:
        words = line.split()
        if not words or not DEVICE.fullmatch(words[0]):
            break
        name, row = words[0], words[1 : len(columns) + 1]
        if name not in columns or name in seen or len(row) < len(columns):
            return None
        seen.add(name)
        for column, cell in zip(columns, row, strict=True):
            if (column == name) != (cell == SELF):
                return None
            if column != name:
                cells[name, column] = cell
    return cells if seen == set(columns) else None


def _gpus(cells: Cells) -> tuple[str, ...]:
    return tuple(sorted({row for row, _ in cells if GPU.fullmatch(row)}, key=lambda gpu: int(gpu[3:])))
