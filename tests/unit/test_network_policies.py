"""Who reaches whom in the namespace: Kubernetes' own rules, applied to the policies and to pods as they are labelled."""

from __future__ import annotations

from typing import Any

import pytest

from components.serving.labels import pod_labels
from components.serving.network_policies import NetworkPoliciesArgs, policies
from tests.unit.test_nodes import wrong_fields

ENGINE, ROUTER, ROUTER_METRICS, SIDE_CHANNEL, RENDER_PORT = 8000, 8080, 9090, 5600, 8001
SPECS = policies(NetworkPoliciesArgs("splitserve", ENGINE, ROUTER, ROUTER_METRICS, RENDER_PORT))

Labels = dict[str, str] | None
OUTSIDE: Labels = None
"""A pod of another namespace, or no pod at all: a node, a load balancer, the API server's proxy."""
PREFILL, DECODE, COLLOCATED, FRONT, RENDER, ENCODER = (
    pod_labels("r1", tier) for tier in ("prefill", "decode", "collocated", "router", "render", "encoder")
)
STRANGER: Labels = {"app": "a-pod-of-somebody-in-the-namespace"}
PROBE: Labels = {"app.kubernetes.io/managed-by": "splitserve", "app.kubernetes.io/component": "probe"}
"""As components/release/probe_job.py labels its pods."""


def selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    """A label selector of matchLabels and `In` expressions; an empty one selects everything."""
    assert selector.keys() <= {"matchLabels", "matchExpressions"}
    for expression in selector.get("matchExpressions", []):
        assert expression["operator"] == "In"
        if labels.get(expression["key"]) not in expression["values"]:
            return False
    return selector.get("matchLabels", {}).items() <= labels.items()


def admits(rule: dict[str, Any], source: Labels, port: int) -> bool:
    """One ingress rule: `from` and `ports` must both fit, and what is left out fits everything."""
    peers, ports = rule.get("from"), rule.get("ports")
    from_fits = peers is None or any(source is not None and selects(peer["podSelector"], source) for peer in peers)
    return from_fits and (ports is None or any((p["protocol"], p["port"]) == ("TCP", port) for p in ports))


def reaches(source: Labels, target: dict[str, str], port: int, specs: dict[str, Any] = SPECS) -> bool:
    """Kubernetes' rule: a pod that no policy selects is open; else some policy must admit ("Network Policies")."""
    binding = [spec for spec in specs.values() if selects(spec["podSelector"], target)]
    assert all(spec["policyTypes"] == ["Ingress"] for spec in binding)
    return not binding or any(admits(rule, source, port) for spec in binding for rule in spec.get("ingress", []))


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_every_field_is_one_that_kubernetes_has(spec: dict[str, Any]) -> None:
    assert list(wrong_fields(spec, "V1NetworkPolicySpec")) == []


def test_whatever_routes_reaches_bootstrap_servers_only_where_there_are_any() -> None:
    with_them = policies(NetworkPoliciesArgs("splitserve", ENGINE, ROUTER, ROUTER_METRICS, RENDER_PORT, SIDE_CHANNEL))
    assert not reaches(FRONT, PREFILL, SIDE_CHANNEL)
    assert reaches(FRONT, PREFILL, SIDE_CHANNEL, with_them)
    assert not reaches(FRONT, DECODE, SIDE_CHANNEL, with_them)
    assert not reaches(STRANGER, PREFILL, SIDE_CHANNEL, with_them)
    assert list(wrong_fields(with_them["bootstrap"], "V1NetworkPolicySpec")) == []


@pytest.mark.parametrize("source", [OUTSIDE, STRANGER])
def test_clients_reach_the_router(source: Labels) -> None:
    assert reaches(source, FRONT, ROUTER)


@pytest.mark.parametrize("target", [PREFILL, DECODE, COLLOCATED])
def test_the_router_reaches_the_engines_and_scrapers_their_metrics(target: dict[str, str]) -> None:
    """vLLM serves metrics and requests on one port."""
    assert reaches(FRONT, target, ENGINE) and reaches(OUTSIDE, target, ENGINE)
    assert reaches(OUTSIDE, FRONT, ROUTER_METRICS)


@pytest.mark.parametrize("port", [SIDE_CHANNEL, SIDE_CHANNEL + 7, 40000])
def test_the_side_channel_is_the_engines_own(port: int) -> None:
    """It has no password: who reaches it may ask for KV blocks. A rank's port is the first one's and its number."""
    for source, target in ((PREFILL, DECODE), (DECODE, PREFILL), (DECODE, DECODE)):
        assert reaches(source, target, port)
    for source in (OUTSIDE, STRANGER, FRONT):
        assert not reaches(source, PREFILL, port) and not reaches(source, DECODE, port)


def test_releases_beside_each_other_may_transfer() -> None:
    """The policies name tiers, no releases: a candidate is not cut off while it is measured."""
    assert reaches(pod_labels("r2", "prefill"), DECODE, SIDE_CHANNEL)


@pytest.mark.parametrize("target", [PREFILL, DECODE, COLLOCATED, FRONT])
def test_the_probe_reaches_all_that_it_measures(target: dict[str, str]) -> None:
    assert reaches(PROBE, target, ENGINE) and reaches(PROBE, target, ROUTER) and reaches(PROBE, target, SIDE_CHANNEL)


def test_nobody_reaches_other_ports_of_the_router_or_other_pods() -> None:
    for source in (OUTSIDE, STRANGER, PREFILL):
        assert not reaches(source, FRONT, 22)
        assert STRANGER is not None and not reaches(source, STRANGER, ROUTER)


def test_the_gateway_the_probe_and_scrapers_reach_the_render_tier_and_nothing_else_of_it() -> None:
    assert all(reaches(source, RENDER, RENDER_PORT) for source in (FRONT, PROBE, OUTSIDE))
    assert not reaches(OUTSIDE, RENDER, SIDE_CHANNEL)
    assert not reaches(STRANGER, RENDER, ENGINE + 1000)


def test_engines_alone_read_embeddings_from_encoders() -> None:
    assert reaches(ENCODER, PREFILL, 40000) and not reaches(ENCODER, FRONT, 22)
    for port in (SIDE_CHANNEL + 1, 40000):
        assert reaches(PREFILL, ENCODER, port) and reaches(COLLOCATED, ENCODER, port) and reaches(PROBE, ENCODER, port)
        assert not any(reaches(source, ENCODER, port) for source in (OUTSIDE, STRANGER, FRONT, RENDER))
    assert all(reaches(source, ENCODER, ENGINE) for source in (FRONT, PROBE, OUTSIDE))
