"""Mooncake's store: KV cache that prefillers leave for everybody, for contexts that grow."""

from __future__ import annotations

from components.serving.connectors.measurement import ARRIVED, Measurement, Series
from components.serving.connectors.mooncake import DISTRIBUTIONS
from components.serving.connectors.profile import (
    STORE_REQUESTS,
    ConnectorProfile,
    Limit,
    Package,
    chosen_options,
)

CONFIG_VARIABLE = "MOONCAKE_CONFIG_PATH"
_LOADED = '{operation="load_get"}'

MOONCAKE_STORE = ConnectorProfile(
    name="mooncake-store",
    vllm_class="MooncakeStoreConnector",
    sources=("mooncake/store/worker.py", "mooncake/store/scheduler.py", "mooncake/store/connector.py",
             "mooncake/rdma_utils.py"),
    moves="through-store",
    # A decoder only loads, unless `save_decode_cache` is set; what it wrote would not be worth its time.
    roles={"prefill": "kv_both", "decode": "kv_consumer", "collocated": "kv_both"},
    options=chosen_options,
    reads=("load_async", "lookup_async", "enable_lookup", "save_decode_cache", "preferred_segment", "store_tp_size",
           "prefill_tp_sizes", "enable_store_tp_lcm", "enable_cross_layers_blocks", "enable_group_semantics",
           "custom_mem_pool", "lookup_rpc_port", "cache_prefix"),
    requests=STORE_REQUESTS,
    measurement=Measurement(
        side="decode",
        series={
            "ms": Series(f"vllm:mooncake_store_operation_time_seconds_sum{_LOADED}", 1000.0, ("decode",)),
            "bytes": Series(f"vllm:mooncake_store_operation_bytes_total{_LOADED}", 1, ("decode",)),
            "descriptors": Series(f"vllm:mooncake_store_operation_keys_total{_LOADED}", 1, ("decode",)),
            "transfers": Series(f"vllm:mooncake_store_operation_time_seconds_count{_LOADED}", 1, ("decode",)),
            "failed": Series(f"vllm:mooncake_store_operation_failed_keys_total{_LOADED}", 1, ("decode",)),
            **ARRIVED,
        },
        on_first_use=True,
        whole_blocks=True,
    ),
    packages=(Package("mooncake.store", DISTRIBUTIONS, "a Mooncake master runs elsewhere"),),
    devices="an RDMA device for each GPU; without one `protocol: tcp` in its file",
    matches=("model name, block size, dtype, prefix hash: they make the store's keys (mooncake/store/data.py)",),
    limits=(
        Limit(f"its servers, protocol and sizes stand in a file that {CONFIG_VARIABLE} names in every engine pod",
              "distributed/mooncake_store.py"),
        Limit("nothing waits until the prefiller has stored: a decoder that looks too early computes the prompt "
              "itself; as a shared cache beside NIXL that costs nothing", "mooncake/store/scheduler.py"),
        Limit("Mamba layers only with mamba_cache_mode align; no cross attention", "mooncake/store/connector.py"),
        Limit("with vLLM on CPU only with one line changed: saving records a CUDA event", "mooncake/store/worker.py:1968"),
    ),
)  # fmt: skip
