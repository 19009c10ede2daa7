"""Read from an engine's log which transport moved the blocks: the one that was chosen, not those that were offered. Pure.

UCX prints a table for each kind of transfer that it is first asked for, with UCX_LOG_LEVEL=info and UCX_PROTO_INFO=y
(ucx 1.22 `ucp/proto/proto_debug.c`): an operation, then a row for each range of sizes, with how it is done and over
which lanes. NIXL pulls by `ucp_get` and pushes by `ucp_put`; blocks are in the widest range, which ends at `inf`. A
line such as `am(tcp/eth0 … cuda_ipc/cuda)` names what an endpoint has, and says nothing of what moved the blocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Path = Literal["peer-access", "gpudirect-rdma", "host-staged", "tcp", "host-memory", "not-known"]
"""How a transfer goes: GPU to GPU on one host; GPU to NIC to NIC to GPU; by the host's memory; by TCP, which is by the
host's memory too; between buffers that are in the host's memory already; or nobody said."""

PROCESS = re.compile(r"\[[^\]\s]+:(\d+)\s*:\d+\s*\]")
OPERATION = re.compile(r"remote memory (read by ucp_get|write by ucp_put)\S*\s+(.*?)\s*(?:\||$)")
ROW = re.compile(r"\|\s*\d[\w.]*?\.\.inf\s*\|\s*([^|]+?)\s*\|\s*([^|]+?)\s*(?:\||$)")
PLACE = re.compile(r"\b(intra-node|inter-node|self)\b")
LANE = re.compile(r"\b([a-z][a-z0-9_]*)/([\w.-]+(?::\d+)?)")
GPU_MEMORY = ("cuda", "rocm", "ze/")
PEER = ("cuda_ipc", "rocm_ipc", "ze_ipc")
RDMA = ("rc", "dc", "ud", "srd", "gga", "ib")
BY_HOST = ("software emulation", "host", "cuda_copy", "rocm_copy", "copy-in", "copy-out", "gdr_copy")
LIBFABRIC = re.compile(r"rails using provider=\s*([\w.;-]+)|network devices from topology for provider=\s*([\w.;-]+)")
NO_GPU_MEMORY = ("provider does not support FI_HMEM", "retrying without FI_HMEM")


@dataclass(frozen=True)
class Transport:
    """`lanes` moved GPU memory (or, for a CPU engine, the host's) in the way that `how` says; `line` says so."""

    where: str
    operation: str
    place: str
    lanes: tuple[str, ...]
    how: str
    path: Path
    line: str


@dataclass
class _Table:
    operation: str
    memory: str
    place: str

    @property
    def gpus(self) -> int:
        """How many of its two ends are a GPU's memory."""
        return sum(self.memory.count(kind) for kind in GPU_MEMORY)

    @property
    def whole(self) -> bool:
        """Whether it may be of blocks: both ends on GPUs, or both on the host."""
        return self.gpus != 1


def read_transports(where: str, lines: Iterable[str]) -> list[Transport]:
    """What the log of `where` says of the transfers of blocks, each kind once."""
    tables: dict[str, _Table] = {}
    found: dict[tuple[str, ...], Transport] = {}
    for line in lines:
        process = match[1] if (match := PROCESS.search(line)) else ""
        if operation := OPERATION.search(line):
            place = match[1] if (match := PLACE.search(line)) else ""
            tables[process] = _Table(operation[1].split()[-1], operation[2], place)
        elif (row := ROW.search(line)) and (table := tables.pop(process, None)) and table.whole:
            one = _of_table(where, table, row[1], row[2], line)
            found.setdefault((one.operation, one.place, *one.lanes, one.how), one)
        elif one := _of_libfabric(where, line):
            found.setdefault((one.operation, *one.lanes, one.how), one)
    return _of_blocks(list(found.values()))


def _of_blocks(found: list[Transport]) -> list[Transport]:
    """Those between GPUs where there are any: an engine on GPUs sends a little from the host's memory as well."""
    return [one for one in found if one.path != "host-memory"] or found


def _of_table(where: str, table: _Table, how: str, lanes: str, line: str) -> Transport:
    names = tuple(dict.fromkeys(f"{transport}/{device}" for transport, device in LANE.findall(lanes)))
    return Transport(where, table.operation, table.place, names, how, _path(table, how, names), _short(line))


def _path(table: _Table, how: str, lanes: tuple[str, ...]) -> Path:
    """By the lanes' transports; RDMA reads a GPU's memory itself only where nothing is copied on the way."""
    transports = [lane.partition("/")[0] for lane in lanes]
    if not table.gpus:
        return "host-memory"
    if not transports:
        return "not-known"
    if "tcp" in transports:
        return "tcp"
    if any(words in how for words in BY_HOST):
        return "host-staged"
    if all(transport in PEER for transport in transports):
        return "peer-access"
    if all(transport.split("_")[0] in RDMA for transport in transports):
        return "gpudirect-rdma"
    return "host-staged"


def _of_libfabric(where: str, line: str) -> Transport | None:
    """NIXL's LIBFABRIC backend says its provider, with NIXL_LOG_LEVEL=info, and warns where GPU memory is out of its
    reach (nixl 1.4.1 `libfabric_rail.cpp`). Its provider alone does not say that GPU memory was reached."""
    if any(text in line for text in NO_GPU_MEMORY):
        return Transport(where, "libfabric", "", (), "without FI_HMEM", "host-staged", _short(line))
    provider = LIBFABRIC.search(line)
    if provider is None:
        return None
    name = provider[1] or provider[2]
    path: Path = "tcp" if name.startswith(("tcp", "sockets")) else "not-known"
    return Transport(where, "libfabric", "", (f"libfabric/{name}",), "provider", path, _short(line))


def _short(line: str) -> str:
    return " ".join(line.split())[-300:]
