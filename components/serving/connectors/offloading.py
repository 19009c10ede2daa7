"""Offloading: an engine keeps KV cache that its GPU has no room for in host memory. Moves nothing between tiers."""

from __future__ import annotations

from typing import Any

from components.serving.connectors.chosen import Chosen
from components.serving.connectors.profile import (
    EVERYWHERE,
    ConnectorProfile,
    Limit,
    Place,
    Requests,
)

GIB = 1 << 30
ONE_TIER = Requests("none", None, "none", False, "nixl", "yes", "the router has nothing to do with it")


def options(chosen: Chosen, _place: Place) -> dict[str, Any]:
    """Bytes for one engine with all of its ranks (v1/kv_offload/cpu/spec.py).

    ValueError where no size is given: vLLM would not start, or take 8 GB without being asked.
    """
    if chosen.cpu_gib is None:
        raise ValueError(f"{chosen.name}: cpuGib is not set")
    return {**chosen.options, "cpu_bytes_to_use": int(chosen.cpu_gib * GIB)}


OFFLOADING = ConnectorProfile(
    name="offloading",
    vllm_class="OffloadingConnector",
    sources=("offloading/config.py", "v1/kv_offload/factory.py", "v1/kv_offload/base.py", "v1/kv_offload/cpu/spec.py",
             "v1/kv_offload/tiering/spec.py"),
    moves="to-host",
    roles=EVERYWHERE,
    options=options,
    reads=("cpu_bytes_to_use", "block_size", "blocks_per_chunk", "canonical_layout", "spec_name", "spec_module_path",
           "self_describing_kv_events", "offload_prompt_only", "eviction_policy", "cache_policy_module_path",
           "store_threshold", "max_tracker_size", "secondary_tiers", "backpressure"),
    requests=ONE_TIER,
    devices="host memory; its mapped file lies in /dev/shm",
    matches=("nothing: it serves one engine",),
    limits=(
        Limit("only with CUDA, ROCm and XPU", "v1/kv_offload/cpu/spec.py"),
        Limit("/dev/shm must hold all of it, several pods of a node each their own",
              "v1/kv_offload/cpu/shared_offload_region.py"),
        Limit("`canonical_layout` wants another layout than NIXL does: not both in MultiConnector",
              "offloading_connector.py"),
    ),
)  # fmt: skip

SIMPLE = ConnectorProfile(
    name="simple-offloading",
    vllm_class="SimpleCPUOffloadConnector",
    sources=("simple_cpu_offload_connector.py",),
    moves="to-host",
    roles=EVERYWHERE,
    options=options,
    reads=("cpu_bytes_to_use", "cpu_bytes_to_use_per_rank", "lazy_offload", "kv_offload_backend", "disk_path",
           "disk_capacity_bytes", "disk_buffer_slots", "use_page_cache"),
    requests=ONE_TIER,
    devices="host memory, pinned; or a disk",
    matches=("nothing: it serves one engine",),
    limits=(
        Limit("does nothing without prefix caching", "simple_cpu_offload_connector.py"),
        Limit("only with CUDA and ROCm", "v1/simple_kv_offload/cuda_mem_ops.py"),
    ),
)  # fmt: skip
