"""The Grafana dashboard, built with Grafana's own typed library (grafana-foundation-sdk) from `panels.py`.

Only this module imports the library, which costs half a second: it is imported where a dashboard is asked for.
"""

from __future__ import annotations

from grafana_foundation_sdk.builders.common import GraphThresholdsStyleConfig, VizLegendOptions
from grafana_foundation_sdk.builders.dashboard import (
    Dashboard,
    DatasourceVariable,
    QueryVariable,
    Row,
    ThresholdsConfig,
)
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.builders.timeseries import Panel
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import (
    DataSourceRef,
    GraphThresholdsStyleMode,
    LegendDisplayMode,
    LegendPlacement,
)
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    Threshold,
    ThresholdsMode,
    VariableOption,
    VariableRefresh,
)

from components.observability.limits import AlertLimits
from components.observability.panels import Graph, sections
from components.observability.targets import RELEASE

TITLE = "splitserve: KV path and serving"
COLUMNS = 3
WIDTH = 24 // COLUMNS
"""Grafana's grid has 24 columns."""
HEIGHT = 8
SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
ALWAYS = "vllm:prompt_tokens_total"
"""The series that tells which namespaces and releases there are: every engine has it from its start."""


def dashboard_json(limits: AlertLimits, uid: str = "splitserve") -> str:
    """Its JSON, for an import in Grafana or a provisioned file. The same limits give the same text."""
    return JSONEncoder(sort_keys=True, indent=1).encode(build(limits, uid).build())


def build(limits: AlertLimits, uid: str) -> Dashboard:
    """Rows of three graphs, each over the variables `datasource`, `namespace` and `release`."""
    made = (
        Dashboard(TITLE)
        .uid(uid)
        .tags(["splitserve", "vllm"])
        .time("now-3h", "now")
        .refresh("30s")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .with_variable(DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
        .with_variable(_variable("namespace", f"label_values({ALWAYS}, namespace)", chosen=limits.namespace))
        .with_variable(_variable(RELEASE_VARIABLE, f'label_values({ALWAYS}{{namespace="$namespace"}}, {RELEASE})'))
    )
    for section in sections(limits):
        made = made.with_row(Row(section.title))
        for graph in section.graphs:
            made = made.with_panel(_panel(graph))
    return made


RELEASE_VARIABLE = "release"


def _variable(name: str, query: str, chosen: str | None = None) -> QueryVariable:
    """One namespace at a time; of its releases all, unless some are chosen."""
    made = QueryVariable(name).label(name).query(query).datasource(SOURCE)
    made = made.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
    if chosen:
        return made.current(VariableOption(selected=True, text=chosen, value=chosen))
    everything = VariableOption(selected=True, text="All", value="$__all")
    return made.multi(True).include_all(True).all_value(".*").current(everything)


def _panel(graph: Graph) -> Panel:
    panel = (
        Panel()
        .title(graph.title)
        .description(graph.about)
        .unit(graph.unit)
        .min(0)
        .span(WIDTH)
        .height(HEIGHT)
        .datasource(SOURCE)
        .legend(
            VizLegendOptions().display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM).show_legend(True)
        )
    )
    for number, query in enumerate(graph.queries):
        wanted = Dataquery().expr(query.expr).legend_format(query.legend).ref_id(chr(ord("A") + number))
        panel = panel.with_target(wanted.datasource(SOURCE))
    return panel if graph.limit is None else _with_limit(panel, graph.limit)


def _with_limit(panel: Panel, limit: float) -> Panel:
    """A dashed line, and red above it."""
    steps = [Threshold(value=None, color="green"), Threshold(value=limit, color="red")]
    style = GraphThresholdsStyleConfig().mode(GraphThresholdsStyleMode.DASHED)
    return panel.thresholds(ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps)).thresholds_style(style)
