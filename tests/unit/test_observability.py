"""From the stack file to what watches a release: objects, rights, what is missing, commands. Rules have a file of their
own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pulumi
import pulumi.runtime
import pytest
import yaml
from typer.testing import CliRunner

from components.existing.answers import Answers
from components.existing.found import Right
from components.existing.read import read
from components.existing.rights import observability_rights, serving_rights
from components.observability import idle_job
from components.observability.idle_job import cron_job_spec, program_name
from components.observability.observability import Observability, ObservabilityArgs
from components.observability.pod_monitors import pod_monitors, sanitized
from components.observability.pod_targets import file_configuration, pod_targets
from components.observability.rules import rules_file
from components.observability.scrape import scrape_configuration
from components.observability.targets import POD_LABELS, TARGETS
from components.release.ledger import Plan as UpdatePlan
from components.release.ledger import Proved
from components.serving.labels import RELEASE_LABEL, TIER_LABEL, pod_labels, worker_tier
from infra.cli import app
from infra.existing_ground import refuse_without_operator
from infra.missing import missing, operator_missing, wanted
from infra.observability import operator_kinds
from infra.observability_arguments import observability_args
from infra.plan import Plan
from infra.settings import SettingsError, load
from tests.unit.plans import changed, prod, stack_values
from tests.unit.test_discovery import empty, pod
from tests.unit.test_network_policies import ENGINE, FRONT, PREFILL, ROUTER, SIDE_CHANNEL, reaches, selects
from tests.unit.test_nodes import Recorder, wrong_fields
from tests.unit.test_observability_rules import EVERYTHING
from tests.unit.test_policies import SATISFIES, Case, Made, hold
from tests.unit.test_policies_pods import DIGEST
from tests.unit.test_release import PROVED, PROVED_ID, build
from tools.localcluster.model import config as tiny_config

FIRST = UpdatePlan(None, build())
OPERATOR = ("podmonitors", "prometheusrules", "servicemonitors")


def test_it_is_off_by_default_and_no_part_of_a_release() -> None:
    assert observability_args(Plan(load(stack_values("local"), "t"), tiny_config()), "ns", FIRST) is None
    assert build(PROVED | {"observability": EVERYTHING}).id == PROVED_ID


def args_of(**asked: Any) -> ObservabilityArgs:
    values = stack_values("local") | {"observability": asked}
    args = observability_args(Plan(load(values, "test"), tiny_config()), "ns", FIRST)
    assert args is not None
    return args


class Everything(Recorder):
    """Objects of several kinds may have one name."""

    def __init__(self) -> None:
        super().__init__()
        self.each: list[tuple[str, str, dict[str, Any]]] = []

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str | None, dict[Any, Any]]:
        self.each.append((args.typ, args.name, args.inputs))
        return super().new_resource(args)


def declared(args: ObservabilityArgs) -> list[tuple[str, str, dict[str, Any]]]:
    """(type, name, inputs) of everything that the component registers."""
    recorder = Everything()
    asyncio.set_event_loop(asyncio.new_event_loop())
    pulumi.runtime.set_mocks(recorder, project="splitserve", stack="test", preview=False)

    @pulumi.runtime.test
    def run() -> None:
        Observability("observability", args)

    run()
    return recorder.each


def test_each_part_is_made_where_it_is_asked_for() -> None:
    made = declared(args_of(**EVERYTHING))
    kinds = sorted(kind.rpartition(":")[2] for kind, _, _ in made)
    assert kinds == sorted(["Observability", *["PodMonitor"] * len(TARGETS), "PrometheusRule", "ConfigMap", "ConfigMap",
                            "CronJob", "ServiceAccount", "Role", "RoleBinding"])  # fmt: skip
    assert {kind for kind, _, _ in declared(args_of(rules=True))} == {
        "splitserve:observability:Observability", "kubernetes:monitoring.coreos.com/v1:PrometheusRule"}  # fmt: skip


def test_objects_reach_the_engine_as_they_were_rendered() -> None:
    """Pulumi's SDK renames keys that it knows: what was checked against Kubernetes' types must be what is sent."""
    args = args_of(**EVERYTHING)
    assert args.idle_probe
    made = {kind.rpartition(":")[2]: inputs for kind, _, inputs in declared(args)}
    assert made["Role"]["rules"] == idle_job.RULES
    assert made["CronJob"]["spec"] == cron_job_spec(args.idle_probe)
    assert made["PrometheusRule"]["spec"] == rules_file(args.limits)
    assert made["PodMonitor"]["spec"] in pod_monitors(15).values()


def test_what_a_prometheus_selects_by_is_on_its_objects() -> None:
    made = declared(args_of(**EVERYTHING))
    for kind, name, inputs in made:
        if "monitoring.coreos.com" in kind:
            assert inputs["metadata"]["labels"]["release"] == "kube-prometheus-stack", name
    dashboard = next(inputs for _, name, inputs in made if name == "splitserve-dashboard")
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(dashboard["data"]["splitserve.json"])["panels"]


def test_the_cron_job_is_one_that_kubernetes_has() -> None:
    args = args_of(**EVERYTHING).idle_probe
    assert args is not None
    spec = cron_job_spec(args)
    assert list(wrong_fields(spec, "V1CronJobSpec")) == []
    made = spec["jobTemplate"]["spec"]["template"]
    assert {"name": "program", "configMap": {"name": program_name()}} in made["spec"]["volumes"]
    labels = made["metadata"]["labels"]
    assert RELEASE_LABEL not in labels and TIER_LABEL not in labels, "no router may find it"
    container = made["spec"]["containers"][0]
    assert (
        container["image"] == build().pods["router"]["containers"][0]["image"]
        and container["securityContext"]["readOnlyRootFilesystem"]
    )


def test_the_probe_gets_the_routers_key_where_it_asks_for_one() -> None:
    values = changed(stack_values("local"), ("render", {"replicas": 1}), ("edge", {"apiKeySecret": "keys"}),
                     ("observability", EVERYTHING))  # fmt: skip
    args = observability_args(Plan(load(values, "test"), tiny_config()), "ns", FIRST)
    assert args and args.idle_probe
    environment = cron_job_spec(args.idle_probe)["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["env"]
    assert {"name": "keys", "key": "api-key"} in [e.get("valueFrom", {}).get("secretKeyRef") for e in environment]


@pytest.mark.parametrize("rule", ["no-privileged-pods", "image-by-digest", "efa-image"])
def test_the_cron_job_is_one_that_policies_take(rule: str) -> None:
    args = args_of(**EVERYTHING).idle_probe
    assert args is not None
    props = {"metadata": {"name": idle_job.NAME}, "spec": cron_job_spec(replace(args, image=DIGEST))}
    hold(Case(rule, SATISFIES, "idle probe", [Made("kubernetes:batch/v1:CronJob", props, idle_job.NAME)]))


def test_network_policies_let_it_reach_every_tier() -> None:
    for target, port in ((PREFILL, ENGINE), (PREFILL, SIDE_CHANNEL), (FRONT, ROUTER)):
        assert reaches(idle_job.LABELS, target, port)
    assert not reaches(FRONT, idle_job.LABELS, 80), "and nobody it"


def test_the_deploying_user_may_give_every_right_that_it_gets() -> None:
    held = {(right.group, right.resource, right.verb) for right in serving_rights("ns")}
    asked = {(group, resource, verb) for rule in idle_job.RULES for group in rule["apiGroups"]
             for resource in rule["resources"] for verb in rule["verbs"]}  # fmt: skip
    assert asked - held == set()


def test_pod_monitors_choose_every_pod_with_metrics_once() -> None:
    release = build(PROVED | {"render": {"replicas": 1}})
    specs = pod_monitors(15)
    for tier, spec in release.pods.items():
        labels = pod_labels(release.id, tier)
        choosing = [name for name, monitor in specs.items() if selects(monitor["selector"], labels)]
        assert len(choosing) == 1, (tier, choosing)
        ports = {port["name"] for container in spec["containers"] for port in container["ports"]}
        assert specs[choosing[0]]["podMetricsEndpoints"][0]["port"] in ports, tier
    worker = pod_labels(release.id, worker_tier("decode"))
    assert not any(selects(monitor["selector"], worker) for monitor in specs.values()), "its leader answers for it"


def running(tier: str, ip: str, ports: Mapping[str, int]) -> dict[str, Any]:
    """A pod as the API server writes it."""
    named = [{"name": name, "containerPort": number} for name, number in ports.items()]
    return {
        "metadata": {"name": f"{tier}-1", "namespace": "ns", "labels": pod_labels("r1", tier)},
        "spec": {"containers": [{"name": "c", "ports": named}]},
        "status": {"phase": "Running", "podIP": ip},
    }


def test_a_list_of_addresses_says_what_pod_monitors_would() -> None:
    pods = [running("decode", "10.0.0.1", {"http": 8000, "side-channel": 5600}),
            running("router", "10.0.0.2", {"http": 8080, "metrics": 29000}), pod("a", {})]  # fmt: skip
    assert pod_targets(pods) == [
        {"targets": ["10.0.0.1:8000"], "labels": {"namespace": "ns", "pod": "decode-1", "splitserve_release": "r1",
                                                  "splitserve_tier": "decode"}},
        {"targets": ["10.0.0.2:29000"], "labels": {"namespace": "ns", "pod": "router-1", "splitserve_release": "r1",
                                                   "splitserve_tier": "router"}},
    ]  # fmt: skip
    assert file_configuration("pods.json", 5)["scrape_configs"][0]["file_sd_configs"][0]["files"] == ["pods.json"]


def test_a_plain_prometheus_gets_the_labels_that_rules_read() -> None:
    for job in scrape_configuration("ns", 15)["scrape_configs"]:
        assert job["kubernetes_sd_configs"] == [{"role": "pod", "namespaces": {"names": ["ns"]}}]
        made = {step["target_label"]: step["source_labels"][0] for step in job["relabel_configs"]
                if step["action"] == "replace"}  # fmt: skip
        assert made.keys() == {"namespace", "pod", *POD_LABELS}
    assert sanitized("splitserve.dev/release") == "splitserve_dev_release"
    outside = scrape_configuration("ns", 15, "/etc/prometheus/kubeconfig")["scrape_configs"][0]
    assert outside["kubernetes_sd_configs"][0]["kubeconfig_file"] == "/etc/prometheus/kubeconfig"


def settings_with(**asked: Any) -> Any:
    return load(changed(stack_values("onprem"), ("observability", asked)), "test")


def test_kinds_that_the_cluster_does_not_know_are_said_with_the_way_out() -> None:
    need = operator_kinds(settings_with(podMonitors=True, rules=True))
    finding = next(operator_missing(need, read(empty(operator_kinds=("podmonitors",)))))
    assert str(finding).startswith("observability.rules: found no prometheusrules (monitoring.coreos.com/v1)")
    assert "splitserve alerts" in finding.fix and finding.rule == "prometheus-operator-missing"
    assert list(operator_missing(need, read(empty(operator_kinds=OPERATOR)))) == []
    assert list(operator_missing({}, read(empty(operator_kinds=())))) == [], "nobody asked"
    assert list(operator_missing(need, read(empty()))) == [], "not known is not missing"


def test_it_is_one_of_the_things_that_a_cluster_lacks() -> None:
    need = replace(wanted(settings_with(podMonitors=True), "o"), tiers=(), service_type="ClusterIP")
    rules = {finding.rule for finding in missing(need, read(empty(operator_kinds=())))}
    assert rules == {"prometheus-operator-missing"}


def test_a_cluster_that_is_not_there_yet_has_no_operator() -> None:
    plan = prod(("observability", {"podMonitors": True}))
    with pytest.raises(SettingsError, match="found no cluster yet, wanted one with the Prometheus operator"):
        refuse_without_operator(plan, None, "test")
    refuse_without_operator(prod(), None, "test")
    with pytest.raises(SettingsError, match="no podmonitors"):
        refuse_without_operator(plan, read(Answers({}, [], operator_kinds=())), "test")


def test_refused_rights_over_what_is_asked_for_count() -> None:
    refused = tuple(replace(right, allowed=False) for right in observability_rights("n", OPERATOR[:1], idle_probe=True))
    settings = settings_with(podMonitors=True, idleProbe={"schedule": "@hourly"})
    need = replace(wanted(settings, "o"), tiers=(), service_type="ClusterIP")
    inside = tuple(Right(r.verb, r.resource, r.group, settings.platform.namespace, False) for r in refused)
    findings = missing(need, read(empty(rights=inside, operator_kinds=OPERATOR)))
    assert "create podmonitors.monitoring.coreos.com" in findings[0].found
    assert "create cronjobs.batch" in findings[0].found
    nobody = replace(wanted(settings_with(), "o"), tiers=(), service_type="ClusterIP")
    assert missing(nobody, read(empty(rights=inside))) == []


def test_its_image_is_the_one_that_the_routers_nodes_have() -> None:
    live, candidate = build(), build(changed(stack_values("local"), ("image", "other:2")))
    values = stack_values("local") | {"observability": EVERYTHING}
    update = UpdatePlan(Proved(live, {}), candidate)
    args = observability_args(Plan(load(values, "test"), tiny_config()), "ns", update)
    assert args and args.idle_probe and args.idle_probe.image == live.pods["router"]["containers"][0]["image"]


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.output


def test_commands_print_what_a_plain_prometheus_and_grafana_read() -> None:
    rules = yaml.safe_load(run("alerts", "--stack", "local"))
    assert "pod:splitserve_kv_transfer_seconds:mean > 0.2" in json.dumps(rules), "the local stack's limit"
    made = yaml.safe_load(run("alerts", "--stack", "local", "--format", "prometheus-rule"))
    assert (made["kind"], made["spec"]) == ("PrometheusRule", rules)
    assert yaml.safe_load(run("alerts", "--format", "scrape"))["scrape_configs"]
    assert json.loads(run("dashboard", "--stack", "prod"))["title"] == "splitserve: KV path and serving"


def test_a_stack_that_is_not_there_is_told_with_those_that_are() -> None:
    result = CliRunner().invoke(app, ["alerts", "--stack", "nope"])
    assert result.exit_code == 2 and "there are: dev, local, onprem, prod" in result.output
