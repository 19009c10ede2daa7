"""Connector profiles: what vLLM is told about moving KV cache, for each side.

One profile today, NIXL in pull mode: the decoder reads the prefiller's blocks.
"""

from __future__ import annotations

import json

from components.serving.spec import EngineTier, ServingSpec

DEFAULT_BACKEND = "UCX"
"""What NIXL takes when it is told nothing (vllm 0.32 NIXL base_worker.py)."""
ROLES: dict[EngineTier, str] = {"prefill": "kv_producer", "decode": "kv_consumer"}


def transfer_config(serving: ServingSpec, tier: EngineTier) -> str | None:
    """The value of `--kv-transfer-config` for a tier; None where nothing is transferred.

    `kv_load_failure_policy` is a top-level key: inside `kv_connector_extra_config` vLLM ignores it
    without a word (vllm 0.32 `config/kv_transfer.py`).
    """
    if tier not in ROLES:
        return None
    config: dict[str, object] = {
        "kv_connector": "NixlConnector",
        "kv_role": ROLES[tier],
        "kv_load_failure_policy": serving.load_failure_policy,
    }
    options = dict(serving.tiers[tier].connector_options)
    if serving.connector_backend != DEFAULT_BACKEND:
        options["backends"] = [serving.connector_backend]
    if options:
        config["kv_connector_extra_config"] = options
    return json.dumps(config, sort_keys=True)
