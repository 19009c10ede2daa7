"""How a command ends when its user asked for something that can't be: one message, exit code 2."""

from __future__ import annotations

from typing import NoReturn

import typer


def complain(message: str) -> NoReturn:
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(2)
