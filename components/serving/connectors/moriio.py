"""MoRI-IO: AMD's transfer engine, over RDMA or xGMI."""

from __future__ import annotations

from typing import Any

from components.serving.connectors.chosen import Chosen
from components.serving.connectors.measurement import unmeasured
from components.serving.connectors.nixl import ASK_PREFILL
from components.serving.connectors.profile import (
    SPLIT,
    ConnectorProfile,
    Limit,
    Package,
    Place,
    Port,
    Requests,
)

NOTIFY_OFFSET = 100
"""Between the first handshake port and the first notification port: more ranks than one engine has."""


def options(chosen: Chosen, place: Place) -> dict[str, Any]:
    """Ports, and READ mode: the only one for hybrid models, and the only one that needs no word of the proxy."""
    port = place.engine.side_channel_port
    own = {
        "read_mode": True,
        "http_port": place.engine.port,
        "handshake_port": port,
        "notify_port": port + NOTIFY_OFFSET,
    }
    return {**own, **chosen.options}


MORIIO = ConnectorProfile(
    name="moriio",
    vllm_class="MoRIIOConnector",
    sources=("moriio/moriio_common.py", "moriio/moriio_connector.py"),
    moves="between-tiers",
    roles=SPLIT,
    options=options,
    reads=("read_mode", "http_port", "handshake_port", "notify_port", "backend", "host_ip", "proxy_ip",
           "proxy_ping_port", "transfer_timeout", "defer_timeout", "recv_abort_timeout", "qp_per_transfer",
           "post_batch_size", "num_workers"),
    requests=Requests(
        "sequential", ASK_PREFILL, "answer", True, "moriio", "no",
        "vllm-router wants engines that register with it; without, its request ids name HTTP addresses that the decoder "
        "takes for MoRI-IO's and refuses (moriio/moriio_common.py). With plain ids the prefiller takes NIXL's "
        "parameters in READ mode and answers with all that the decoder needs",
    ),
    measurement=unmeasured("vLLM keeps no statistics of MoRI-IO's transfers"),
    ports=(
        Port("handshake", 0, "data-and-tensor", ("prefill", "decode")),
        Port("notify", NOTIFY_OFFSET, "data-and-tensor", ("prefill", "decode")),
    ),
    packages=(Package("mori.io", ("amd-mori", "amd-mori-nightly"), "amd_mori 1.2.4 has no wheel for Python 3.11"),
              Package("msgpack", ("msgpack",))),
    devices="AMD GPUs; an RDMA device for each, or xGMI within a node",
    matches=(
        "block size, dtype, KV dtype, read_mode",
        "tensor-parallel size, unless KV heads are replicated or latent (moriio_connector.py)",
    ),
    own_statistics=False,
    exports=False,
    limits=(
        Limit("only on ROCm", "mori.io"),
        Limit("WRITE mode not for sliding windows, Mamba or KDA", "moriio/moriio_connector.py"),
        Limit("Mamba and KDA hybrids with the same tensor-parallel size", "moriio/moriio_connector.py"),
        Limit("ports step by data-parallel plus tensor-parallel rank: two ranks may get one port",
              "moriio/moriio_common.py get_port_offset"),
        Limit("a prefiller keeps unread blocks for up to 60 s (defer_timeout)", "moriio/moriio_common.py"),
    ),
)  # fmt: skip
