"""NIXL: the decoder reads the prefiller's blocks (pull), or the prefiller writes them to it (push)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from components.serving.connectors.chosen import Chosen
from components.serving.connectors.measurement import ARRIVED, BOTH, Measurement, Series, Side
from components.serving.connectors.profile import (
    SPLIT,
    ConnectorProfile,
    Limit,
    Package,
    Place,
    Port,
    Requests,
)

DEFAULT_BACKEND = "UCX"
"""What NIXL takes when it is told nothing (vllm 0.32 NIXL base_worker.py)."""
ASK_PREFILL = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}
# Both the address that is bound and the one that is advertised to peers.
ENVIRONMENT = {"VLLM_NIXL_SIDE_CHANNEL_HOST": "field:status.podIP", "VLLM_NIXL_SIDE_CHANNEL_PORT": "$port"}
PORTS = (Port("side-channel", 0, "data", ("prefill", "decode")),)
PACKAGES = (Package("nixl._api", ("nixl", "nixl-cu12", "nixl-cu13"), "LIBFABRIC needs the system's libfabric",
                    with_vllm=True),)  # fmt: skip
READS = ("backends", "num_threads", "kv_lease_duration", "enforce_handshake_compat", "engine_ttl",
         "kv_recompute_threshold", "bidirectional_kv_xfer", "decoder_kv_blocks_ttl")  # fmt: skip
MATCHES = (
    "image, model name, dtype, KV dtype, attention backend, speculation, hybrid KV cache manager, pull or push "
    "(nixl/metadata.py, compared in the handshake)",
    "block size; decode's tensor-parallel size a multiple of prefill's (nixl/base_worker.py)",
)
SOURCES = ("nixl/base_scheduler.py", "nixl/base_worker.py", "nixl/connector.py")


def options(chosen: Chosen, place: Place) -> dict[str, Any]:
    """The chosen ones; the backend of the settings wins, since rules and expected times follow it."""
    made = dict(chosen.options)
    if place.backend != DEFAULT_BACKEND:
        made["backends"] = [place.backend]
    return made


def measured(side: Side) -> Measurement:
    """The series of nixl/stats.py. Who posts a transfer counts it; either side may see one fail."""
    own = (side,)
    failing = own if side == "decode" else BOTH
    return Measurement(
        side=side,
        series={
            "ms": Series("vllm:nixl_xfer_time_seconds_sum", 1000.0, own),
            "post_ms": Series("vllm:nixl_post_time_seconds_sum", 1000.0, own),
            "bytes": Series("vllm:nixl_bytes_transferred_sum", 1, own),
            "descriptors": Series("vllm:nixl_num_descriptors_sum", 1, own),
            "transfers": Series("vllm:nixl_xfer_time_seconds_count", 1, own),
            "failed": Series("vllm:nixl_num_failed_transfers_total", 1, failing),
            **ARRIVED,
        },
        # Sequential for both: with push, D then registers while P holds the blocks under its lease, and the
        # time counted is that of the write alone.
        same_request_id=side == "prefill",
    )


PULL = ConnectorProfile(
    name="nixl",
    vllm_class="NixlConnector",
    sources=SOURCES,
    moves="between-tiers",
    roles=SPLIT,
    options=options,
    reads=READS,
    requests=Requests("sequential", ASK_PREFILL, "answer", False, "nixl", "yes", "its default connector"),
    measurement=measured("decode"),
    ports=PORTS,
    environment=ENVIRONMENT,
    packages=PACKAGES,
    devices="an RDMA device for each GPU, else TCP",
    matches=MATCHES,
    limits=(
        Limit("decode without pipeline stages; prefill with them not for hybrid models", "nixl/base_worker.py"),
        Limit("without peer access on one host a read falls back to TCP", "vllm-project/vllm issue 52607"),
    ),
)

PUSH = replace(
    PULL,
    name="nixl-push",
    vllm_class="NixlPushConnector",
    sources=(*SOURCES, "nixl/push_scheduler.py"),
    reads=(*READS, "push_registration_timeout"),
    requests=Requests(
        "concurrent",
        ASK_PREFILL,
        "learned",
        True,
        "nixl",
        "yes",
        "vllm-router 0.1.17 gives both legs one X-Request-Id of its own, in the client's place, and names it to the "
        "decoder as remote_request_id beside the prefiller's engine id, host, port and tp_size (measured: "
        "docs/measurements/connectors-cpu.md)",
        ("--dispatch", "concurrent"),
    ),
    measurement=measured("prefill"),
    limits=(
        Limit("no decode context parallelism", "nixl/connector.py"),
        Limit("`bidirectional_kv_xfer` keeps the engine from starting", "nixl/push_scheduler.py"),
        Limit("decode without pipeline stages; prefill with them not for Mamba hybrids", "nixl/base_worker.py"),
        Limit("cache groups laid out alike on both sides", "nixl/push_worker.py"),
        Limit("asked in turn it is slower than pull: D registers when P has ended", "nixl/push_scheduler.py"),
    ),
)
