"""How long a plan takes: settings, rules and physics of the largest example. Last line: JSON.

The program does this in each preview, and an editor may do it at each keystroke: 100 ms is the aim.
"""

from __future__ import annotations

import json
import statistics
import time
from pathlib import Path

import yaml

from components.hardware.known_models import known_model
from infra.naming import CONFIG_PREFIX
from infra.plan import Plan
from infra.plan_summary import summary
from infra.rules.all_rules import check, rules
from infra.settings import load

AIM_MS = 100.0
RUNS = 30
STACKS = Path(__file__).resolve().parent.parent / "stacks"
LARGEST = ("prod", "llama-3.1-70b")


def main() -> None:
    stack, model = LARGEST
    content = yaml.safe_load((STACKS / f"Pulumi.{stack}.yaml").read_text())["config"]
    values = {key.removeprefix(CONFIG_PREFIX): value for key, value in content.items()}
    config = known_model(model)
    first, *later = (_once(values, config, stack) for _ in range(RUNS + 1))
    print(
        json.dumps(
            {
                "benchmark": "plan_time",
                "stack": stack,
                "rules": len(rules()),
                "first_ms": round(first, 1),
                "median_ms": round(statistics.median(later), 2),
                "max_ms": round(max(later), 2),
                "aim_ms": AIM_MS,
                "in_aim": first < AIM_MS,
            }
        )
    )


def _once(values: dict[str, object], config: dict[str, object], stack: str) -> float:
    started = time.perf_counter()
    plan = Plan(load(values, stack), config)
    check(plan)
    summary(plan)
    return (time.perf_counter() - started) * 1000


if __name__ == "__main__":
    main()
