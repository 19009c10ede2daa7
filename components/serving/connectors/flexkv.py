"""FlexKV: a cache over host memory, disks and remote storage, run by a package of its own."""

from __future__ import annotations

from components.serving.connectors.measurement import unmeasured
from components.serving.connectors.profile import (
    EVERYWHERE,
    STORE_REQUESTS,
    ConnectorProfile,
    Limit,
    Package,
    chosen_options,
)

CONFIG_VARIABLE = "FLEXKV_CONFIG_PATH"

FLEXKV = ConnectorProfile(
    name="flexkv",
    vllm_class="FlexKVConnectorV1",
    sources=("flexkv_connector.py",),
    moves="through-store",
    roles=EVERYWHERE,
    options=chosen_options,
    # The package reads the whole configuration itself; vLLM's part reads no key.
    reads=("*",),
    requests=STORE_REQUESTS,
    measurement=unmeasured("vLLM passes FlexKV's own statistics on and has no series for them"),
    packages=(Package("flexkv", ("flexkv",), "not on PyPI: built from github.com/taco-project/FlexKV"),),
    devices="host memory, disks; RDMA where its storage uses it",
    matches=("model name, block size, dtype: they make the keys",),
    hybrid=False,
    exports=False,
    limits=(
        Limit("turns the hybrid KV cache manager off: no Mamba hybrids, more memory for sliding windows",
              "config/vllm.py, class without SupportsHMA"),
        Limit("what it keeps is shared only in its distributed mode", "flexkv_connector.py"),
        Limit("inside MultiConnector its statistics, if it has any, end the API server's output loop",
              "multi_connector.py MultiKVConnectorPromMetrics.observe"),
    ),
)  # fmt: skip
