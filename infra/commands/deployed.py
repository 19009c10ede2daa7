"""Ask a deployed stack: its status, and one question to its front door."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer

from splitserve import names

PROJECT_FOLDER = Path(__file__).resolve().parents[2]
REQUEST_LIMIT_S = 120
Stack = Annotated[str, typer.Option(help="the Pulumi stack")]


def status(stack: Stack = "local") -> None:
    """Print one line of JSON: endpoint, model, live release, and the last gate's verdict and times."""
    print(json.dumps(status_of(stack_outputs(stack))))


def status_of(found: Mapping[str, Any]) -> dict[str, Any]:
    """The line's content. Times are the last gate's own: after a refused release the engine keeps an
    output's last value where the new one is null."""
    judged = found.get(names.GATE, {}).get("verdict", {})
    return {
        "endpoint": found.get(names.ENDPOINT),
        "model": found.get(names.MODEL),
        "live": found.get(names.LIVE),
        "verdict": found.get(names.VERDICT),
        "kv_transfer_ms": judged.get("kv_transfer_ms"),
        "kv_transfer_aged_ms": judged.get("kv_transfer_aged_ms"),
    }


def ask(question: str, stack: Stack = "local") -> None:
    """Send one chat completion through the front door and print the answer."""
    found = stack_outputs(stack)
    endpoint = found[names.ENDPOINT]
    body = {
        "model": found[names.MODEL],
        "messages": [{"role": "user", "content": question}],
        "max_tokens": 16,
        "temperature": 0,
    }
    try:
        reply = httpx.post(f"{endpoint}/v1/chat/completions", json=body, timeout=REQUEST_LIMIT_S, trust_env=False)
        reply.raise_for_status()
    except httpx.HTTPError as error:
        typer.echo(f"error: {endpoint} does not answer: {error}", err=True)
        raise typer.Exit(1) from None
    answer = reply.json()["choices"][0]["message"]["content"]
    print(json.dumps({"endpoint": endpoint, "question": question, "answer": answer}))


def stack_outputs(stack: str) -> dict[str, Any]:
    command = ["pulumi", "stack", "output", "--json", "--stack", stack, "--non-interactive"]
    try:
        printed = subprocess.run(command, cwd=PROJECT_FOLDER, capture_output=True, text=True, check=True)
    except FileNotFoundError:
        typer.echo('error: no `pulumi` on PATH; run: eval "$(make -s env)"', err=True)
        raise typer.Exit(1) from None
    except subprocess.CalledProcessError as error:
        typer.echo(f"error: stack {stack} can't be read: {error.stderr.strip()}", err=True)
        raise typer.Exit(1) from None
    found = json.loads(printed.stdout)
    if names.ENDPOINT not in found:
        typer.echo(f"error: stack {stack} was not deployed yet; run: make up", err=True)
        raise typer.Exit(1)
    return found
