"""The API of the Prometheus operator, as far as objects of ours are of it."""

from __future__ import annotations

API_VERSION = "monitoring.coreos.com/v1"
GROUP = "monitoring.coreos.com"
POD_MONITOR = "PodMonitor"
PROMETHEUS_RULE = "PrometheusRule"
PLURALS = ("podmonitors", "prometheusrules")
"""As in a URL, and in a Role."""
