"""`splitserve check` where only its own needs are installed: `python3 -m tools.gpu.check --prefill URL --decode URL …`."""

from __future__ import annotations

import typer

from infra.commands.check import check

app = typer.Typer(add_completion=False)
app.command()(check)

if __name__ == "__main__":
    app()
