"""The names of the stack's outputs. Free of Pulumi, so that any tool may read them."""

from __future__ import annotations

ENDPOINT = "endpoint"
MODEL = "model"
LIVE = "live"
VERDICT = "verdict"
KV_TRANSFER_MS = "kvTransferMs"
KV_TRANSFER_AGED_MS = "kvTransferAgedMs"
LEDGER = "ledger"
GATE = "gate"
CLUSTER = "cluster"
"""On AWS: what another stack needs to serve on this cluster (components/platform/cluster_facts.py)."""
NODE_PLUGINS = "nodePlugins"
"""With `layers: cluster`: what was installed on nodes, and what was left to whom."""
