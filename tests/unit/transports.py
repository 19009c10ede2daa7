"""What UCX prints of the way that blocks go, in the form of its protocol tables. Sources beside each."""

from __future__ import annotations

PREFIX = "[1787639312.152701] [decode-0:{pid}:0]   "


def table(operation: str, rows: list[tuple[str, str, str]], *, place: str = "intra-node", pid: int = 4711) -> str:
    """A table as UCX 1.22 prints it (ucp/proto/proto_debug.c), each line with its time and process."""
    edge = "+" + "-" * 32 + "+" + "-" * 40 + "+"
    head = f"| ucp_context_0 {place} cfg#2 | {operation} |"
    lines = [edge, head, edge, *(f"| {size:>30} | {how:<22} | {lanes} |" for size, how, lanes in rows), edge]
    return "".join(f"{PREFIX.format(pid=pid)}{line}\n" for line in lines)


READ = "remote memory read by ucp_get*(multi) into cuda/GPU2 from cuda/dev[0]"
CUDA_IPC = table(READ, [("0", "copy-out", "rc_mlx5/mlx5_2:1/path0"), ("1..inf", "zero-copy", "cuda_ipc/cuda")])
"""As in a report of a GB200's decoder; the first row is of no bytes at all."""
GDR = table(READ.replace("GPU2", "GPU3"), [
    ("0", "copy-out", "rc_mlx5/ibp3:1/path0"),
    ("1..64", "software emulation", "rc_mlx5/ibp3:1/path0"),
    ("65..inf", "zero-copy", "rc_mlx5/ibp3:1 50% on path0 and 50% on path1"),
])  # fmt: skip
"""As a decoder of Dynamo printed it on one node whose GPUs are kept apart by Kubernetes."""
TCP = table(READ.replace("cuda", "rocm"), [
    ("0", "copy-out", "tcp/bond0"), ("1..inf", "software emulation", "tcp/bond0"),
], pid=4712)  # fmt: skip
"""https://github.com/ai-dynamo/nixl/issues/2039"""
SYSV = table(READ, [("0..inf", "software emulation", "sysv/memory")])
"""https://github.com/ai-dynamo/nixl/issues/1097: without NVLink UCX does not read over cuda_ipc."""
HOST = table("remote memory read by ucp_get*(multi) into host memory from host", [("0..inf", "zero-copy", "tcp/eth0")])
PUT = table(
    "remote memory write by ucp_put*(multi) from cuda/GPU0 to cuda/dev[1]", [("0..inf", "zero-copy", "cuda_ipc/cuda")]
)
NOISE = table("remote memory write by ucp_put*(fast-completion) from host memory to cuda/dev[0]", [
    ("0..2K", "short", "rc_mlx5/mlx5_0:1/path0"), ("9384..inf", "zero-copy", "rc_mlx5/mlx5_0:1 50% on path0 and 50% on path1"),
]) + table("active message by ucp_am_send* with reply flag(fast-completion) from host memory", [
    ("8177..inf", "multi-frag zero-copy", "rc_mlx5/mlx5_0:1/path0"),
])  # fmt: skip
"""https://github.com/ai-dynamo/nixl/issues/1195: beside the blocks' own."""
OFFERED = (
    "[1765333150.098983] [host:1570878:2] ucp_worker.c:1912 UCX  INFO    ucp_context_0 intra-node cfg#2 rma_am(tcp/eth1)  "
    "amo_am(tcp/eth1)  am(tcp/eth1 tcp/eth6 cuda_ipc/cuda)  ka(tcp/eth1)\n"
)
"""https://github.com/openucx/ucx/issues/11046: what an endpoint has."""
