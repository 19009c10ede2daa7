"""What a plan is worth before it is built, and what may be written and read: expect, advise, report, schema, rules,
settings, outputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from components.hardware.catalogue import UnknownInstance
from components.hardware.known_models import UnknownModel, known_model
from components.hardware.prices import price
from components.hardware.traffic import Traffic
from components.hardware.traffic import advise as advise_on
from infra.commands.aws import listed_price_of
from infra.commands.complain import complain
from infra.commands.stack_file import stack_file_values
from infra.outputs_table import outputs_table
from infra.plan_report import plan_markdown, plan_text
from infra.plan_summary import summary
from infra.question import Question, judge_question, plan_of
from infra.read_plan import errors_of, inspect_plan
from infra.rules.rule_table import rule_table
from infra.schema.operation import Traffic as Profile
from infra.schema.settings_table import settings_table
from infra.settings import Settings, SettingsError, json_schema, validated

PROJECT_FOLDER = Path(__file__).resolve().parents[2]

Model = Annotated[str, typer.Option(help="a known model's name, or the path of a config.json")]
InstanceType = Annotated[str | None, typer.Option(help="EC2 instance type of both tiers")]
LinkName = Annotated[str | None, typer.Option(help="instead of an instance: nvlink, ib-ndr, roce-200, tcp, …")]
PromptTokens = Annotated[int, typer.Option(min=1, max=10**8, help="length of one prompt")]
Tp = Annotated[int | None, typer.Option(min=1, max=1024, help="GPUs an engine; default: as few as hold the model")]
BlockSize = Annotated[int, typer.Option(min=1, max=65536, help="tokens a KV block")]
AsJson = Annotated[bool, typer.Option("--json", help="one JSON object")]
Format = Annotated[Literal["text", "markdown", "json"], typer.Option(help="how to print")]


def expect(model: Model, prompt_tokens: PromptTokens, instance: InstanceType = None, link: LinkName = None,
           tp: Tp = None, block_size: BlockSize = 128, dtype: str = "bfloat16", kv_cache_dtype: str = "auto",
           limit_ms: float = 100.0, backend: str = "auto", as_json: AsJson = False) -> None:  # fmt: skip
    """How long the KV cache of one prompt takes from prefill to decode, and whether that is in the limit."""
    question = Question(_config(model), prompt_tokens, instance, link, tp, block_size, dtype, kv_cache_dtype, limit_ms,
                        backend)  # fmt: skip
    answer = _answered(question)
    if as_json:
        print(json.dumps(answer))
    else:
        for key, value in answer.items():
            print(f"{key:<18} {_readable(value)}")
    raise typer.Exit(0 if answer["ok"] else 1)


def advise(prompt_tokens: PromptTokens,
           output_tokens: Annotated[int, typer.Option(help="length of one answer")],
           rate_per_s: Annotated[float, typer.Option(help="mean requests per second")],
           burstiness: Annotated[float, typer.Option(help="peak over mean rate")] = 1.0,
           ttft_target_ms: float | None = None,
           itl_p99_target_ms: float | None = None,
           collocated_itl_p99_ms: Annotated[float | None, typer.Option(help="as measured")] = None,
           growing_context: bool = False, cpu_bound: bool = False,
           model: Annotated[str | None, typer.Option(help="with an instance or a link: adds the transfer")] = None,
           instance: InstanceType = None, link: LinkName = None, tp: Tp = None, block_size: BlockSize = 128,
           limit_ms: float = 100.0, as_json: AsJson = False) -> None:  # fmt: skip
    """Split prefill from decode, or stay collocated? With reasons, from a traffic profile."""
    transfer_ms = None
    if model and (instance or link):
        question = Question(_config(model), prompt_tokens, instance, link, tp, block_size, limit_ms=limit_ms)
        transfer_ms = _answered(question)["aged_ms"]
    profile = {"promptTokens": prompt_tokens, "outputTokens": output_tokens, "ratePerS": rate_per_s,
               "burstiness": burstiness, "ttftTargetMs": ttft_target_ms, "itlP99TargetMs": itl_p99_target_ms,
               "collocatedItlP99Ms": collocated_itl_p99_ms, "growingContext": growing_context,
               "cpuBound": cpu_bound}  # fmt: skip
    try:
        stated = validated(Profile, {key: value for key, value in profile.items() if value is not None}, "traffic")
    except SettingsError as error:
        complain(str(error))
    traffic = Traffic(**stated.model_dump())
    found = advise_on(traffic, transfer_ms, limit_ms)
    answer = {"choice": found.choice, "reasons": list(found.reasons), "render_tier": found.render_tier,
              "shared_cache": found.shared_cache, "transfer_ms": transfer_ms}  # fmt: skip
    if as_json:
        print(json.dumps(answer))
        return
    print({"split": "split", "collocated": "stay collocated", "measure": "measure first"}[found.choice])
    for reason in found.reasons:
        print(f"  - {reason}")
    if found.render_tier:
        print("  - templating or parsing shows on the GPU nodes: a render tier of its own pays by itself")


def report(stack: Annotated[str, typer.Option(help="a stack file's name: stacks/Pulumi.<name>.yaml")] = "local",
           format: Format = "text",
           listed: Annotated[bool, typer.Option(help="prices from AWS's price list; needs credentials")] = False,
           ) -> None:  # fmt: skip
    """The plan of a stack file: tiers, KV transfer against the limit, cost, findings, advice."""
    values = stack_file_values(PROJECT_FOLDER, stack)
    try:
        plan, files, found = inspect_plan(values, PROJECT_FOLDER, stack)
    except SettingsError as error:
        complain(str(error))
    price_of = listed_price_of if listed else price
    if format == "json":
        findings = [{"rule": f.rule, "severity": f.severity, "text": str(f)} for f in found]
        print(
            json.dumps(
                {
                    "stack": stack,
                    **summary(plan, price_of).to_json(),
                    "findings": findings,
                    "faults": list(files.faults),
                }
            )
        )
    elif format == "markdown":
        print(plan_markdown(plan, found, files.faults, price_of), end="")
    else:
        print(plan_text(plan, price_of))
        for text in [*(f"error: {fault}" for fault in files.faults), *(f"{f.severity}: {f}" for f in found)]:
            print(text)
    raise typer.Exit(1 if errors_of(files, found) else 0)


def schema(output: Annotated[Path | None, typer.Option(help="a file, instead of standard output")] = None) -> None:
    """JSON Schema of a stack file, for editors that complete and check YAML."""
    text = json.dumps(json_schema(), indent=1)
    if output:
        output.write_text(text + "\n")
    else:
        print(text)


def rules() -> None:
    """Every rule that a plan must hold to, as a Markdown table with sources."""
    print(rule_table(), end="")


def settings() -> None:
    """Every setting of a stack file, as Markdown tables."""
    print(settings_table(Settings), end="")


def outputs() -> None:
    """Every output of a serving stack, as Markdown tables: what other stacks may rely on."""
    print(outputs_table(), end="")


def _config(model: str) -> dict[str, Any]:
    path = Path(model)
    try:
        if path.suffix == ".json" or path.is_file():
            content = json.loads(path.read_text())
            if not isinstance(content, dict):
                complain(f"--model: {path} holds no JSON object")
            return content
        return known_model(model)
    except UnknownModel as error:
        complain(f"--model: {error}")
    except (OSError, ValueError) as error:
        complain(f"--model: {path} can't be read: {error}")


def _answered(question: Question) -> dict[str, Any]:
    try:
        return judge_question(question, plan_of(question))
    except (SettingsError, UnknownInstance) as error:
        complain(str(error))


def _readable(value: Any) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, list):
        return "; ".join(value) or "-"
    return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) and not isinstance(
        value, bool) else str(value)  # fmt: skip
