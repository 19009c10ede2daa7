"""Which series there are: those of recorded pages, and those that the gateway and the autoscaler make themselves."""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest

from components.autoscaler.telemetry import Telemetry as AutoscalerTelemetry
from components.gateway.telemetry import Telemetry as GatewayTelemetry

PAGES = sorted((Path(__file__).parent / "scrapes").glob("*.prom"))
TYPED = re.compile(r"^# TYPE (\S+) (\w+)$")
SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? ")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
HISTOGRAM = ("_bucket", "_sum", "_count")
OF_PROMETHEUS = frozenset({"up"})
"""What Prometheus itself makes of every scrape."""


def series_of_page(text: str) -> set[str]:
    """Names as they are queried. A family without a sample yet is there by its type."""
    found: set[str] = set()
    for line in text.splitlines():
        if typed := TYPED.match(line):
            found |= {typed[1] + end for end in HISTOGRAM} if typed[2] == "histogram" else {typed[1]}
        elif sample := SAMPLE.match(line):
            found.add(sample[1])
    return found


def labels_of_page(text: str) -> dict[str, dict[str, set[str]]]:
    """By series, every label and its values."""
    found: dict[str, dict[str, set[str]]] = {}
    for line in text.splitlines():
        if not line.startswith("#") and (sample := SAMPLE.match(line)):
            of_series = found.setdefault(sample[1], {})
            for name, value in LABEL.findall(sample[2] or ""):
                of_series.setdefault(name, set()).add(value)
    return found


def own_pages() -> list[str]:
    registries: list[CollectorRegistry] = [
        GatewayTelemetry(("prefill", "decode")).registry,
        AutoscalerTelemetry({"decode": {"queue": 1.0}}, 60).registry,
    ]
    return [generate_latest(registry).decode() for registry in registries]


def exported() -> set[str]:
    pages = [*(page.read_text() for page in PAGES), *own_pages()]
    return set().union(*map(series_of_page, pages)) | OF_PROMETHEUS
