"""`splitserve preflight`: whether AWS could build a stack file's cluster now. Changes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
import yaml
from rich.table import Table

from components.platform.preflight.answer import Answer, Outcome, worst
from components.platform.preflight.page import checks_table, iam_policy
from components.platform.preflight.run import run_checks
from infra.aws_preflight import judged, wanted
from infra.commands.complain import complain
from infra.naming import CONFIG_PREFIX
from infra.plan import Plan
from infra.read_plan import inspect_plan
from infra.settings import SettingsError
from infra.table_text import table_text

PROJECT_FOLDER = Path(__file__).resolve().parents[2]
EXIT_CODES: dict[Outcome, int] = {"ok": 0, "fault": 1, "unknown": 2}
WORDS: dict[Outcome, str] = {"ok": "ok", "fault": "FAULT", "unknown": "could not check"}

StackFile = Annotated[Path, typer.Option(help="such as stacks/Pulumi.prod.yaml")]
AsJson = Annotated[bool, typer.Option("--json", help="one line of JSON")]


def preflight(stack_file: StackFile, as_json: AsJson = False) -> None:
    """Whether AWS could build the cluster now. Exit code 0: yes; 1: no; 2: something could not be checked."""
    stack = stack_of(stack_file)
    plan = read_stack_file(stack_file, stack)
    try:
        asked = wanted(plan, stack)
    except ValueError as error:
        complain(f"{stack_file}: {error}")
    outcomes = run_checks(asked)
    _, errors, warnings = judged(plan, outcomes)
    answers = [*outcomes.answers, *(Answer("fault", f.key, f.found, f.wanted, f.fix, f.rule) for f in errors)]
    outcome = worst(answers)
    if as_json:
        print(answers_json(stack, asked.region, answers, [str(warning) for warning in warnings]))
    else:
        print(answers_text(answers))
        for warning in warnings:
            print(f"warning: {warning}")
    raise typer.Exit(EXIT_CODES[outcome])


def stack_of(path: Path) -> str:
    """`prod` of Pulumi.prod.yaml."""
    parts = path.name.split(".")
    return parts[1] if len(parts) == 3 and parts[0] == "Pulumi" else path.stem


def read_stack_file(path: Path, stack: str) -> Plan:
    """The plan of a stack file; ends the command with one message where it can't be read.

    Errors of the rules don't matter here: `splitserve report` says them.
    """
    try:
        content = yaml.safe_load(path.read_text())
    except OSError as error:
        complain(f"--stack-file: {path} can't be read: {error.strerror}")
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        complain(f"{path} is not YAML: {error}")
    if not isinstance(content, dict) or not isinstance(content.get("config"), dict):
        complain(f"{path}: found no `config` with keys, wanted a stack file")
    try:
        values = {str(key).removeprefix(CONFIG_PREFIX): value for key, value in content["config"].items()}
        return inspect_plan(values, PROJECT_FOLDER, stack)[0]
    except SettingsError as error:
        complain(str(error))


def answers_json(stack: str, region: str, answers: list[Answer], warnings: list[str]) -> str:
    rows = [{"check": a.check, "outcome": a.outcome, "key": a.key, "found": a.found, "wanted": a.wanted, "fix": a.fix}
            for a in answers]  # fmt: skip
    return json.dumps(
        {"stack": stack, "region": region, "outcome": worst(answers), "answers": rows, "warnings": warnings}
    )


def answers_text(answers: list[Answer]) -> str:
    """A table of every answer, what is wrong first, and one line that sums them up."""
    table = Table(box=None, pad_edge=False)
    for title in ("check", "answer", "found", "wanted, way out"):
        table.add_column(title, overflow="fold")
    order: tuple[Outcome, ...] = ("fault", "unknown", "ok")
    for answer in sorted(answers, key=lambda answer: order.index(answer.outcome)):
        way_out = "; ".join(part for part in (answer.wanted, answer.fix) if part)
        table.add_row(answer.check, WORDS[answer.outcome], f"{answer.key}: {answer.found}", way_out)
    counts = {outcome: sum(answer.outcome == outcome for answer in answers) for outcome in order}
    rows = "\n".join(line.rstrip() for line in table_text(table).splitlines())
    return f"{rows}\n\n{counts['fault']} fault(s), {counts['unknown']} could not be checked, {counts['ok']} ok"


EXAMPLE = (
    Answer("ok", "AWS credentials", "account 123456789012, arn:aws:iam::123456789012:user/deployer",
           check="credentials"),
    Answer("ok", "platform.aws.zone", "us-east-1a is use1-az6, available", check="zone"),
    Answer("fault", "platform.aws.nodeGroups.decode.nodes",
           "Running On-Demand P instances: 384, 192 vCPUs in use beside this plan's", "384 vCPUs",
           "request 576 for quota L-417A185B (ec2) in Service Quotas", "vcpu-quota"),
    Answer("unknown", "platform.aws.kubernetesVersion", "not allowed to ask (AccessDeniedException)",
           fix="allow the IAM action eks:DescribeClusterVersions", check="kubernetes-version"),
)  # fmt: skip


def page() -> str:
    """docs/reference/preflight.md."""
    return f"""# Preflight

Asked of AWS by `pulumi preview` and `pulumi up` before anything is declared, and by
`splitserve preflight --stack-file stacks/Pulumi.prod.yaml`. It reads and changes nothing. All faults come in one
message, and stop an update. What could not be checked (throttled, not allowed, no answer, not there in the
region) is said as a warning, and never taken for ok: exit code 2 of the command. Exit code 1: a fault.
`--json` prints one line.

## Checks

{checks_table()}

Not checked: the quota of Spot Instances of the P6 families and that of GR types, whose codes the source does not
have; that a region is low on capacity, which only a reservation rules out.

## IAM policy

```json
{iam_policy()}
```

## Example

```text
{answers_text(list(EXAMPLE))}
```

Made from `components/platform/preflight/` by `infra.commands.preflight.page`.
"""
