"""`splitserve orphans`: what a killed update left on AWS, and how to remove it."""

from __future__ import annotations

import functools
import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import boto3
import typer
from botocore.exceptions import BotoCoreError, ClientError

from components.platform.node_count import RETRIES
from infra.commands.complain import complain
from infra.orphans import clusters, forget_command, pending_routes
from infra.orphans import orphans as lost_of
from infra.orphans import region as region_of
from infra.tagged import Found, find

PROJECT_FOLDER = Path(__file__).resolve().parents[2]


def orphans(
    stack: Annotated[str, typer.Option(help="the Pulumi stack")],
    region: Annotated[str | None, typer.Option(help="the region to ask; else that of the stack's state")] = None,
    state_file: Annotated[Path | None, typer.Option(help="what `pulumi stack export` printed")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print one line of JSON")] = False,
) -> None:
    """What is on AWS with the stack's tag and not in its state. Changes nothing; exit code 1: there is some.

    After an update that was killed: `pulumi cancel`, this, the commands that it prints, `pulumi up`.
    Not while an update runs, which shows what it makes just now. And look before you remove: after
    `pulumi state delete`, or with a state from a backup, things in use are listed too.
    """
    state = _state(stack, state_file)
    where = region or region_of(state) or os.environ.get("AWS_REGION")
    if not where:
        complain(f"the state of stack {stack} names no region; give --region")
    try:
        client = functools.cache(lambda service: boto3.client(service, region_name=where, config=RETRIES))
        lost = lost_of(state, find(client, stack, pending_routes(state), clusters(state)))
    except (BotoCoreError, ClientError) as error:
        complain(f"AWS in {where} can't be asked: {error}")
    forget = forget_command(state, stack)
    content = {"region": where, "orphans": [asdict(found) for found in lost], "forget": forget}
    print(json.dumps(content) if as_json else _text(stack, where, lost, forget))
    if lost:
        raise typer.Exit(1)


def _state(stack: str, state_file: Path | None) -> dict[str, Any]:
    if state_file:
        try:
            return json.loads(state_file.read_text())
        except (OSError, ValueError) as error:
            complain(f"{state_file} can't be read: {error}")
    command = ["pulumi", "stack", "export", "--stack", stack, "--non-interactive"]
    try:
        done = subprocess.run(command, cwd=PROJECT_FOLDER, capture_output=True, text=True, check=True)
    except FileNotFoundError:
        complain('no `pulumi` on PATH; run: eval "$(make -s env)"')
    except subprocess.CalledProcessError as error:
        complain(f"stack {stack} can't be read: {error.stderr.strip()}")
    return json.loads(done.stdout)


def _text(stack: str, region: str, lost: Sequence[Found], forget: str) -> str:
    lines = [f"{len(lost)} thing(s) of stack {stack} in {region} are not in its state"]
    lines += ["", f"export AWS_REGION={region}"] if lost else []
    for found in lost:
        lines += ["", f"{found.kind}  {found.id}" + (f"  ({found.state})" if found.state else "")]
        lines += [f"  {command}" for command in found.remove]
    if forget:
        lines += ["", "then forget the creations that were under way:", f"  {forget}"]
    return "\n".join(lines)
