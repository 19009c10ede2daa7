"""Time and memory of `pulumi preview`: the prod stack, an empty program, and 2, 8 and 32 node groups.

Nothing is deployed. AWS is the stand-in (tools/awsim): its server is not counted, and its provider is, in
place of Pulumi's own. Python's byte code is cached, as it is after a user's first command. The cases take
turns, so that a load that comes and goes does not favour one; run it on an idle machine all the same.
`python -m benchmarks.preview [--repeats N]` ends with one line of JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.process_memory import PERIOD_S, TOTAL, Run, run
from tools.aws_sim import install_plugins
from tools.awsim.running import AwsStandIn
from tools.cache import CHECKOUT, cache
from tools.local import full_environment
from tools.own_engine import backend_url, own_pulumi

AIM_RATIO = 2.5
REPEATS = 5
GROUPS = (2, 8, 32)
STACK = "preview-benchmark"
PROD, EMPTY, NODE_GROUPS = "prod", "empty", "node_groups"
PROGRAMS = Path(__file__).resolve().parent / "programs"
CREATED = re.compile(r"\+ (\d+) to create")
KINDS = {
    "pulumi-language-python-exec": "program",
    "pulumi-language-python": "language host",
    "language_host.py": "language host",
    "tools.awsim.provider": "AWS provider (stand-in)",
    "pulumi-resource-kubernetes": "Kubernetes provider",
    "pulumi-resource-pulumi-python": "dynamic provider",
    "pulumi.dynamic": "dynamic provider",
    "pulumi preview ": "engine",
}
"""By a part of the command line; the program's own names its language host's folder, so it comes first."""


@dataclass(frozen=True)
class Case:
    """A stack that can be previewed: its project's folder, and what its preview is given."""

    name: str
    folder: Path
    arguments: tuple[str, ...] = ()

    def preview(self, environment: Mapping[str, str]) -> Run:
        return _pulumi(self.folder, environment, "preview", *self.arguments)


def main(repeats: Annotated[int, typer.Option(min=1, help="counted previews of each case")] = REPEATS) -> None:
    load = os.getloadavg()[0]
    with _cases() as (cases, environment):
        for case in cases:
            case.preview(environment)  # fills the caches of byte code and of files, and is not counted
        turns = [{case.name: case.preview(environment) for case in cases} for _ in range(repeats)]
    runs = {case.name: [turn[case.name] for turn in turns] for case in cases}
    print(
        json.dumps(_parameters(repeats, load) | _comparison(runs) | {"cases": {n: _case(r) for n, r in runs.items()}})
    )


@contextlib.contextmanager
def _cases() -> Iterator[tuple[list[Case], dict[str, str]]]:
    """Fresh stacks on a backend and an engine's home of their own. Nothing of them is left afterwards."""
    with tempfile.TemporaryDirectory(prefix="splitserve-preview-") as name, AwsStandIn() as aws:
        folder = Path(name)
        home, state = folder / "home", folder / "state"
        state.mkdir()
        install_plugins(home)
        environment = {
            **os.environ, **full_environment(cache()), **aws.environment(), "PULUMI_HOME": str(home),
            "PULUMI_BACKEND_URL": backend_url(state), "PYTHONPATH": str(CHECKOUT), **_byte_code(folder),
        }  # fmt: skip
        cases = [_prod(folder), Case(EMPTY, _copied(EMPTY, folder)), *_node_groups(_copied(NODE_GROUPS, folder))]
        try:
            for project in {case.folder for case in cases}:
                _pulumi(project, environment, "stack init")
            yield cases, environment
        finally:
            (CHECKOUT / "stacks" / f"Pulumi.{STACK}.yaml").unlink(missing_ok=True)


def _byte_code(folder: Path) -> dict[str, str]:
    """Where Python keeps it: compiling the SDKs' 1,900 modules is 5 s, which a user pays once."""
    return {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(folder / "byte-code")}


def _prod(folder: Path) -> Case:
    # The engine writes a salt into the stack file that it reads.
    copy = shutil.copy(CHECKOUT / "stacks" / "Pulumi.prod.yaml", folder)
    return Case(PROD, CHECKOUT, ("--config-file", str(copy)))


def _node_groups(project: Path) -> list[Case]:
    return [Case(f"{groups} groups", project, ("--config", f"groups={groups}")) for groups in GROUPS]


def _copied(program: str, folder: Path) -> Path:
    """The engine writes a stack file beside a program."""
    return Path(shutil.copytree(PROGRAMS / program, folder / program))


def _pulumi(project: Path, environment: Mapping[str, str], command: str, *arguments: str) -> Run:
    """Raises SystemExit with everything that it printed if it fails."""
    words = ["pulumi", *command.split(), "--stack", STACK, "--non-interactive", "--color=never", *arguments]
    done = run(words, project, environment, KINDS)
    if done.code:
        raise SystemExit(f"{' '.join(words)} in {project}: exit code {done.code}\n{done.text}")
    return done


def _parameters(repeats: int, load: float) -> dict[str, Any]:
    return {
        "benchmark": "preview",
        "repeats": repeats,
        "cores": os.cpu_count(),
        "load_at_start": round(load, 1),
        "sample_ms": round(PERIOD_S * 1000),
        "engine": "own" if own_pulumi() else "built here",
        **{name: version(name) for name in ("pulumi", "pulumi-aws", "pulumi-kubernetes")},
    }


def _comparison(runs: Mapping[str, Sequence[Run]]) -> dict[str, Any]:
    """Prod against empty, and how the time grows with node groups; all of medians."""
    seconds = {name: statistics.median(one.seconds for one in found) for name, found in runs.items()}
    used = {name: statistics.median(one.cpu_seconds for one in found) for name, found in runs.items()}
    memory = {name: statistics.median(one.peak_mb[TOTAL] for one in found) for name, found in runs.items()}
    ratio = seconds[PROD] / seconds[EMPTY]
    return {
        "ratio": round(ratio, 2),
        "aim_ratio": AIM_RATIO,
        "in_aim": ratio < AIM_RATIO,
        "cpu_ratio": round(used[PROD] / used[EMPTY], 2),
        "memory_ratio": round(memory[PROD] / memory[EMPTY], 2),
        "seconds_a_group": _growth({n: seconds[f"{n} groups"] for n in GROUPS}),
    }


def _growth(seconds: Mapping[int, float]) -> dict[str, float]:
    """Seconds a node group: of the least-squares line through all, and between neighbours."""
    line = statistics.linear_regression(list(seconds), list(seconds.values()))
    between = {f"from_{a}_to_{b}": round((seconds[b] - seconds[a]) / (b - a), 3) for a, b in pairwise(seconds)}
    return {"line": round(line.slope, 3), "line_at_0_groups_s": round(line.intercept, 2), **between}


def _case(runs: Sequence[Run]) -> dict[str, Any]:
    kinds = sorted({kind for one in runs for kind in one.peak_mb} - {TOTAL})
    created = CREATED.search(runs[-1].text)
    return {
        "resources": int(created[1]) if created else 0,
        "seconds": _spread([one.seconds for one in runs], 2),
        "cpu_seconds": _spread([one.cpu_seconds for one in runs], 2),
        "peak_mb": {kind: _spread([one.peak_mb.get(kind, 0.0) for one in runs], 0) for kind in [TOTAL, *kinds]},
    }


def _spread(values: Sequence[float], digits: int) -> dict[str, float]:
    found = {"median": statistics.median(values), "min": min(values), "max": max(values)}
    return {name: round(value, digits) for name, value in found.items()}


if __name__ == "__main__":
    typer.run(main)
