"""A table as plain text, for a run's output."""

from __future__ import annotations

import io

from rich.console import Console
from rich.table import Table

WIDTH = 118


def table_text(table: Table) -> str:
    console = Console(width=WIDTH, no_color=True, record=True, file=io.StringIO())
    console.print(table)
    return console.export_text().rstrip()
