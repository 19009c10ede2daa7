"""LMCache: a cache in host memory, on disks or in a store, in the engine's own process or in another's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from components.serving.connectors.chosen import Chosen
from components.serving.connectors.measurement import unmeasured
from components.serving.connectors.profile import (
    EVERYWHERE,
    STORE_REQUESTS,
    ConnectorProfile,
    Limit,
    Package,
    Place,
    chosen_options,
)

PACKAGES = (
    Package(
        "lmcache",
        ("lmcache",),
        "built for CUDA; lmcache 0.5.6 resolves beside vLLM 0.32 with protobuf 6.33.6, numpy 2.2.6",
    ),
)
NO_HYBRID = Limit("turns the hybrid KV cache manager off: no Mamba hybrids, more memory for sliding windows",
                  "config/vllm.py, class without SupportsHMA")  # fmt: skip
NOT_ON_CPU = Limit("on a CPU it keeps nothing and loads nothing: `No supported cpu connector found`, then `degraded mode "
                   "(recompute)`, while requests are answered", "lmcache 0.4.7 to 0.5.6 v1/gpu_connector/__init__.py")  # fmt: skip
NO_WAIT = Limit("nothing waits until the prefiller has stored: a decoder that looks too early computes the prompt "
                "itself", "lmcache_integration/vllm_v1_adapter.py")  # fmt: skip
CONFIG_VARIABLE = "LMCACHE_CONFIG_FILE"


def options(chosen: Chosen, _place: Place) -> dict[str, Any]:
    """`lmcache.*` are LMCache's own settings; its `max_local_cpu_size` is in GiB, for each rank."""
    own = {} if chosen.cpu_gib is None else {"lmcache.max_local_cpu_size": chosen.cpu_gib}
    return {**own, **chosen.options}


LMCACHE = ConnectorProfile(
    name="lmcache",
    vllm_class="LMCacheConnectorV1",
    sources=("lmcache_connector.py", "lmcache_integration/vllm_v1_adapter.py"),
    moves="through-store",
    # A producer never loads and a consumer never saves: contexts that grow need both on both sides.
    roles=EVERYWHERE,
    options=options,
    reads=("lmcache.*", "use_native", "discard_partial_chunks", "skip_last_n_tokens", "use_layerwise"),
    requests=STORE_REQUESTS,
    measurement=unmeasured("vLLM exports nothing of LMCache's transfers; LMCache has series of its own, elsewhere"),
    # Keys that two processes are to agree on must not hang on Python's own random seed.
    environment={"PYTHONHASHSEED": "0"},
    packages=PACKAGES,
    devices="host memory; RDMA where its store's client uses it",
    matches=("model name, chunk size, dtype, hash seed: they make the keys",),
    hybrid=False,
    own_statistics=False,
    exports=False,
    limits=(
        NO_HYBRID,
        NO_WAIT,
        NOT_ON_CPU,
        Limit("keeps KV in the pod itself until it is told a store: `lmcache.remote_url` or a file that "
              f"{CONFIG_VARIABLE} names", "lmcache_integration/utils.py"),
        Limit("LMCache's own prefill/decode mode needs its own proxy and is not deployed", "splitserve"),
    ),
)  # fmt: skip

LMCACHE_MP = replace(
    LMCACHE,
    name="lmcache-mp",
    vllm_class="LMCacheMPConnector",
    sources=("lmcache_mp_connector.py",),
    options=chosen_options,
    reads=("lmcache.mp.host", "lmcache.mp.port", "lmcache.mp.mq_timeout", "lmcache.mp.heartbeat_interval"),
    devices="a server that shares the GPU's memory: on the same node, with the same devices",
    limits=(
        NO_HYBRID,
        NO_WAIT,
        Limit("its server is not deployed: it must listen at `lmcache.mp.host` and `lmcache.mp.port`",
              "lmcache_mp_connector.py"),
        Limit("the class comes from lmcache itself where that has one", "lmcache_mp_connector.py, last lines"),
    ),
)  # fmt: skip
