"""Mooncake's transfer engine: the prefiller writes to the decoder, which asks it over ZMQ."""

from __future__ import annotations

from components.serving.connectors.measurement import unmeasured
from components.serving.connectors.profile import (
    SPLIT,
    ConnectorProfile,
    Limit,
    Package,
    Port,
    Requests,
    chosen_options,
)

DISTRIBUTIONS = tuple(
    f"mooncake-transfer-engine{build}" for build in ("", "-cuda13", "-non-cuda", "-efa", "-efa-cuda13")
)
"""PyPI's builds of one package; EFA has its own."""
ENGINE = Package("mooncake.engine", DISTRIBUTIONS, "and the system's libibverbs.so.1, also for TCP")
PROTOCOL = "mooncake_protocol"

MOONCAKE = ConnectorProfile(
    name="mooncake",
    vllm_class="MooncakeConnector",
    sources=("mooncake/mooncake_connector.py",),
    moves="between-tiers",
    roles=SPLIT,
    options=chosen_options,
    reads=(PROTOCOL, "num_workers", "device_name", "bootstrap_server_address"),
    requests=Requests(
        "concurrent", {"do_remote_decode": True, "do_remote_prefill": False, "transfer_id": "$transfer_id"},
        "bootstrap", False, "mooncake", "no",
        "vllm-router 0.1.17 asks the bootstrap servers of prefillers that are given by address, once, when it starts "
        "(measured: docs/measurements/connectors-cpu.md); one found by its label is unknown to it, and the decoder "
        "then computes the prompt itself (vllm-project/router src/routers/http/vllm_pd_router.rs; of 0.1.17 inferred)",
        ("--dispatch", "bootstrap", "--bootstrap-port", "$port"),
    ),
    measurement=unmeasured(
        "vLLM logs Mooncake's transfers on the prefiller and exports no series for them (mooncake/stats.py, TODO)",
        bootstrap=True,
    ),
    ports=(Port("bootstrap", 0, "one", ("prefill",)),),
    environment={"VLLM_MOONCAKE_BOOTSTRAP_PORT": "$port"},
    packages=(ENGINE,),
    devices="an RDMA device for each GPU; `mooncake_protocol` is rdma, efa or, without one, tcp",
    matches=(
        "block size, dtype, KV dtype, attention backend (not compared by a handshake)",
        "one tensor-parallel size a multiple of the other (mooncake_connector.py)",
    ),
    exports=False,
    limits=(
        Limit("`mooncake_protocol: efa` only with the build of that name", "PyPI mooncake-transfer-engine-efa"),
        Limit("the bootstrap server, without a password, and the engine's ports are open to every pod",
              "mooncake/mooncake_connector.py"),
        Limit("not inside MultiConnector: its statistics end the API server's output loop by an assertion",
              "multi_connector.py MultiKVConnectorPromMetrics.observe"),
        Limit("with vLLM on CPU only with one line changed: it asks torch.accelerator for a device",
              "mooncake/mooncake_connector.py:1186"),
        Limit("a prefiller whose decoder left keeps the blocks for VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT (480 s)",
              "mooncake/mooncake_connector.py"),
    ),
)  # fmt: skip
