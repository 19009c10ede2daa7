"""The exporter that `rdma_counters.py` runs on nodes: RDMA devices' own counters, for Prometheus.

Runs in a pod on the engines' image, on the standard library alone. Arguments: a port, and the folder
of RDMA devices (the kernel's /sys/class/infiniband, for EFA, InfiniBand and RoCE alike). Each page is
read anew; a counter that can't be read is left out and counted.
"""

import http.server
import sys
from pathlib import Path

FOLDERS = ("ports/*/hw_counters", "ports/*/counters", "hw_counters")
"""Of one device, the kernel's Documentation/ABI/stable/sysfs-class-infiniband at 6.12. EFA has the first
(EC2 user guide, "Monitor an Elastic Fabric Adapter")."""
NOT_A_COUNTER = {"lifespan"}
"""How long the kernel keeps a read value, in ms."""


def counters(devices):
    """[(device, port or "", counter, value)] and how many could not be read."""
    found, unreadable = [], 0
    for pattern in FOLDERS:
        for file in sorted(devices.glob(f"*/{pattern}/*")):
            if file.name in NOT_A_COUNTER:
                continue
            parts = file.relative_to(devices).parts
            port = parts[2] if parts[1] == "ports" else ""
            try:
                found.append((parts[0], port, file.name, int(file.read_text())))
            except (OSError, ValueError):
                unreadable += 1
    return found, unreadable


def page(devices):
    """Prometheus text. Values are in the driver's own units: bytes for EFA's `*_bytes`, four bytes for
    InfiniBand's `port_*_data`."""
    found, unreadable = counters(devices)
    count = sum(1 for _ in devices.iterdir()) if devices.is_dir() else 0
    lines = [
        "# HELP rdma_devices RDMA devices of this node.",
        "# TYPE rdma_devices gauge",
        f"rdma_devices {count}",
        "# HELP rdma_unreadable_counters Counters that could not be read for this page.",
        "# TYPE rdma_unreadable_counters gauge",
        f"rdma_unreadable_counters {unreadable}",
        "# HELP rdma_counter_total A device's counter since its driver started, by the driver's name for it.",
        "# TYPE rdma_counter_total counter",
    ]
    lines += [
        f'rdma_counter_total{{device="{device}",port="{port}",counter="{name}"}} {value}'
        for device, port, name, value in found
    ]
    return "\n".join(lines) + "\n"


def server(port, devices):
    class Pages(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            known = self.path in ("/metrics", "/health")
            body = (page(devices) if self.path == "/metrics" else "").encode()
            self.send_response(200 if known else 404)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format, *args):
            pass

    return http.server.ThreadingHTTPServer(("", port), Pages)


if __name__ == "__main__":
    server(int(sys.argv[1]), Path(sys.argv[2])).serve_forever()
