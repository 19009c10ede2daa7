"""How GPUs are joined and what moved the blocks: read from real outputs, and never better than what was said."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from components.topology.evidence import ASK_LINKS, ASK_PEERS, ASK_TRANSPORT, Gpus, Topology, read_topology
from components.topology.explain import asks_line, path_line, reason
from components.topology.local import ask_here, is_here
from components.topology.matrix import read_links, read_peer_access
from components.topology.transport import read_transports
from tests.unit.transports import CUDA_IPC, GDR, HOST, NOISE, OFFERED, PUT, SYSV, TCP

DATA = Path(__file__).resolve().parents[1] / "data/topology"
H100 = (DATA / "h100-8-topo-m.txt").read_text()
RTX = (DATA / "rtx5090-2.txt").read_text()
ALL_OK = (DATA / "p2p-ok-8.txt").read_text()
NVLINKED = {"m": H100, "p2p": ALL_OK}


def test_links_nics_and_peer_access_are_read_from_what_nvidia_smi_prints() -> None:
    links = read_links(H100)
    assert links is not None
    assert (len(links.gpus), links.cells["GPU3", "GPU4"], links.cells["GPU0", "NIC5"]) == (8, "NV18", "SYS")
    assert links.nearest_nics("GPU5") == (("mlx5_5", "PIX"),)
    peers = read_peer_access(ALL_OK)
    assert peers is not None and set(peers.cells.values()) == {"OK"} and len(peers.cells) == 56
    both = read_links(RTX), read_peer_access(RTX)
    assert both[0] is not None and both[0].cells == {("GPU0", "GPU1"): "PHB", ("GPU1", "GPU0"): "PHB"}
    assert both[1] is not None and both[1].cells["GPU1", "GPU0"] == "GNS"


def test_an_underlined_head_is_read_too() -> None:
    """nvidia-smi underlines it by escape codes, also into a pipe."""
    underlined = re.sub(r"(GPU0 .*GPU NUMA ID)", "\x1b[4m\\1\x1b[0m", H100)
    assert "\x1b[4m" in underlined and read_links(underlined) == read_links(H100)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text.replace("GPU7", "GPU9", 1),
        lambda text: "\n".join(text.splitlines()[:6]),
        lambda text: text.replace("GNS", "FOO").replace("NV18", "FOO").replace("OK", "FOO"),
        lambda text: text.replace(" X ", " OK ").replace("X  ", "OK "),
        lambda text: "\tGPU0\tCPU Affinity\nGPU0\t X \t0-63\n",
    ],
    ids=["empty", "renamed", "cut", "other-words", "no-self", "one-gpu"],
)
def test_what_is_not_a_whole_matrix_is_not_known(damage: Callable[[str], str]) -> None:
    found = read_topology({"m": damage(H100), "p2p": damage(ALL_OK)})
    assert (found.peer_access, found.link, found.unread) == ("not-known", "not-known", ("m", "p2p"))
    assert found.asks == (ASK_LINKS, ASK_PEERS, ASK_TRANSPORT)


def test_matrices_that_contradict_each_other_are_not_believed() -> None:
    other = ALL_OK.replace(" GPU0   X       OK", " GPU0   X       CNS")
    assert read_topology({"one": ALL_OK, "other": ALL_OK}).peer_access == "supported"
    assert read_topology({"one": ALL_OK, "other": other}).peer_access == "not-known"


def test_where_pairs_differ_the_tiers_gpus_must_be_named() -> None:
    mixed = ALL_OK.replace(" GPU0   X       OK", " GPU0   X       CNS")
    assert read_topology({"p2p": mixed}).peer_access == "not-known"
    assert read_topology({"p2p": mixed}, Gpus((2,), (3,))).peer_access == "supported"
    assert read_topology({"p2p": mixed}, Gpus((0,), (1,))).peer_access == "not-supported"
    assert read_topology({"p2p": mixed}, Gpus((1,), (0,))).peer_access == "not-supported", "one way is not enough"
    assert read_topology({"p2p": mixed}, Gpus((0,), (9,))).peer_access == "not-known"


@pytest.mark.parametrize(
    ("log", "path", "lanes"),
    [
        (CUDA_IPC, "peer-access", ("cuda_ipc/cuda",)),
        (GDR, "gpudirect-rdma", ("rc_mlx5/ibp3:1",)),
        (TCP, "tcp", ("tcp/bond0",)),
        (SYSV, "host-staged", ("sysv/memory",)),
        (HOST, "host-memory", ("tcp/eth0",)),
        (PUT, "peer-access", ("cuda_ipc/cuda",)),
    ],
)
def test_what_moved_the_blocks_is_read_from_the_widest_range(log: str, path: str, lanes: tuple[str, ...]) -> None:
    [one] = read_transports("decode", log.splitlines())
    assert (one.path, one.lanes) == (path, lanes)
    assert lanes[0] in one.line


def test_what_is_merely_offered_moved_nothing() -> None:
    assert read_transports("decode", (OFFERED + NOISE).splitlines()) == []
    assert read_topology({"decode": OFFERED + NOISE}).path == "not-known"


def test_tables_of_two_processes_in_one_log_are_kept_apart() -> None:
    one, other = CUDA_IPC.splitlines(), TCP.splitlines()
    mixed = [line for pair in zip(one, other, strict=True) for line in pair]
    assert {t.path for t in read_transports("decode", mixed)} == {"peer-access", "tcp"}
    assert read_topology({"decode": "\n".join(mixed)}).path == "tcp", "the slowest counts"


def test_a_little_from_the_hosts_memory_does_not_hide_the_gpus_way() -> None:
    assert read_topology({"decode": HOST + CUDA_IPC}).path == "peer-access"


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("W1130 libfabric_rail.cpp:10] VRAM memory requested but provider does not support FI_HMEM - falling back", "host-staged"),
        ("I1130 libfabric_rail_manager.cpp:88] Creating 4 rails using provider=tcp;ofi_rxm", "tcp"),
        ("I1130 libfabric_rail_manager.cpp:88] Creating 4 rails using provider=efa", "not-known"),
    ],
)  # fmt: skip
def test_libfabric_says_by_its_provider_and_by_what_it_can_not(line: str, path: str) -> None:
    assert read_topology({"decode": line}).path == path


def test_tcp_beside_nvlink_says_that_peer_access_is_not_used_and_how_to_mend_it() -> None:
    found = reason("slow-link", read_topology({**NVLINKED, "decode": TCP}))
    assert found is not None
    assert found.found.startswith("peer access not used: tcp/bond0 (software emulation) moved the blocks by TCP")
    assert "the GPUs support it, by NV18" in found.found
    assert found.fix.startswith("fix peer access: remove UCX_TLS")


def test_pcie_whose_peers_are_reachable_needs_the_read_over_cuda_ipc_switched_on() -> None:
    pcie = {"m": H100.replace("NV18", "PIX "), "p2p": ALL_OK, "decode": SYSV}
    found = reason("slow-link", read_topology(pcie))
    assert found is not None and "UCX_CUDA_IPC_ENABLE_GET_ZCOPY=on" in found.fix


def test_gpus_without_peer_access_say_so_with_and_without_a_log() -> None:
    for texts in ({"two": RTX}, {"two": RTX, "decode": TCP}):
        found = reason("slow-link", read_topology(texts))
        assert found is not None
        assert "GPU0-GPU1 GNS (GPU not supported)" in found.found
        assert found.fix.startswith("fix peer access: put both tiers on GPUs with peer access")


def test_between_hosts_it_is_rdma_that_is_missing() -> None:
    found = reason("slow-link", read_topology({"decode": TCP.replace("intra-node", "inter-node")}))
    assert found is not None and found.found.startswith("RDMA not used: tcp/bond0") and found.fix.startswith("fix RDMA")


def test_where_it_is_not_known_whether_it_was_one_host_neither_is_blamed_alone() -> None:
    provider = "I1130 libfabric_rail_manager.cpp:88] Creating 4 rails using provider=tcp;ofi_rxm"
    mixed = TCP + TCP.replace("intra-node", "inter-node")
    for log in (provider, mixed):
        found = reason("slow-link", read_topology({"decode": log}))
        assert found is not None and found.found.startswith("neither peer access nor RDMA used: ")
        assert "on one host fix peer access" in found.fix and "between hosts fix RDMA" in found.fix


def test_of_several_ways_the_slow_one_is_named_with_its_own_place() -> None:
    logs = {"decode": TCP.replace("intra-node", "inter-node") + CUDA_IPC}
    found = reason("slow-link", read_topology(logs))
    assert found is not None and found.found.startswith("RDMA not used: tcp/bond0") and "cuda_ipc" not in found.found


@pytest.mark.parametrize("cause", ["fast", "fragmented-cache", "wrong-bytes", "never-disaggregated"])
def test_no_other_cause_is_explained_by_the_way(cause: str) -> None:
    assert reason(cause, read_topology({"two": RTX, "decode": TCP})) is None


def test_a_slow_link_over_peer_access_or_an_unknown_way_is_not_blamed_on_peer_access() -> None:
    assert reason("slow-link", read_topology({**NVLINKED, "decode": CUDA_IPC})) is None
    assert reason("slow-link", read_topology(NVLINKED)) is None
    assert reason("slow-link", Topology()) is None


def test_what_is_not_known_is_said_and_asked_for() -> None:
    assert "in a way that is not known" in path_line(Topology())
    assert "peer access not known" in path_line(Topology())
    asked = asks_line(Topology())
    assert asked is not None and all(part in asked for part in (ASK_LINKS, ASK_PEERS, ASK_TRANSPORT, "--topology FILE"))
    whole = read_topology({**NVLINKED, "decode": CUDA_IPC}, Gpus((0,), (4,)))
    assert asks_line(whole) is None
    assert path_line(whole) == (
        "blocks went from GPU to GPU by peer access: cuda_ipc/cuda (zero-copy); GPUs joined by NV18, peer access supported; "
        "nearest NICs GPU0 mlx5_0 (PIX), GPU4 mlx5_4 (PIX)"
    )
    between_hosts = read_topology({"decode": GDR.replace("intra-node", "inter-node")})
    assert asks_line(between_hosts) is None, "peer access is of no use between hosts"


def test_this_machines_own_tool_is_asked_where_all_engines_run_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f'#!/bin/sh\nif [ "$2" = -m ]; then cat {DATA}/h100-8-topo-m.txt; else exit 9; fi\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    here, there = "http://127.0.0.1:8000", "http://192.0.2.1:8000"
    assert ask_here([here, there]) == {}
    assert list(ask_here([here])) == [ASK_LINKS], "what fails is left out"
    assert read_topology(ask_here([here])).link == "NV18"
    monkeypatch.setenv("PATH", "/nowhere")
    assert ask_here([here]) == {}


def test_only_addresses_of_this_machine_are_here() -> None:
    assert is_here("http://127.0.0.1:8000")
    assert not is_here("http://192.0.2.1:8000")
    assert not is_here("http://no such host:8000")
