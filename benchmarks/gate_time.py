"""How long a gate takes: from both tiers ready to the verdict, and from a verdict to the rollback.

Reads the evidence of the stack's last gate, which keeps its own times: run it after `make up`, and
after a demo whose candidate was taken back. `python -m benchmarks.gate_time` ends with one line of
JSON.
"""

from __future__ import annotations

import json

from tools.deployment import Deployment


def main() -> None:
    gate = Deployment().outputs()["gate"]
    seconds, verdict = gate["evidence"]["seconds"], gate["verdict"]
    ageing = gate["evidence"].get("ageing") or {}
    print(
        json.dumps(
            {
                "benchmark": "gate_time",
                "verdict": verdict["outcome"],
                "ready_s": round(seconds.get("ready", 0), 1),
                "fresh_samples_s": round(seconds.get("fresh", 0), 1),
                "ageing_s": round(ageing.get("seconds", 0), 1),
                "ready_to_verdict_s": round(seconds.get("probe", 0), 1),
                "verdict_to_rollback_s": round(verdict.get("rollback", {}).get("seconds", 0), 1),
            }
        )
    )


if __name__ == "__main__":
    main()
