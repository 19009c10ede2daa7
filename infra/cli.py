"""`splitserve`: what `pulumi` can't do."""

from __future__ import annotations

import typer

from infra.commands import aws, deployed, planning
from infra.commands.bench import bench
from infra.commands.check import check
from infra.commands.discover import discover
from infra.commands.observe import alerts, dashboard
from infra.commands.orphans import orphans
from infra.commands.preflight import preflight
from infra.commands.pull_request import comment, touched

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)
for command in (
    planning.expect, planning.advise, planning.report, planning.schema, planning.rules, planning.settings,
    planning.outputs, aws.instances, aws.prices, preflight, discover, orphans, deployed.status, deployed.ask, bench, check,
    touched, comment, alerts, dashboard,
):  # fmt: skip
    app.command()(command)


if __name__ == "__main__":
    app()
