"""What watches a stack, as files: rules and a scrape configuration for a plain Prometheus, the dashboard for Grafana."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
import yaml

from components.observability.limits import AlertLimits
from components.observability.operator_api import API_VERSION, PROMETHEUS_RULE
from infra.commands.complain import complain
from infra.commands.stack_file import stack_file_values
from infra.observability import alert_limits
from infra.read_plan import inspect_plan
from infra.settings import Settings, SettingsError

PROJECT_FOLDER = Path(__file__).resolve().parents[2]
Stack = Annotated[str, typer.Option(help="a stack file's name: stacks/Pulumi.<name>.yaml")]
Format = Annotated[
    Literal["rules", "prometheus-rule", "scrape"],
    typer.Option(help="a rules file, the operator's object of the same content, or a scrape configuration"),
]
Kubeconfig = Annotated[
    str | None, typer.Option(help="with --format scrape: of a cluster that Prometheus does not run in")
]


def alerts(stack: Stack = "local", format: Format = "rules", kubeconfig: Kubeconfig = None) -> None:
    """Recording rules and alerts of a stack as YAML, on its gate's own limit; or how to scrape its pods."""
    from components.observability.rules import RULE_NAME, rules_file  # Pulumi's SDK, which other commands spare
    from components.observability.scrape import scrape_configuration

    settings, limits = _of(stack)
    content: dict[str, Any] = rules_file(limits)
    if format == "prometheus-rule":
        metadata = {"name": RULE_NAME, "namespace": limits.namespace, "labels": settings.observability.labels}
        content = {"apiVersion": API_VERSION, "kind": PROMETHEUS_RULE, "metadata": metadata, "spec": content}
    elif format == "scrape":
        content = scrape_configuration(limits.namespace, settings.observability.scrape_interval_s, kubeconfig)
    print(yaml.safe_dump(content, sort_keys=False, width=110, allow_unicode=True), end="")


def dashboard(stack: Stack = "local") -> None:
    """The Grafana dashboard of a stack as JSON, KV path first: import it, or provision it as a file."""
    from components.observability.dashboard import dashboard_json

    print(dashboard_json(_of(stack)[1]))


def _of(stack: str) -> tuple[Settings, AlertLimits]:
    """A stack file's settings and limits; complains of a plan that rules refuse."""
    values = stack_file_values(PROJECT_FOLDER, stack)
    try:
        plan, _, found = inspect_plan(values, PROJECT_FOLDER, stack)
    except SettingsError as error:
        complain(str(error))
    if plan.settings.platform.layers == "cluster":
        complain(f"--stack: {stack} makes a cluster and serves nothing; wanted the stack with layers: serving")
    if errors := [str(finding) for finding in found if finding.severity == "error"]:
        complain(str(SettingsError(stack, errors)))
    return plan.settings, alert_limits(plan.settings)
