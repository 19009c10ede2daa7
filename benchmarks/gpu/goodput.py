"""Goodput of two GPUs: collocated engines, chunked prefill tuned, against one prefill and one decode engine.

    python3 -m benchmarks.gpu.goodput --rates 2,3,4.5

The strongest collocated engines are the baseline: one engine on each GPU at each `--chunks` (vLLM's
--max-num-batched-tokens), and the best of them is compared. Ends with one line of JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks.gpu.load_generator import Subject, offer
from benchmarks.gpu.measuring import OUT, Pair, said
from components.bench.comparison import Side, compare
from components.bench.figures import Point, point
from components.bench.load import Load, Targets
from components.bench.schedule import parse_rates
from components.bench.tables import goodput_line, table
from components.hardware.traffic import Traffic, advise
from infra.table_text import table_text
from tools.gpu.engines import Engine, Spec, end_left_over, pair, serving
from tools.gpu.models import make

SEED = 20261130
SPLIT = "split"
TARGETS = Targets(ttft_ms=2000.0, itl_ms=50.0)
LIMIT_MS = 100.0
WARM_UP_REQUESTS = 8


def specs(model: Path, chunks: Sequence[int], port: int) -> dict[str, list[Spec]]:
    """Engines by subject: two GPUs each."""
    found = {SPLIT: [replace(spec, arguments=("--max-num-batched-tokens", "16384")) for spec in pair(model, port)]}
    for number, chunk in enumerate(chunks, 1):
        arguments = ("--enable-chunked-prefill", "--max-num-batched-tokens", str(chunk))
        found[f"collocated-{chunk}"] = [
            Spec("collocated", model, gpu, port + 2 * number + gpu, connector=None, arguments=arguments)
            for gpu in (0, 1)
        ]
    return found


def subject(name: str, engines: Sequence[Engine]) -> Subject:
    urls = tuple(engine.url for engine in engines)
    return Subject(name, urls[:1], urls[1:]) if name == SPLIT else Subject(name, urls)


def measure(one: Subject, load: Load, rates: Sequence[float], targets: Targets) -> list[Point]:
    """One point a rate; a first run is thrown away."""
    asyncio.run(offer(one, replace(load, requests=WARM_UP_REQUESTS), WARM_UP_REQUESTS, SEED - 1))
    return [
        point(rate, [asyncio.run(offer(one, load, rate, SEED + number))], targets) for number, rate in enumerate(rates)
    ]


def side(name: str, points: Sequence[Point]) -> Side:
    return Side(name, "prefill-decode" if name == SPLIT else "collocated", 2, "GPU", tuple(points))


def best(sides: Sequence[Side], targets: Targets) -> Side:
    """The collocated engines with the highest goodput; among equals those with the lower ITL p99 at the lowest rate."""

    def rank(one: Side) -> tuple[float, float]:
        return one.goodput(targets).rate_per_s or 0.0, -(one.points[0].itl_p99_ms or float("inf"))

    return max(sides, key=rank)


def advice(load: Load, rate_per_s: float, targets: Targets, collocated: Point | None, transfer_ms: float | None) -> Any:
    """What `splitserve advise` says of the same traffic, with what was measured of the collocated engines."""
    traffic = Traffic(
        load.prompt_tokens, load.output_tokens, rate_per_s, ttft_target_ms=targets.ttft_ms, itl_p99_target_ms=targets.itl_ms,
        collocated_itl_p99_ms=collocated.itl_p99_ms if collocated else None,
    )  # fmt: skip
    return advise(traffic, transfer_ms, LIMIT_MS)


def run(model: Path, folder: Path, load: Load, rates: Sequence[float], chunks: Sequence[int], *, targets: Targets = TARGETS,
        port: int = 8300, python: str = sys.executable) -> None:  # fmt: skip
    wanted = specs(model, chunks, port)
    with serving([spec for group in wanted.values() for spec in group], folder / "logs", python) as engines:
        groups = dict(zip(wanted, zip(engines[::2], engines[1::2], strict=True), strict=True))
        transfers = Pair(*groups[SPLIT]).samples(load.prompt_tokens, 2)
        transfer_ms = max(sample.ms or 0.0 for sample in transfers)
        sides = {
            name: side(name, measure(subject(name, group), load, rates, targets)) for name, group in groups.items()
        }
    split, strongest = sides.pop(SPLIT), best(list(sides.values()), targets)
    compared = compare(split, strongest, targets)
    advised = {f"{rate:g}": advice(load, rate, targets, strongest.at(rate), transfer_ms).choice for rate in rates}
    print(table_text(table([split, *sides.values()], targets)))
    for one in (split, *sides.values()):
        print(goodput_line(one, targets))
    said("goodput", folder, load=asdict(load), targets=asdict(targets), transfer_ms=transfer_ms, strongest=strongest.stack,
         sides=[asdict(one) for one in (split, *sides.values())], comparison=asdict(compared), advice_by_rate=advised)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rates", default="2,3,4.5")
    parser.add_argument("--chunks", type=int, nargs="+", default=[512, 2048])
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--prompt-tokens", type=int, default=8192)
    parser.add_argument("--output-tokens", type=int, default=128)
    parser.add_argument("--ttft-ms", type=float, default=TARGETS.ttft_ms)
    parser.add_argument("--itl-ms", type=float, default=TARGETS.itl_ms)
    parser.add_argument("--models", type=Path, default=Path("/tmp/models"))
    parser.add_argument("--out", type=Path, default=OUT)
    asked = parser.parse_args()
    end_left_over()
    load = Load(asked.prompt_tokens, asked.output_tokens, asked.requests)
    targets = replace(TARGETS, ttft_ms=asked.ttft_ms, itl_ms=asked.itl_ms)
    run(
        make("qwen2.5-7b", asked.models), asked.out, load, parse_rates(asked.rates) or (), asked.chunks, targets=targets
    )


if __name__ == "__main__":
    main()
