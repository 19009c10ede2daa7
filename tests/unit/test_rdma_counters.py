"""The exporter of RDMA counters, on folders as the kernel lays them out, and its DaemonSet."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from components.nodes.rdma_counters import PORT, RdmaCountersArgs, render
from components.nodes.rdma_counters_exporter import page, server


def devices(folder: Path) -> Path:
    """One EFA device (hw_counters of its port) and one InfiniBand device (both kinds)."""
    files = {
        "rdmap16s27/ports/1/hw_counters/tx_bytes": "4096\n",
        "rdmap16s27/ports/1/hw_counters/lifespan": "12\n",
        "mlx5_0/ports/1/counters/port_xmit_data": "1024\n",
        "mlx5_0/ports/1/hw_counters/out_of_sequence": "3\n",
        "mlx5_0/ports/1/counters/broken": "N/A (no PMA)\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def samples(text: str) -> dict[tuple[str, ...], float]:
    """Read by Prometheus's own parser."""
    families = text_string_to_metric_families(text)
    return {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}


def test_every_counter_of_every_device_is_on_the_page(tmp_path: Path) -> None:
    assert samples(page(devices(tmp_path))) == {
        ("rdma_devices",): 2,
        ("rdma_unreadable_counters",): 1,
        ("rdma_counter_total", "rdmap16s27", "1", "tx_bytes"): 4096,
        ("rdma_counter_total", "mlx5_0", "1", "port_xmit_data"): 1024,
        ("rdma_counter_total", "mlx5_0", "1", "out_of_sequence"): 3,
    }


def test_a_node_without_rdma_says_so(tmp_path: Path) -> None:
    assert samples(page(tmp_path / "absent"))[("rdma_devices",)] == 0


def test_the_page_is_served_and_read_anew(tmp_path: Path) -> None:
    found = server(0, devices(tmp_path))
    threading.Thread(target=found.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{found.server_port}"
    try:
        for value in (4096, 8192):
            (tmp_path / "rdmap16s27/ports/1/hw_counters/tx_bytes").write_text(f"{value}\n")
            text = urllib.request.urlopen(f"{base}/metrics", timeout=5).read().decode()
            assert samples(text)[("rdma_counter_total", "rdmap16s27", "1", "tx_bytes")] == value
        assert urllib.request.urlopen(f"{base}/health", timeout=5).status == 200
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(f"{base}/else", timeout=5)
    finally:
        found.shutdown()
        found.server_close()


def test_its_pods_have_no_privilege_and_live_in_the_stack_s_own_namespace() -> None:
    manifest = render(RdmaCountersArgs("o.splitserve.s", "team", "image@sha256:0", 0))
    pod = manifest["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert manifest["metadata"]["namespace"] == "team" and "priorityClassName" not in pod
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]} and not pod["volumes"]
    assert container["command"][-2] == str(PORT) and "hostNetwork" not in pod
