"""How each connector was proved with this version: filled by hand, from runs."""

from __future__ import annotations

VALIDATED: dict[str, str] = {
    "nixl": "one-node cluster, vLLM 0.32 on CPU over TCP: gate, rollback, ageing; two H200 over NVLink, vLLM 0.30: "
    "measured by the probe",
    "nixl-push": "two H200 over NVLink, vLLM 0.30: measured by the probe (docs/measurements/connectors-h200.md); "
    "behind vllm-router, vLLM 0.32 on CPU over TCP (docs/measurements/connectors-cpu.md)",
    "multi": "NIXL pull and CPU offloading, two H200 over NVLink, vLLM 0.30: measured by the probe",
    "offloading": "inside `multi`, as above",
}
"""By connector name; one that is missing is deployed but unproven, and the preview says so."""
