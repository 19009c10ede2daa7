"""What the gate costs: its time to a verdict on idle engines, and what a probe does to the traffic of busy ones.

    python3 -m benchmarks.gpu.gate_cost

Live traffic goes to a prefill and a decode engine; the same traffic, with the same seed, is sent again while the probe's
samples run on the same engines, then while it ages them. Aim: ITL p99 within 5 %. Ends with one line of JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu.goodput import TARGETS
from benchmarks.gpu.load_generator import Subject, offer
from benchmarks.gpu.measuring import OUT, said
from components.bench.figures import Point, point
from components.bench.load import Load
from components.bench.reading import Run
from tools.gpu.engines import Engine, end_left_over, pair, serving
from tools.gpu.models import make

SEED = 20261201
CHECK = ("-m", "tools.gpu.check")
AIM = 0.05


def verdict(engines: Sequence[Engine], tokens: int, *more: str) -> dict[str, Any]:
    """One check as a user runs it, and the seconds that it took."""
    command = [sys.executable, *CHECK, f"--prefill={engines[0].url}", f"--decode={engines[1].url}", "--json",
               f"--model-config={engines[0].spec.model / 'config.json'}", f"--prompt-tokens={tokens}", *more]  # fmt: skip
    begun = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout) if done.stdout.strip() else {"outcome": "no answer", "message": done.stderr[-500:]}
    kept = ("outcome", "cause", "message", "kv_transfer_ms", "kv_transfer_aged_ms", "aged_is_estimated")
    return {"seconds": round(time.monotonic() - begun, 1), **{key: found.get(key) for key in kept}}


async def beside(subject: Subject, load: Load, rate_per_s: float, command: Sequence[str] | None) -> tuple[Run, int]:
    """The traffic, and how many checks ran beside it from its first to its last request, one after the other."""
    checks, stop = 0, False

    async def probe() -> None:
        nonlocal checks
        while command and not stop:
            running = await asyncio.create_subprocess_exec(
                *command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
            )
            while running.returncode is None and not stop:
                await asyncio.sleep(0.1)
            if running.returncode is None:
                running.terminate()
            await running.wait()
            checks += 1

    probing = asyncio.create_task(probe())
    run = await offer(subject, load, rate_per_s, SEED)
    stop = True
    await probing
    return run, checks


def itl(point_: Point) -> dict[str, Any]:
    keys = ("requests", "failed", "ttft_p50_ms", "ttft_p99_ms", "itl_p50_ms", "itl_p99_ms", "late")
    return {key: getattr(point_, key) for key in keys}


def run(
    model: Path,
    folder: Path,
    load: Load,
    rate_per_s: float,
    *,
    samples: int = 8,
    port: int = 8400,
    python: str = sys.executable,
) -> None:
    with serving(pair(model, port), folder / "logs", python) as engines:
        subject = Subject("live", (engines[0].url,), (engines[1].url,))
        idle = verdict(engines, load.prompt_tokens, "--age=60", f"--samples={samples}")
        again = verdict(engines, load.prompt_tokens, "--age=off", f"--samples={samples}")
        common = [sys.executable, *CHECK, f"--prefill={engines[0].url}", f"--decode={engines[1].url}", "--json",
                  f"--model-config={model / 'config.json'}"]  # fmt: skip
        ways = {
            "alone": None,
            "samples": [*common, f"--prompt-tokens={load.prompt_tokens}", "--age=off", f"--samples={samples}"],
            "short samples": [*common, "--prompt-tokens=1024", "--age=off", f"--samples={samples}"],
        }
        rows = {}
        for name, command in ways.items():
            made, checks = asyncio.run(beside(subject, load, rate_per_s, command))
            rows[name] = itl(point(rate_per_s, [made], TARGETS)) | {"checks": checks}
    alone = rows["alone"]["itl_p99_ms"]
    more = {name: round(row["itl_p99_ms"] / alone - 1, 3) for name, row in rows.items() if alone and row["itl_p99_ms"]}
    said("gate_cost", folder, verdict_idle=idle, verdict_not_aged=again, rate_per_s=rate_per_s, traffic=rows,
         itl_p99_more=more, within_aim={name: share <= AIM for name, share in more.items()})  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=2.0)
    parser.add_argument("--requests", type=int, default=60)
    parser.add_argument("--prompt-tokens", type=int, default=8192)
    parser.add_argument("--output-tokens", type=int, default=128)
    parser.add_argument("--models", type=Path, default=Path("/tmp/models"))
    parser.add_argument("--out", type=Path, default=OUT)
    asked = parser.parse_args()
    end_left_over()
    load = Load(asked.prompt_tokens, asked.output_tokens, asked.requests)
    run(make("qwen2.5-7b", asked.models), asked.out, load, asked.rate)


if __name__ == "__main__":
    main()
