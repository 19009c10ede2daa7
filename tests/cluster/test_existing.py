"""`platform.kind: existing` on the local cluster, taken for somebody's: what it lacks, and the rights that suffice."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.existing.rights import reading_rights, rules, serving_rights
from tools.cache import CHECKOUT, cache
from tools.deployment import Change, Deployment
from tools.local import full_environment
from tools.own_engine import backend_url

USER = "splitserve-test-user"
Kubectl = Callable[..., str]
User = Callable[[list[dict[str, Any]]], Path]


@pytest.fixture
def kubectl() -> Kubectl:
    environment = {**os.environ, **full_environment(cache())}

    def run(*arguments: str, given: Any = None) -> str:
        text = json.dumps(given) if given is not None else None
        return subprocess.run(["kubectl", *arguments], env=environment, input=text, text=True, check=True,
                              stdout=subprocess.PIPE).stdout  # fmt: skip

    return run


@pytest.fixture
def user(kubectl: Kubectl, tmp_path: Path) -> Iterator[User]:
    """A kubeconfig of a user with these rules and nothing else."""

    def make(allowed: list[dict[str, Any]]) -> Path:
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": USER}}
        kubectl("create", "serviceaccount", USER, "--namespace=default")
        kubectl("create", "-f", "-", given=role | {"rules": allowed})
        kubectl("create", "clusterrolebinding", USER, f"--clusterrole={USER}", f"--serviceaccount=default:{USER}")
        token = kubectl("create", "token", USER, "--namespace=default", "--duration=1h").strip()
        content = yaml.safe_load((cache().layout().kubeconfig).read_text())
        content["users"] = [{"name": user["name"], "user": {"token": token}} for user in content["users"]]
        path = tmp_path / "user.kubeconfig"
        path.write_text(yaml.safe_dump(content))
        return path

    yield make
    for kind in ("clusterrolebinding", "clusterrole", "serviceaccount"):
        kubectl(
            "delete", kind, USER, "--ignore-not-found", *(["--namespace=default"] if kind == "serviceaccount" else [])
        )


@pytest.fixture
def theirs(tmp_path: Path, user: User) -> Iterator[Deployment]:
    """A stack on the cluster as if it were somebody's; destroyed while its user still is one."""
    environment = {**os.environ, **full_environment(cache()), "PULUMI_BACKEND_URL": backend_url(tmp_path)}
    found = Deployment("existing-test", "splitserve-existing-test", environment)
    assert found.run("stack", "init").code == 0
    yield found
    destroyed = found.run("destroy", "--yes", "--skip-preview", "--suppress-progress")
    (CHECKOUT / f"stacks/Pulumi.{found.stack}.yaml").unlink(missing_ok=True)
    assert destroyed.code == 0, destroyed.text


def existing(kubeconfig: Path) -> Change:
    def change(settings: dict[str, Any]) -> None:
        settings["splitserve:platform"] |= {"kind": "existing", "kubeconfig": str(kubeconfig)}
        settings["splitserve:image"] = (CHECKOUT / ".local/image").read_text().strip()

    return change


def test_a_user_with_the_documented_rights_and_no_others_deploys_and_destroys(theirs: Deployment, user: User) -> None:
    kubeconfig = user(rules([*serving_rights(theirs.namespace, rdma=False), *reading_rights()]))
    finished = theirs.up(existing(kubeconfig))
    assert finished.code == 0, finished.text
    assert theirs.outputs()["verdict"] == "pass"
    assert "could not check" not in finished.text


def test_a_user_who_sees_no_nodes_is_told_what_was_not_checked(theirs: Deployment, user: User) -> None:
    kubeconfig = user(rules(serving_rights(theirs.namespace, rdma=False)))
    seen = theirs.run("preview", "--config-file", str(theirs.stack_file(existing(kubeconfig))))
    assert seen.code == 0, seen.text
    assert "could not check what the cluster's nodes have" in seen.text and "nodes is forbidden" in seen.text

    def on_gpus(settings: dict[str, Any]) -> None:
        existing(kubeconfig)(settings)
        settings["splitserve:engine"]["resources"]["extended"] = {"nvidia.com/gpu": 1}

    refused = theirs.run("preview", "--config-file", str(theirs.stack_file(on_gpus)))
    assert refused.code == 1, refused.text
    assert "could not see whether the cluster has dcgm, gpu" in refused.text and "layers: serving" in refused.text


def test_a_user_without_a_right_is_told_before_anything_is_made(theirs: Deployment, user: User) -> None:
    rights = [r for r in serving_rights(theirs.namespace, rdma=False) if r.resource != "jobs"]
    kubeconfig = user(rules([*rights, *reading_rights()]))
    finished = theirs.up(existing(kubeconfig))
    assert finished.code == 1 and "Traceback" not in finished.text
    assert "a user who may not: create jobs.batch in namespace" in finished.text
    assert "docs/reference/rights.md" in finished.text and "Role" not in finished.text


def test_everything_that_a_cluster_lacks_comes_in_one_message(theirs: Deployment, kubectl: Kubectl) -> None:
    """The on-premises example, on a cluster that has no GPU, no InfiniBand, no claim and no load balancer."""

    def here(settings: dict[str, Any]) -> None:
        settings["splitserve:platform"] |= {"kubeconfig": str(cache().layout().kubeconfig)}
        settings["splitserve:platform"].pop("context")

    onprem = replace(theirs, base=CHECKOUT / "stacks/Pulumi.onprem.yaml")
    seen = theirs.run("preview", "--config-file", str(onprem.stack_file(here)))
    assert seen.code == 1 and "Traceback" not in seen.text
    for words in ("rdma/ib", "nvidia.com/gpu", "kubectl label node <node> splitserve.dev/accelerator=nvidia",
                  "[storage-class]", "[load-balancer]", "nothing was changed"):  # fmt: skip
        assert words in seen.text, seen.text
    namespaces = json.loads(kubectl("get", "namespaces", "-o", "json"))["items"]
    assert onprem.namespace not in {item["metadata"]["name"] for item in namespaces}
