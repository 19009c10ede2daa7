"""`splitserve check`: the gate's probe on any vLLM deployment, by URL, by a cluster's pods, or by a log."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from components.check import exposition
from components.check.client import Client
from components.check.judge_log import judge_logs
from components.check.limit import TookTooLong, ends_by_signal, limited
from components.check.log import LogFigures, read_log
from components.check.result import Result, unmeasured
from components.check.run import Memory
from components.check.run import check as check_once
from components.check.settings import CannotCheck, Deployment, Fault, Settings
from components.diagnosis.diagnose import Clues, diagnose
from infra.check_arguments import (
    Faults,
    age_limit_s,
    api_key,
    base_url,
    distinct,
    geometry,
    positive,
    targets,
)
from infra.check_report import result_json, result_line, result_text
from infra.check_topology import Given, gpus, texts
from infra.commands.complain import complain

if TYPE_CHECKING:  # Kubernetes' client costs 2 s, and only pods need it
    from components.release.cluster import Cluster

DEFAULT_PROMPT_TOKENS = Settings().prompt_tokens
INTERRUPTED = 130
KUBECONFIG = "~/.kube/config"
SOURCES = (
    "--prefill URL and --decode URL; --namespace, --prefill-selector and --decode-selector; --decode-log FILE; or "
    "--namespace, --decode-selector and --pod-logs"
)

Format = Literal["text", "json", "prometheus"]
Prefill = Annotated[list[str], typer.Option(help="a prefill engine's own URL; may be given several times")]
Decode = Annotated[list[str], typer.Option(help="a decode engine's own URL; may be given several times")]
Router = Annotated[str | None, typer.Option(help="the router's URL, if it is to be asked, too")]
Namespace = Annotated[str | None, typer.Option(help="of the pods, instead of URLs")]
PrefillSelector = Annotated[str | None, typer.Option(help="labels of the prefill pods, such as app=prefill")]
DecodeSelector = Annotated[str | None, typer.Option(help="labels of the decode pods")]
Port = Annotated[int, typer.Option(min=1, max=65535, help="the engines' port in these pods")]
Kubeconfig = Annotated[str | None, typer.Option(help="a kubeconfig; default KUBECONFIG, then ~/.kube/config")]
Context = Annotated[str | None, typer.Option(help="a context in it; default its current one")]
DecodeLog = Annotated[str | None, typer.Option(help="judge the engine's log alone: a file, or - for stdin")]
PodLogs = Annotated[bool, typer.Option("--pod-logs", help="judge the logs of the decode pods alone")]
Model = Annotated[str | None, typer.Option(help="the served name; default from /v1/models")]
ModelConfig = Annotated[Path | None, typer.Option(help="the model's config.json: bytes are then checked against it")]
Dtype = Annotated[str | None, typer.Option(help="the engines' --dtype, where it is not the model's")]
TensorParallel = Annotated[
    int, typer.Option(min=1, max=1024, help="GPUs of a decode engine; matters with --model-config")
]
Connector = Annotated[str | None, typer.Option(help="such as nixl-push; default: found out by what is exposed")]
LimitMs = Annotated[float, typer.Option(help="the mean transfer must stay below")]
Samples = Annotated[int, typer.Option(min=1, max=100, help="transfers a pair, fresh and again aged")]
PromptTokens = Annotated[int | None, typer.Option(min=1, help="length of the prompts; default 1024")]
AnswerTokens = Annotated[int, typer.Option(min=1, max=1024, help="length of the answers")]
Age = Annotated[str, typer.Option(help="load the KV caches until they have wrapped: on (120 s), off, or seconds")]
ApiKeyEnv = Annotated[str | None, typer.Option(help="the variable that holds the engines' and the router's API key")]
TopologyFiles = Annotated[list[Path], typer.Option("--topology", help="what `nvidia-smi topo -m`, `topo -p2p r` or the engines "
                                                   "printed: a file; may be given several times")]  # fmt: skip
PrefillGpus = Annotated[str | None, typer.Option(help="the prefill engines' GPUs in it, such as 0 or 0,1")]
DecodeGpus = Annotated[str | None, typer.Option(help="the decode engines' GPUs in it")]
AcceptContentOnly = Annotated[bool, typer.Option("--accept-content-only", help="pass a connector whose times can't be measured")]  # fmt: skip
RequestLimit = Annotated[float, typer.Option("--request-limit-s", help="seconds for one answer")]
OverallLimit = Annotated[float, typer.Option("--limit-s", help="seconds for one check in all")]
Watch = Annotated[float | None, typer.Option(help="check again after so many seconds, one line each, until Ctrl-C")]
How = Annotated[Format, typer.Option("--format", help="how to print")]
AsJson = Annotated[bool, typer.Option("--json", help="one line of JSON: --format json")]
PrometheusFile = Annotated[Path | None, typer.Option(help="also write Prometheus text there, after each check")]


def check(prefill: Prefill = [], decode: Decode = [], router: Router = None,  # noqa: B006
          namespace: Namespace = None, prefill_selector: PrefillSelector = None,
          decode_selector: DecodeSelector = None, port: Port = 8000, kubeconfig: Kubeconfig = None,
          context: Context = None, decode_log: DecodeLog = None, pod_logs: PodLogs = False, model: Model = None,
          model_config: ModelConfig = None, dtype: Dtype = None, tensor_parallel: TensorParallel = 1,
          connector: Connector = None, limit_ms: LimitMs = 100.0, samples: Samples = 5,
          prompt_tokens: PromptTokens = None, answer_tokens: AnswerTokens = 8, age: Age = "on",
          api_key_env: ApiKeyEnv = None, topology: TopologyFiles = [], prefill_gpus: PrefillGpus = None,  # noqa: B006
          decode_gpus: DecodeGpus = None, accept_content_only: AcceptContentOnly = False,
          request_limit_s: RequestLimit = 60.0, limit_s: OverallLimit = 900.0, watch: Watch = None,
          how: How = "text", as_json: AsJson = False, prometheus_file: PrometheusFile = None) -> None:  # fmt: skip
    """Whether KV cache moves from prefill to decode in any vLLM deployment: the gate's probe and verdict.

    Sends requests and, unless --age off, load. Exit code 0: pass; 1: fail; 2: could not be measured, or
    wrong arguments; 130: interrupted.
    """
    faults = Faults()
    settings = Settings(
        limit_ms, samples, prompt_tokens or DEFAULT_PROMPT_TOKENS, prompt_tokens is not None, answer_tokens,
        age_limit_s(age, faults), request_limit_s, model, geometry(model_config, tensor_parallel, dtype, faults), dtype,
        tensor_parallel, connector, accept_content_only,
    )  # fmt: skip
    for option, value, unit in (("--limit-ms", limit_ms, "milliseconds"), ("--limit-s", limit_s, "seconds"),
                                ("--request-limit-s", request_limit_s, "seconds"),
                                ("--watch", 1 if watch is None else watch, "seconds")):  # fmt: skip
        positive(option, value, unit, faults)
    pods = Pods(namespace, prefill_selector, decode_selector, port, kubeconfig, context)
    where = Where(tuple(prefill), tuple(decode), router, pods, decode_log, pod_logs)
    given = Given(texts("--topology", topology, faults), gpus(prefill_gpus, decode_gpus, faults))
    act = _act(where, settings, api_key(api_key_env, faults), given, faults)
    if watch is not None and decode_log is not None:
        faults.append("--watch: found --decode-log, which does not change; wanted engines or pods")
    if faults or act is None:
        complain("\n  ".join(faults))
    output = Output("json" if as_json else how, watch is not None, prometheus_file)
    raise typer.Exit(_repeat(act, limit_s, settings.limit_ms, output, watch))


@dataclass(frozen=True)
class Pods:
    """Where pods are looked for."""

    namespace: str | None
    prefill: str | None
    decode: str | None
    port: int
    kubeconfig: str | None
    context: str | None

    def connect(self) -> Cluster:
        """The cluster. Raises CannotCheck."""
        from components.check.pods import connect
        from components.release.cluster import Access

        path = self.kubeconfig or os.environ.get("KUBECONFIG") or os.path.expanduser(KUBECONFIG)
        return connect(Access(path, self.context, self.namespace or ""))


@dataclass(frozen=True)
class Where:
    """What is to be checked, as it was given."""

    prefill: tuple[str, ...]
    decode: tuple[str, ...]
    router: str | None
    pods: Pods
    log: str | None
    pod_logs: bool

    @property
    def sources(self) -> list[str]:
        by_pods = any((self.pods.namespace, self.pods.prefill, self.pods.decode))
        given = (("URLs", bool(self.prefill or self.decode)), ("pods", by_pods), ("a log", self.log is not None))
        return [name for name, is_given in given if is_given]


@dataclass(frozen=True)
class Output:
    """How results are printed."""

    format: Format
    lines: bool
    file: Path | None

    def show(self, result: Result) -> None:
        text = exposition.exposition(result) if self.file or self.format == "prometheus" else ""
        if self.format == "prometheus":
            print(text, end="", flush=True)
        elif self.format == "json":
            print(result_json(result), flush=True)
        else:
            print(result_line(result) if self.lines else result_text(result), flush=True)
        if self.file:
            try:
                exposition.write(self.file, text)
            except OSError as error:
                complain(
                    f"--prometheus-file: {self.file} can't be written: {error.strerror}; wanted a folder that is there"
                )


Act = Callable[[], Result]


def _act(where: Where, settings: Settings, key: str, given: Given, faults: Faults) -> Act | None:
    """What one check does; None, and faults, where that is not clear."""
    if len(where.sources) != 1:
        faults.found("what to check", " and ".join(where.sources) or "nothing", f"one of: {SOURCES}")
        return None
    if where.log is not None:
        path = where.log
        return lambda: given.added(_judge_log(path, settings.limit_ms))
    if where.sources == ["pods"]:
        return _act_on_pods(where, settings, key, given, faults)
    prefill, decode = targets("--prefill", where.prefill, faults), targets("--decode", where.decode, faults)
    router = _router(where.router, faults)
    if where.pod_logs:
        faults.append("--pod-logs: found URLs, wanted --namespace and --decode-selector")
    for option, urls in (("--prefill", where.prefill), ("--decode", where.decode)):
        if not urls:
            faults.found(option, "no URL", "at least one: a transfer goes from one engine to another")
    named = [*(("--prefill", t.url) for t in prefill), *(("--decode", t.url) for t in decode)]
    distinct([*named, *([("--router", router)] if router else [])], faults)
    return _remembering(Deployment(prefill, decode, router), settings, key, given)


def _act_on_pods(where: Where, settings: Settings, key: str, given: Given, faults: Faults) -> Act:
    pods, router = where.pods, _router(where.router, faults)
    needed = [("--namespace", pods.namespace), ("--decode-selector", pods.decode)]
    needed += [] if where.pod_logs else [("--prefill-selector", pods.prefill)]
    for option, value in needed:
        if not value:
            faults.found(option, "nothing", "it beside the other options for pods")
    if where.pod_logs:
        return lambda: given.added(_judge_pod_logs(pods, settings.limit_ms))
    return _remembering_pods(pods, router, settings, key, given)


def _remembering_pods(pods: Pods, router: str | None, settings: Settings, key: str, given: Given) -> Act:
    """Check again and again what the selectors find, and ask Kubernetes about what was no pass."""
    memory = Memory()

    def act() -> Result:
        from components.check.fate import with_fates
        from components.check.pods import Selectors, find, words

        cluster = pods.connect()
        found = find(cluster, Selectors(pods.prefill or "", pods.decode or "", pods.port))
        deployment = Deployment(found.prefill, found.decode, router)
        result = check_once(Client(settings.request_limit_s, key), deployment, settings, memory)
        logs = words(cluster, [pods.prefill or "", pods.decode or ""])
        result = given.added(with_fates(cluster, found.pods, result), deployment, logs)
        return result if result.outcome == "pass" else replace(result, clues=diagnose(result.cause, logs))

    return act


def _remembering(deployment: Deployment, settings: Settings, key: str, given: Given) -> Act:
    """Check again and again."""
    memory = Memory()
    return lambda: given.added(
        check_once(Client(settings.request_limit_s, key), deployment, settings, memory), deployment
    )


def _router(url: str | None, faults: Faults) -> str | None:
    return None if url is None else base_url("--router", url, faults)


def _judge_log(path: str, limit_ms: float) -> Result:
    clues = Clues()
    return judge_logs([_log_file(path, clues)], limit_ms, clues)


def _log_file(path: str, clues: Clues) -> tuple[str, LogFigures | None]:
    """(name, figures); what else it says goes to `clues`. Raises CannotCheck."""
    if path == "-":
        return "stdin", read_log("stdin", clues.read("stdin", sys.stdin))
    try:
        with open(path, errors="replace") as file:
            return path, read_log(path, clues.read(path, file))
    except OSError as error:
        raise CannotCheck([Fault("usage", f"--decode-log: {path} can't be read: {error.strerror}; wanted a file, or - "
                                 "for stdin")]) from None  # fmt: skip


def _judge_pod_logs(pods: Pods, limit_ms: float) -> Result:
    from components.check.pods import logs

    found, clues = logs(pods.connect(), pods.decode or ""), Clues()
    figures = [(name, read_log(name, clues.read(name, text.splitlines()))) for name, text in found.items()]
    return judge_logs(figures, limit_ms, clues)


def _repeat(act: Act, limit_s: float, limit_ms: float, output: Output, watch_s: float | None) -> int:
    """The exit code of the last check; 130 where the first one was interrupted."""
    code = INTERRUPTED
    try:
        with ends_by_signal():
            while True:
                result = _limited(act, limit_s, limit_ms)
                output.show(result)
                code = result.exit_code
                if watch_s is None:
                    return code
                time.sleep(watch_s)
    except KeyboardInterrupt:
        typer.echo("stopped; nothing was left running", err=True)
        return code if watch_s is not None else INTERRUPTED


def _limited(act: Act, limit_s: float, limit_ms: float) -> Result:
    try:
        with limited(limit_s):
            return act()
    except CannotCheck as error:
        return unmeasured(error.faults, limit_ms)
    except TookTooLong:
        return unmeasured([Fault("took-too-long", (
            f"the check took more than {limit_s:g} s; give it its time (--limit-s), fewer --samples, --age off, or shorter "
            "--prompt-tokens"))], limit_ms)  # fmt: skip
