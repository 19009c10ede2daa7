"""MultiConnector: several connectors in one engine. The first that has a request's KV loads it, all save."""

from __future__ import annotations

from components.serving.connectors.measurement import unmeasured
from components.serving.connectors.profile import SPLIT, ConnectorProfile, Limit, Requests, chosen_options

MULTI = ConnectorProfile(
    name="multi",
    vllm_class="MultiConnector",
    sources=("multi_connector.py",),
    moves="to-host",
    roles={**SPLIT, "collocated": "kv_both"},
    options=chosen_options,
    reads=("connectors",),
    requests=Requests("none", None, "none", False, "nixl", "yes", "as the connector inside that moves between tiers"),
    measurement=unmeasured("it holds no connector that moves between tiers"),
    matches=("what the connectors inside demand, and their order",),
    hybrid=None,
    limits=(
        Limit("a child without series for the statistics that it keeps ends the output loop: no Mooncake inside",
              "multi_connector.py MultiKVConnectorPromMetrics.observe"),
        Limit("children may not have an `engine_id`", "multi_connector.py _get_connector_classes_and_configs"),
        Limit("the hybrid KV cache manager only if every child has it", "multi_connector.py"),
        Limit("all children want one layout of the cache", "multi_connector.py get_required_kvcache_layout"),
        Limit("the one that moves between tiers must come first: a hit of another loads its part, and the decoder "
              "computes the rest", "multi_connector.py get_num_new_matched_tokens"),
        Limit("the load failure policy is the outer one", "v1/core/sched/scheduler.py"),
    ),
)  # fmt: skip
