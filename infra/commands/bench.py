"""`splitserve bench`: the goodput of a running topology, or of two side by side."""

from __future__ import annotations

import json
import secrets
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from components.bench import plot
from components.bench.comparison import Comparison, Side, comparable, compare
from components.bench.generator import generator_command
from components.bench.job_spec import LABEL, job
from components.bench.load import ItlOf, Load, Targets, repeated_share
from components.bench.measurement import Measurement, Search, WarmUpFailed
from components.bench.reading import Run, Unreadable, read_log, read_run
from components.bench.schedule import MAX_SEED, SMALLEST_RATE_PER_S, NotRates, Slot, parse_rates
from components.bench.subject import Subject
from components.bench.tables import goodput_line, notes, side_json, table
from components.release.ledger import LedgerTooNew, read_ledger
from infra.commands.complain import complain
from infra.commands.deployed import stack_outputs as outputs_of
from infra.commands.preflight import read_stack_file
from infra.schema.operation import Traffic
from infra.settings import Settings, SettingsError
from infra.table_text import table_text
from splitserve import names

if TYPE_CHECKING:  # Kubernetes' client costs every other command 2 s
    from components.release.cluster import Access, Cluster

PROJECT_FOLDER = Path(__file__).resolve().parents[2]
START_LIMIT_S = 300
"""For a pod to start and vLLM to be imported: half a minute on few cores, more on a busy node."""
REPEATS = 0.01
"""From this share of prompts on that begin like an earlier one, the prefix cache helps visibly."""
DEFAULT_PROMPT_TOKENS, DEFAULT_OUTPUT_TOKENS = 8192, 128
DEFAULT_START_RATE_PER_S = 0.5
KEY_REFUSED = ("Unauthorized", "Forbidden")

Stack = Annotated[str, typer.Option(help="the Pulumi stack")]
Against = Annotated[str | None, typer.Option(help="a second stack, such as a collocated one on like hardware")]
PromptTokens = Annotated[int | None, typer.Option(min=1, help="length of a prompt; default traffic.promptTokens, else 8192")]  # fmt: skip
OutputTokens = Annotated[int | None, typer.Option(min=2, help="length of an answer; default traffic.outputTokens, else 128")]  # fmt: skip
TtftMs = Annotated[float | None, typer.Option(min=0, help="target; default traffic.ttftTargetMs")]
ItlMs = Annotated[float | None, typer.Option(min=0, help="target; default traffic.itlP99TargetMs")]
ItlFigure = Annotated[ItlOf, typer.Option("--itl-of", help="of one request's gaps: what is held against the target")]
Rates = Annotated[str, typer.Option(help="requests per second, such as 0.2,0.4,1, or auto")]
StartRate = Annotated[float | None, typer.Option(min=SMALLEST_RATE_PER_S, help="where auto starts; default traffic.ratePerS, else 0.5")]  # fmt: skip
MaxRates = Annotated[int, typer.Option(min=1, max=50, help="rates that auto tries at most")]
Requests = Annotated[int, typer.Option(min=1, max=100_000, help="requests at each rate; a p99 needs 100")]
Share = Annotated[float, typer.Option(min=0.01, max=1, help="of requests that must meet both targets")]
Seed = Annotated[int | None, typer.Option(min=0, max=MAX_SEED - 1, help="of prompts and arrivals; default a new one")]
KeySecret = Annotated[
    str | None, typer.Option(help="NAME/KEY of the Secret with a client's API key; default the stack's own")
]
DrainLimit = Annotated[int, typer.Option(min=1, help="seconds for the last answers of a run")]
Plot = Annotated[Path | None, typer.Option("--plot", help="a picture: FILE.svg or FILE.png; needs the extra `plot`")]
AsJson = Annotated[bool, typer.Option("--json", help="one line of JSON alone")]


def bench(stack: Stack = "local", against: Against = None, prompt_tokens: PromptTokens = None,
          output_tokens: OutputTokens = None, ttft_ms: TtftMs = None, itl_ms: ItlMs = None,
          itl_of: ItlFigure = "p99", rates: Rates = "auto", start_rate: StartRate = None, max_rates: MaxRates = 10,
          requests: Requests = 100, share: Share = 0.99, seed: Seed = None, key_secret: KeySecret = None,
          drain_limit_s: DrainLimit = 600, picture: Plot = None,
          as_json: AsJson = False) -> None:  # fmt: skip
    """Goodput: the highest request rate at which requests still meet their TTFT and ITL targets.

    Runs vLLM's own load generator as Jobs in the stack's namespace, one rate after the other. Ends with one
    line of JSON. Exit code 0: measured; 1: the lowest rate missed already; 2: not measured.
    """
    search, secret = _rates(rates), _key(key_secret)
    if picture:
        _or_complain("--plot", lambda: plot.check(picture))
    if against == stack:
        complain(f"--against: found {against}, which is --stack already; wanted another stack")
    stacks = [stack] if against is None else [stack, against]
    plans = [_settings(name) for name in stacks]
    traffic = plans[0].traffic
    targets = _targets(stack, traffic, ttft_ms, itl_ms, share, itl_of)
    load = _load(traffic, prompt_tokens, output_tokens, requests)
    start = start_rate or (traffic.rate_per_s if traffic else DEFAULT_START_RATE_PER_S)
    found = [_there(name, settings) for name, settings in zip(stacks, plans, strict=True)]
    _check(found, load)
    own_seed = secrets.randbelow(MAX_SEED) if seed is None else seed
    measurement = Measurement(len(found), load, targets, Search(search, start, max_rates), own_seed)
    fault = _measure(measurement, found, secret, drain_limit_s)
    sides = [_side(there, points) for there, points in zip(found, measurement.points, strict=True)]
    if any(side.points for side in sides):
        _show(sides, found, measurement, as_json, complete=fault is None)
        if picture:
            _or_complain("--plot", lambda: plot.plot(picture, sides, targets))
    if fault:
        fault()
    raise typer.Exit(0 if sides[0].goodput(targets).good else 1)


@dataclass(frozen=True)
class There:
    """A stack's live release, and the cluster that it runs in."""

    subject: Subject
    cluster: Cluster


def _rates(text: str) -> tuple[float, ...] | None:
    try:
        return parse_rates(text)
    except NotRates as error:
        complain(f"--rates: {error}")


def _key(text: str | None) -> tuple[str, str] | None:
    if text is None:
        return None
    name, _, key = text.partition("/")
    if not name or not key or "/" in key:
        complain(f"--key-secret: found `{text}`; wanted NAME/KEY: a Secret in the stack's namespace, and a key in it")
    return name, key


def _load(traffic: Traffic | None, prompt_tokens: int | None, output_tokens: int | None, requests: int) -> Load:
    """From the options, else from the stack file's `traffic`."""
    prompt = traffic.prompt_tokens if traffic else DEFAULT_PROMPT_TOKENS
    output = traffic.output_tokens if traffic else DEFAULT_OUTPUT_TOKENS
    return Load(prompt_tokens or prompt, output_tokens or output, requests)


def _targets(stack: str, traffic: Traffic | None, ttft_ms: float | None, itl_ms: float | None, share: float,
             itl_of: ItlOf) -> Targets:  # fmt: skip
    """From the options, else from the stack file's `traffic`."""
    ttft = ttft_ms or (traffic.ttft_target_ms if traffic else None)
    itl = itl_ms or (traffic.itl_p99_target_ms if traffic else None)
    pairs = (("--ttft-ms", "traffic.ttftTargetMs", ttft), ("--itl-ms", "traffic.itlP99TargetMs", itl))
    lacking = [f"{option} (or {key} in stacks/Pulumi.{_name(stack)}.yaml)" for option, key, value in pairs if not value]
    if lacking or not ttft or not itl:
        complain(f"goodput is what meets targets: found none for {' and '.join(lacking)}; wanted milliseconds above 0")
    return Targets(ttft, itl, share, itl_of)


def _name(stack: str) -> str:
    """`prod` of organization/splitserve/prod."""
    return stack.rsplit("/", 1)[-1]


def _settings(stack: str) -> Settings:
    path = PROJECT_FOLDER / f"stacks/Pulumi.{_name(stack)}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(p.name.split(".")[1] for p in path.parent.glob("Pulumi.*.yaml")))
        complain(f"stack {stack}: found no {path.relative_to(PROJECT_FOLDER)}; there are: {known}")
    return read_stack_file(path, _name(stack)).settings


def _there(stack: str, settings: Settings) -> There:
    """Find a stack's live release in its outputs and in the cluster; complain where either has none."""
    from kubernetes.client.exceptions import ApiException
    from kubernetes.config.config_exception import ConfigException
    from urllib3.exceptions import HTTPError

    from components.bench.job_run import front_door, running
    from components.release.cluster import Cluster, ClusterFault

    outputs = outputs_of(stack)
    try:
        live = read_ledger(outputs.get(names.LEDGER)).live
    except LedgerTooNew as error:
        complain(str(error))
    if live is None:
        complain(f"stack {stack} has no live release: its last gate said {outputs.get(names.VERDICT)}; run: pulumi up")
    try:
        access = _access(stack, settings, outputs)
        cluster = Cluster(access)
        url, selected = front_door(cluster)
        busy, sizes = running(cluster), cluster.sizes(live.release.id)
    except SettingsError as error:
        complain(str(error))
    except (ClusterFault, ApiException, ConfigException, HTTPError, OSError) as error:
        complain(f"the cluster of stack {stack} can't be asked: {error}; start it (local: make up), or correct "
                 f"platform.kubeconfig and platform.context in stacks/Pulumi.{_name(stack)}.yaml")  # fmt: skip
    subject = Subject(stack, live.release, url, sizes)
    if selected != live.release.id or not subject.engines:
        complain(f"stack {stack}: found release {selected} behind the front door and {subject.engines} engines of "
                 f"{live.release.id}, which the ledger calls live; wanted it there, running; run: pulumi up")  # fmt: skip
    if busy:
        complain(f"stack {stack}: found benchmark {busy[0]} running in namespace {access.namespace}, which would be "
                 f"measured, too; wait, or run: kubectl -n {access.namespace} delete job -l {LABEL}")  # fmt: skip
    return There(subject, cluster)


def _access(stack: str, settings: Settings, outputs: dict[str, Any]) -> Access:
    """The way to the stack's cluster; on AWS by a kubeconfig that is written anew. Raises SettingsError."""
    from infra import preflight

    if settings.platform.kind != "aws":
        return preflight.access(settings.platform, PROJECT_FOLDER, f"stack {stack}")
    from botocore.exceptions import BotoCoreError

    from components.platform.eks_access import EksUnknown, find_cluster, save
    from components.release.cluster import Access
    from infra.aws_ground import kubeconfig_path

    facts = outputs.get(names.CLUSTER) or {}
    try:
        found = find_cluster(facts["name"], facts["region"])
    except (EksUnknown, BotoCoreError, KeyError) as error:
        raise SettingsError(f"stack {stack}", [f"platform.aws: its cluster can't be asked for: {error!r}"]) from None
    if found is None:
        raise SettingsError(f"stack {stack}", [f"platform.aws: found no EKS cluster {facts['name']}; run: pulumi up"])
    path = save(kubeconfig_path(PROJECT_FOLDER, _name(stack)), found)
    return Access(str(path), facts["name"], settings.platform.namespace)


def _check(found: list[There], load: Load) -> None:
    """What makes the load or the comparison senseless; all of it in one message."""
    faults = []
    for there in found:
        expected = there.subject.release.expectation
        faults += load.faults(expected.max_model_len, expected.vocabulary, there.subject.stack)
    if len(found) == 2:
        first, second = ((s.release.expectation.model, s.units[1]) for s in (there.subject for there in found))
        faults += [f"--against: {fault}" for fault in comparable(first, second)]
    if faults:
        complain("\n  ".join(faults))


def _measure(measurement: Measurement, found: list[There], secret: tuple[str, str] | None,
             drain_limit_s: int) -> Callable[[], NoReturn] | None:  # fmt: skip
    """Measure everything; None when it went through, else what to say after the figures that there are."""
    from components.bench.job_run import TookTooLong
    from components.release.cluster import ClusterFault

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    try:
        with _ends_by_signal(), Progress(*columns, console=console, transient=True) as progress:
            measurement.run(
                lambda slot, rate: _one_run(found, measurement.load, secret, drain_limit_s, progress, slot, rate)
            )
    except KeyboardInterrupt:
        return lambda: _stopped()
    except WarmUpFailed as error:
        message = _refusal(found[error.stack].subject, str(error))
    except TookTooLong as error:
        message = f"{error}: the stack is far from this rate; give lower --rates, or raise --drain-limit-s"
    except (ClusterFault, Unreadable) as error:
        message = f"not measured: {error}"
    else:
        return None
    return lambda: complain(message)


def _one_run(found: list[There], load: Load, secret: tuple[str, str] | None, drain_limit_s: int, progress: Progress,
             slot: Slot, rate_per_s: float) -> Run:  # fmt: skip
    """One Job: `slot.requests` requests at a rate."""
    from components.bench.job_run import run_job

    subject, cluster = found[slot.stack].subject, found[slot.stack].cluster
    part = replace(load, requests=slot.requests)
    pod = subject.release.pods[subject.release.engine_tiers[0]]
    command = generator_command(
        pod["containers"][0], subject.release.expectation.model, subject.url, part, rate_per_s, slot.seed
    )
    sending_s = slot.requests / rate_per_s
    limit_s = int(START_LIMIT_S + sending_s + drain_limit_s)
    name = f"bench-{subject.release.id}-{secrets.token_hex(3)}"
    described = job(name, subject.release.id, pod, command, limit_s, secret or subject.key_secret)
    task = progress.add_task(
        f"{subject.stack}: {slot.requests} at {rate_per_s:g}/s", total=sending_s + START_LIMIT_S / 10
    )
    started = time.monotonic()
    log = run_job(cluster, described, limit_s, lambda: progress.update(task, completed=time.monotonic() - started))
    progress.remove_task(task)
    run = read_run(read_log(log), part, rate_per_s)
    answered = sum(request.error is None for request in run.requests)
    # For whoever reads a log instead of a terminal.
    progress.console.print(f"{subject.stack}: {answered} of {slot.requests} answered at {rate_per_s:g}/s")
    return run


@contextmanager
def _ends_by_signal() -> Iterator[None]:
    """SIGTERM ends the command as Ctrl-C does, so that the Job is removed."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _stopped() -> NoReturn:
    typer.echo("stopped; the load generator was removed", err=True)
    raise typer.Exit(130)


def _refusal(subject: Subject, reason: str) -> str:
    if any(word in reason for word in KEY_REFUSED):
        return (
            f"stack {subject.stack}: {subject.url} wants an API key ({reason}); give --key-secret NAME/KEY: a Secret "
            "in the stack's namespace, and a key in it"
        )
    return (
        f"stack {subject.stack}: {subject.url} answered no request of the warm-up: {reason}; ask it yourself: "
        f"splitserve ask hello --stack {subject.stack}"
    )


def _side(there: There, points: list[Any]) -> Side:
    units, unit = there.subject.units
    return Side(there.subject.stack, there.subject.topology, units, unit, tuple(points))


def _show(sides: list[Side], found: list[There], measurement: Measurement, as_json: bool, *,
          complete: bool) -> None:  # fmt: skip
    """Table, sentences, and one line of JSON last."""
    targets = measurement.targets
    compared = compare(sides[0], sides[1], targets) if len(sides) == 2 and complete else None
    remarks = [*notes(sides), *_repeats(found, measurement)]
    if not as_json:
        print(table_text(table(sides, targets)))
        for side, there in zip(sides, found, strict=True):
            print(f"{goodput_line(side, targets)} ({there.subject.describe()})")
        _print_comparison(compared)
        for line in remarks:
            print(f"note: {line}")
    content = {
        "benchmark": "goodput", "complete": complete, "load": asdict(measurement.load), "targets": asdict(targets),
        "seed": measurement.seed, "stacks": [side_json(side, targets) for side in sides],
        "comparison": asdict(compared) if compared else None, "notes": remarks,
    }  # fmt: skip
    print(json.dumps(content))


def _print_comparison(compared: Comparison | None) -> None:
    if compared is None:
        return
    words = {"split": "split", "collocated": "stay collocated", "measure": "measure first", None: "same topology"}
    print(words[compared.choice])
    for reason in compared.reasons:
        print(f"  - {reason}")


def _repeats(found: list[There], measurement: Measurement) -> list[str]:
    lines = []
    for there, points in zip(found, measurement.points, strict=True):
        vocabulary = there.subject.release.expectation.vocabulary
        share = repeated_share(sum(point.requests for point in points), vocabulary)
        if share >= REPEATS:
            lines.append(
                f"{there.subject.stack}: about {share:.0%} of the last prompts began like an earlier one (a vocabulary "
                f"of {vocabulary:,}): as far as their KV was still cached, TTFT is too good"
            )
    return lines


def _or_complain(option: str, act: Callable[[], None]) -> None:
    try:
        act()
    except plot.CannotPlot as error:
        complain(f"{option}: {error}")
