"""The rules of the policy pack, as plain functions."""

from __future__ import annotations

from typing import Any

import pytest
from pulumi_policy import PolicyResourceOptions, ResourceValidationArgs

from policies.pods import no_privileged_pods
from tests.unit.test_release import build

DEPLOYMENT = "kubernetes:apps/v1:Deployment"


def violations(kind: str, properties: dict[str, Any]) -> list[str]:
    found: list[str] = []
    options = PolicyResourceOptions(False, [], False, [], None, [], None)  # type: ignore[arg-type]
    args = ResourceValidationArgs(kind, properties, "urn", "name", options, None)
    no_privileged_pods(args, lambda message, *_: found.append(message))
    return found


def deployment(security: dict[str, Any] | None) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"containers": [{"name": "c", "securityContext": security}]}}}}


@pytest.mark.parametrize("security", [None, {}, {"privileged": True}, {"allowPrivilegeEscalation": True}])
def test_a_container_that_may_gain_privileges_is_reported(security: dict[str, Any] | None) -> None:
    assert violations(DEPLOYMENT, deployment(security))


def test_an_init_container_counts() -> None:
    properties = deployment({"allowPrivilegeEscalation": False})
    properties["spec"]["template"]["spec"]["initContainers"] = [{"name": "i"}]
    assert any("`i`" in message for message in violations(DEPLOYMENT, properties))


@pytest.mark.parametrize("tier", ["prefill", "decode", "router"])
def test_our_own_pods_pass(tier: str) -> None:
    assert violations(DEPLOYMENT, {"spec": {"template": {"spec": build().pods[tier]}}}) == []
