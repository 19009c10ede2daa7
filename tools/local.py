"""The main job on one machine: `make up`, `down`, `clean`, `status`, `env`.

Composes the builds, the one-node cluster, the model and `pulumi up`. Everything it makes is in the
cache or in `.local/`; what the user already has (a `pulumi`, a cluster) is used and not made.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from tools import prometheus
from tools.cache import CHECKOUT, Cache, cache
from tools.engine import build as engine_build
from tools.gobuild import download_step, remove_go_caches
from tools.localcluster import build as cluster_build
from tools.localcluster import cluster, images, rootfs
from tools.localcluster import groups as lws_build
from tools.localcluster.layout import Layout
from tools.localcluster.model import make_model
from tools.localcluster.vision_model import make_vision_model
from tools.localcluster.vllm import environment as vllm_environment
from tools.own_engine import engine_environment, own_pulumi
from tools.steps import Log, Runner, Step, StepFailed

MODEL = "tiny-qwen3"
VISION_MODEL = "tiny-vision"
"""For an encoder tier; the local stack serves the other."""
STACK = "local"
app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)
console = Console(stderr=True, highlight=False)


@app.command()
def build() -> None:
    """Make every binary, root file system and environment that is not in the cache yet."""
    _guarded(lambda: _build(cache()))


@app.command()
def up() -> None:
    """From nothing to a proved release: build, start the cluster, make the model, `pulumi up`."""
    _guarded(_up)


@app.command()
def start() -> None:
    """Build what is missing and start the cluster with its images and model; deploy nothing."""
    _guarded(lambda: _start(cache()))


@app.command()
def groups() -> None:
    """Add the controller of engines over several nodes to the cluster, which must run."""
    _guarded(lambda: _add_groups(cache()))


@app.command()
def down() -> None:
    """Stop the cluster. Its data stays; `up` brings it back as it was."""
    console.print("stopped" if cluster.stop(cache().layout()) else "the local cluster does not run")


@app.command()
def clean() -> None:
    """Stop the cluster and remove everything outside the cache."""
    layout = cache().layout()
    cluster.clean(layout)
    shutil.rmtree(layout.local, ignore_errors=True)
    console.print("clean")


@app.command()
def env() -> None:
    """Print shell lines that make plain `pulumi` and `kubectl` work in this checkout."""
    found = cache()
    for name, value in engine_environment().items():
        print(f"export {name}={shlex.quote(value)}")
    folders = [] if own_pulumi() else [found.engine, found.codegen]
    path = ":".join(map(str, [*folders, CHECKOUT / ".venv/bin", found.kubernetes]))
    print(f'export PATH={shlex.quote(path)}:"$PATH"')
    print(f"export KUBECONFIG={shlex.quote(str(found.layout().kubeconfig))}")


@app.command()
def logs(component: Annotated[str, typer.Argument(help="kubelet, containerd, …")] = "node") -> None:
    """Print a node component's log."""
    path = cache().layout().logs / f"{component}.log"
    if not path.exists():
        known = ", ".join(sorted(p.stem for p in path.parent.glob("*.log"))) or "none yet"
        console.print(f"no log of `{component}`; known: {known}")
        raise typer.Exit(1)
    print(path.read_text(errors="replace"), end="")


def _up() -> None:
    started = time.monotonic()
    found = cache()
    runner = _start(found)
    environment = os.environ | full_environment(found)
    _select_stack(environment)
    deploy_started = time.monotonic()
    code = subprocess.run(
        ["pulumi", "up", "--stack", STACK, "--yes", "--skip-preview", *_display()], cwd=CHECKOUT, env=environment
    ).returncode
    runner.seconds["pulumi up"] = round(time.monotonic() - deploy_started, 1)
    _print_times(runner, time.monotonic() - started)
    if code != 0:
        raise typer.Exit(code)
    asked = subprocess.run([sys.executable, "-m", "infra.cli", "ask", "Say hello."], cwd=CHECKOUT, env=environment)
    if asked.returncode != 0:
        raise typer.Exit(asked.returncode)


def _display() -> list[str]:
    """Without a terminal one line an event is noise: keep the messages and the result."""
    quiet = ["--suppress-outputs"]
    return quiet if sys.stdout.isatty() else [*quiet, "--non-interactive", "--suppress-progress"]


def _start(found: Cache) -> Runner:
    runner = _build(found)
    layout = found.layout()
    runner.run([
        Step(
            "start the cluster", lambda: cluster.running() is not None and _answers(layout),
            lambda _: _started(layout), f"see {layout.logs} and run the same command again",
        ),
        Step("load the images", lambda: images.loaded(layout), lambda _: _load_images(found), "run it again"),
        Step(
            "make the model", (layout.models / MODEL).exists,
            lambda _: make_model(layout.models / MODEL, (CHECKOUT / "LICENSE").read_text()), "run it again",
        ),
        Step(
            "make the vision model", (layout.models / VISION_MODEL).exists,
            lambda _: make_vision_model(layout.models / VISION_MODEL, (CHECKOUT / "LICENSE").read_text()), "run it again",
        ),
    ])  # fmt: skip
    (layout.local / "image").write_text(images.vllm_image(layout) + "\n")
    if not own_pulumi():
        engine_build.install_provider(found.engine, Path(engine_environment()["PULUMI_HOME"]))
    return runner


def _build(found: Cache) -> Runner:
    """Two lanes: compilers on one, downloads and unpacking on the other."""
    runner = Runner(console, found.logs)
    binaries = cluster_build.binaries(found.kubernetes)
    fetch: list[Step] = []
    compute: list[Step] = []
    if not own_pulumi():
        wanted = [*engine_build.binaries(found.engine), found.codegen / engine_build.GENERATOR.name]
        modules = [*engine_build.modules(), engine_build.GENERATOR.module]
        fetch.append(download_step("Pulumi's modules", modules, wanted, found.go))
        compute += engine_build.cli_steps(found.engine, found.go)
        binaries = [*binaries, *wanted]
    fetch.append(download_step("Kubernetes' modules", cluster_build.modules(), binaries, found.go))
    compute += cluster_build.steps(found.kubernetes, found.go)
    if not own_pulumi():
        compute += engine_build.provider_steps(found.engine, found.go)
        compute += engine_build.generator_steps(found.codegen, found.go)
    fetch += [*rootfs.steps(found.rootfs), *vllm_environment.steps(found.vllm), _pack_step(found)]
    fetch += prometheus.steps(found.prometheus)
    runner.run(compute, fetch)
    remove_go_caches(found.go)
    return runner


def _add_groups(found: Cache) -> None:
    layout = found.layout()
    if not _answers(layout):
        raise cluster.ClusterError("the local cluster of this checkout does not run: `make start` first")
    Runner(console, found.logs).run(lws_build.steps(found.groups, found.go))
    remove_go_caches(found.go)
    (layout.local / "lws-image").write_text(lws_build.image(found.groups) + "\n")


def _pack_step(found: Cache) -> Step:
    def pack(_: Log) -> None:
        images.pack(found.rootfs, found.images, images.vllm_image(found.layout()))

    return Step("pack the images", found.images.exists, pack, "free some disk and run it again")


def _started(layout: Layout) -> None:
    cluster.start(layout)


def _answers(layout: Layout) -> bool:
    record = cluster.running()
    return record is not None and record.checkout == str(layout.checkout) and cluster.is_ready(layout)


def _load_images(found: Cache) -> None:
    images.load(found.images)


def full_environment(found: Cache) -> dict[str, str]:
    """What `make env` prints, as a mapping."""
    folders = [] if own_pulumi() else [str(found.engine), str(found.codegen)]
    path = [*folders, str(CHECKOUT / ".venv/bin"), str(found.kubernetes), os.environ.get("PATH", "")]
    return {
        **engine_environment(),
        "PATH": ":".join(path),
        "KUBECONFIG": str(found.layout().kubeconfig),
    }


def _select_stack(environment: dict[str, str]) -> None:
    selected = subprocess.run(
        ["pulumi", "stack", "select", "--create", STACK, "--non-interactive"],
        cwd=CHECKOUT, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    if selected.returncode != 0:
        raise StepFailed(
            f"step `select the stack` failed: {selected.stderr.strip()}\n"
            "  what to do: PULUMI_BACKEND_URL must name a backend that can be written to; unset it to use .local/state"
        )


def _print_times(runner: Runner, total_s: float) -> None:
    parts = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in runner.seconds.items())
    console.print(f"total {total_s:.0f} s: {parts}")


def _guarded(job: Callable[[], object]) -> None:
    """Turn a known failure into its message and exit code 1."""
    try:
        job()
    except (StepFailed, cluster.ClusterError) as error:
        console.print(f"[red]error:[/red] {error}", markup=True)
        raise typer.Exit(1) from None


if __name__ == "__main__":
    app()
