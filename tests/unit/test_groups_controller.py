"""The controller of engines over several nodes: its manifests, when it is installed, and who is left alone."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pulumi
import pulumi.runtime
import pytest

from components.existing.answers import Answers
from components.existing.found import Found, LeaderWorkerSets
from components.existing.read import read
from components.nodes import images
from components.nodes.leader_worker_set import (
    LeaderWorkerSetArgs,
    LeaderWorkerSetController,
    cluster_rules,
    deployment_spec,
    election_rules,
    webhooks,
)
from components.nodes.leader_worker_set_crd import render_crd
from components.release.ledger import Plan as UpdatePlan
from components.release.ledger import Proved
from components.serving.groups import group_spec
from components.serving.labels import OWNER_LABEL
from infra.leader_worker_sets import controller_args, installs
from infra.plan import Plan
from infra.settings import SettingsError, load
from policies.workloads import containers
from tests.unit.plans import prod
from tests.unit.test_groups import OVER_TWO, grouped
from tests.unit.test_groups_rules import TWO_NODES
from tests.unit.test_nodes import Recorder, wrong_fields
from tests.unit.test_release import build
from tests.unit.test_settings import values
from tools.localcluster.model import config as tiny_config

OWNER = "o.splitserve.s"
ARGS = LeaderWorkerSetArgs(OWNER)


def test_every_field_is_one_that_kubernetes_has() -> None:
    assert list(wrong_fields(deployment_spec(ARGS), "V1DeploymentSpec")) == []
    for rule in [*cluster_rules(), *election_rules()]:
        assert list(wrong_fields(rule, "V1PolicyRule")) == []
    for kind, model in (("mutate", "V1MutatingWebhook"), ("validate", "V1ValidatingWebhook")):
        assert list(wrong_fields(webhooks(kind), f"list[{model}]")) == []
    assert list(wrong_fields(render_crd(), "V1CustomResourceDefinition")) == []


def test_the_controller_is_pinned_and_unprivileged() -> None:
    pod = deployment_spec(ARGS)["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == images.LEADER_WORKER_SET.reference and "@sha256:" in container["image"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert pod["securityContext"]["runAsNonRoot"]


def test_ready_is_who_answers_webhooks_and_other_pods_never_pass_through_them() -> None:
    (container,) = deployment_spec(ARGS)["template"]["spec"]["containers"]
    assert container["readinessProbe"]["tcpSocket"]["port"] == 9443
    for hook in [*webhooks("mutate"), *webhooks("validate")]:
        if hook["rules"][0]["resources"] == ["pods"]:
            assert hook["objectSelector"]["matchExpressions"][0]["key"] == "leaderworkerset.sigs.k8s.io/name"


def schema_faults(value: Any, schema: dict[str, Any], path: str = "spec") -> list[str]:
    """Fields that the kind does not have: the API server would drop them without a word."""
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return []
    if schema.get("type") != "object":
        allowed = schema.get("enum")
        return [f"{path}: {value!r}"] if allowed and value not in allowed else []
    unknown = [f"{path}.{key}" for key in value if key not in schema["properties"]]
    missing = [f"{path}.{key} is missing" for key in schema.get("required", []) if key not in value]
    inner = [fault for key, item in value.items() if key in schema["properties"]
             for fault in schema_faults(item, schema["properties"][key], f"{path}.{key}")]  # fmt: skip
    return [*unknown, *missing, *inner]


def test_the_kind_has_every_field_that_a_release_uses() -> None:
    release = grouped()
    schema = render_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec = group_spec(release.id, "decode", release.pods["decode"], release.groups["decode"])
    assert schema_faults(spec, schema) == []
    assert schema_faults({**spec, "startupPolicy": "Never", "sise": 2}, schema) == [
        "spec.sise",
        "spec.startupPolicy: 'Never'",
    ]


def local(**more: Any) -> Plan:
    return Plan(load({**values(), **more}, "test"), tiny_config())


def seen(there: LeaderWorkerSets) -> Found:
    return replace(read(Answers({}, [])), leader_worker_sets=there)


def test_it_is_installed_only_where_a_tier_needs_it() -> None:
    assert not installs(prod())
    assert installs(prod(*TWO_NODES))
    assert installs(prod(("platform.nodeSoftware", {"leaderWorkerSets": "always"})))
    assert not installs(prod(*TWO_NODES, ("platform.nodeSoftware", {"leaderWorkerSets": "none"})))
    assert not installs(prod(*TWO_NODES, ("platform.layers", "serving")))


def test_it_stays_while_the_live_release_has_groups() -> None:
    live = UpdatePlan(Proved(grouped(), {}), build())
    assert installs(prod(), live)
    assert not installs(prod(), UpdatePlan(Proved(build(), {}), None))


@pytest.mark.parametrize(
    ("there", "installed"),
    [
        (LeaderWorkerSets(False), True),
        (LeaderWorkerSets(True, "lws-system/lws-controller-manager"), False),
        (LeaderWorkerSets(True, "lws-system/lws-controller-manager", "o.splitserve.other"), False),
        (LeaderWorkerSets(True, "lws-system/lws-controller-manager", OWNER), True),
        # The kind outlived the stack that brought it, its controller did not.
        (LeaderWorkerSets(True), True),
    ],
)
def test_nothing_is_installed_twice(there: LeaderWorkerSets, installed: bool) -> None:
    assert (controller_args(prod(*TWO_NODES), OWNER, seen(there), "test") is not None) is installed


def test_on_the_local_cluster_it_runs_the_image_that_was_made_there(tmp_path: Path) -> None:
    plan = local(**OVER_TWO)
    with pytest.raises(SettingsError, match="make groups"):
        controller_args(plan, OWNER, None, "test", project=tmp_path)
    (tmp_path / ".local").mkdir()
    (tmp_path / ".local/lws-image").write_text("splitserve.local/lws:abc\n")
    made = controller_args(plan, OWNER, None, "test", project=tmp_path)
    assert made is not None and made.image == "splitserve.local/lws:abc"


def controller(image: str, labels: dict[str, str]) -> dict[str, Any]:
    template = {"metadata": {"labels": {}}, "spec": {"containers": [{"name": "manager", "image": image}]}}
    return {"metadata": {"namespace": "lws-system", "name": "c", "labels": labels}, "spec": {"template": template}}


@pytest.mark.parametrize(
    ("image", "is_it"),
    [
        ("registry.k8s.io/lws/lws:v0.7.0@sha256:abc", True),
        ("mirror.example.com/lws:main", True),
        ("splitserve.local/lws:abc", True),
        ("example.com/laws:1", False),
        ("example.com/lws/docs:1", False),
    ],
)
def test_the_controller_is_found_by_its_image(image: str, is_it: bool) -> None:
    answers = Answers({}, [], deployments=[controller(image, {OWNER_LABEL: "x"})], leader_worker_sets=True)
    there = read(answers).leader_worker_sets
    assert (there.controller, there.owner) == (("lws-system/c", "x") if is_it else (None, None))
    assert there.whose("x") is None
    assert (there.whose("y") is not None) is is_it


def test_policies_see_every_container_of_a_group() -> None:
    release = grouped()
    spec = group_spec(release.id, "decode", release.pods["decode"], release.groups["decode"])
    kind = "kubernetes:leaderworkerset.x-k8s.io/v1:LeaderWorkerSet"
    assert len(list(containers(kind, {"spec": spec}))) == 2
    assert list(containers(f"{kind}Patch", {"spec": {"replicas": 1}})) == []


def test_everything_that_the_controller_looks_up_is_there_by_upstreams_names() -> None:
    recorder = Recorder()
    asyncio.set_event_loop(asyncio.new_event_loop())
    pulumi.runtime.set_mocks(recorder, project="splitserve", stack="test", preview=False)

    @pulumi.runtime.test
    def run() -> None:
        LeaderWorkerSetController("groups", ARGS)

    run()
    made = recorder.made
    names = {"lws-system", "lws-controller-manager", "lws-webhook-service", "lws-webhook-server-cert",
             "lws-mutating-webhook-configuration", "lws-validating-webhook-configuration"}  # fmt: skip
    assert names <= made.keys()
    assert "data" not in made["lws-webhook-server-cert"][1], "the certificates are the controller's"
    owned = [inputs["metadata"]["labels"].get(OWNER_LABEL) for kind, inputs in made.values()
             if not kind.endswith((":CustomResourceDefinition", ":LeaderWorkerSetController"))]  # fmt: skip
    assert owned and set(owned) == {OWNER}
    service = made["lws-webhook-service"][1]["spec"]
    assert service["selector"] == deployment_spec(ARGS)["selector"]["matchLabels"]
