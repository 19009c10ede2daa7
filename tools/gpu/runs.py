"""The runs of half an hour on two GPUs, in order: what is carried, what is run, how long each may take.

    python3 -m tools.gpu.runs

For a machine that takes a command at a time (at most 2,000 characters and ten minutes) over a copy of this checkout, with
at most 64 MiB of files beside it, and sends back what is left in $OUT. What comes first matters most: a lease that ends
early has measured that.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tools.gpu.parts import MANIFEST, Part, read_manifest
from tools.gpu.selection import BASE, MOE, MOONCAKE

MOST_CHARACTERS = 2000
MOST_MINUTES = 10
BUDGET_MINUTES = 30
START_MINUTES = 2.0
"""Until a machine is there."""
FOLDER = ".gpu"
PARTS, SITE = "/tmp/p", "/tmp/site"


@dataclass(frozen=True)
class Run:
    """`minutes` are expected, `carry` are files of this checkout that git ignores."""

    name: str
    minutes: float
    command: str
    carry: tuple[str, ...] = ()
    optional: bool = False


def carried(part: Part, then: str = "true") -> tuple[str, tuple[str, ...]]:
    """(command, what it carries) to put a part where unpacking finds it."""
    names = (f"{FOLDER}/{part.name}", f"{FOLDER}/{MANIFEST}")
    return f"mkdir -p {PARTS} && mv {names[0]} {PARTS}/ && cp {names[1]} {PARTS}/ && {then}", names


def topology() -> str:
    asked = {"topo-m": "topo -m", "topo-p2p": "topo -p2p r", "gpus": "-L"}
    return "; ".join(f"nvidia-smi {words} | tee $OUT/{name}.txt" for name, words in asked.items())


def unpacked(*archives: str) -> str:
    return f"python3 -m tools.gpu.unpack {PARTS} {SITE} {' '.join(archives)}"


def measured(seconds: int, name: str, command: str) -> str:
    return f"sh tools/gpu/run.sh {seconds} {name} python3 -m {command}"


def runs(parts: list[Part]) -> list[Run]:
    """All of them, for the parts that were packed."""
    base = [part for part in parts if part.archive == BASE]
    more = [part for part in parts if part.archive in (MOE, MOONCAKE)]
    found = []
    for number, part in enumerate(base):
        last = number == len(base) - 1
        then = (
            f"{unpacked(BASE)} && . {SITE}/env.sh && {tried()} && {_scenarios()}"
            if last
            else f"({topology()}; {_copy()})"
        )
        command, carry = carried(part, then)
        found.append(Run("scenarios" if last else f"part {part.name}", 5.5 if last else 1.0, command, carry))
    found += [
        Run("transfers", 6.0, measured(570, "transfer", "benchmarks.gpu.transfer")),
        Run("goodput", 7.5, measured(570, "goodput", "benchmarks.gpu.goodput")),
        Run("gate's cost", 4.0, measured(420, "gate-cost", "benchmarks.gpu.gate_cost")),
        Run(
            "transfers, connectors",
            4.0,
            measured(420, "transfer-more", f"benchmarks.gpu.transfer --cases {MORE}"),
            optional=True,
        ),
    ]
    for part in more:
        command, carry = carried(part, unpacked(part.archive))
        found.append(Run(f"part {part.name}", 0.7, command, carry, optional=True))
    return found


MORE = "qwen-push-128 qwen-threads-16 llama-70b-256"


def tried() -> str:
    """What can't be imported costs seconds here, and minutes as an engine that does not start."""
    modules = "vllm.entrypoints.cli.main, vllm.v1.worker.gpu_worker, vllm.v1.attention.backends.flash_attn, nixl._api"
    attention = "from vllm.vllm_flash_attn import flash_attn_interface as f"
    said = "print(torch.__version__, f.FA3_AVAILABLE or f.FA3_UNAVAILABLE_REASON)"
    return f'python3 -W ignore -c "import torch, {modules}; {attention}; {said}"'


def _scenarios() -> str:
    return measured(480, "scenarios", "pytest tests/gpu -q -W ignore -p no:cacheprovider")


def _copy() -> str:
    return "SPLITSERVE_OUT=$OUT python3 -m benchmarks.gpu.device_copy"


def main() -> None:
    spent = START_MINUTES
    for number, run in enumerate(runs(read_manifest(Path(FOLDER))), 1):
        spent += run.minutes
        kind = "if time is left" if run.optional else f"{spent:.1f} min by then"
        print(f"{number}. {run.name}: about {run.minutes:g} min, {kind}")
        print(f"   carry: {', '.join(run.carry) or 'nothing'}")
        print(f"   {run.command}\n")


if __name__ == "__main__":
    main()
