"""A connector of one's own: a class of a module that the image holds."""

from __future__ import annotations

from components.serving.connectors.measurement import unmeasured
from components.serving.connectors.profile import SPLIT, ConnectorProfile, Limit, Requests, chosen_options

CUSTOM = ConnectorProfile(
    name="custom",
    vllm_class="",
    sources=(),
    moves="between-tiers",
    roles={**SPLIT, "collocated": "kv_both"},
    options=chosen_options,
    reads=("*",),
    requests=Requests(
        "sequential", {"do_remote_decode": True, "do_remote_prefill": False}, "answer", True, "nixl", "inferred",
        "as NIXL's: with a prefiller that answers what the decoder needs",
    ),
    measurement=unmeasured("nobody knows which series a connector of your own exports"),
    matches=("what the connector demands",),
    hybrid=None,
    own_statistics=False,
    exports=False,
    limits=(
        Limit("the class takes `kv_cache_config` as its third argument", "../factory.py"),
        Limit("with statistics it can't be inside MultiConnector, which looks classes up by registered name",
              "multi_connector.py build_kv_connector_stats"),
    ),
)  # fmt: skip
