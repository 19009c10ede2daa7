"""How each connector was proved with this version: filled by hand, from runs."""

from __future__ import annotations

VALIDATED: dict[str, str] = {
    "nixl": "one-node cluster, vLLM 0.32 on CPU over TCP: gate, rollback, ageing",
}
"""By connector name; one that is missing is deployed but unproven, and the preview says so."""
