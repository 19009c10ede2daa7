"""Node groups on the one node: its labels and extended resources are those of the active groups."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from tools.awsim import node_labels
from tools.awsim.eks_state import Thing
from tools.awsim.node_labels import NodeLabels, wanted


def group(instance: str, desired: int, labels: dict[str, str], until: float = 0) -> Thing:
    scaling = {"minSize": 0, "desiredSize": desired, "maxSize": 4}
    return Thing({"instanceTypes": [instance], "scalingConfig": scaling, "labels": labels}, until=until)


def test_active_groups_add_up() -> None:
    zone = {"topology.kubernetes.io/zone": "us-east-1a"}
    labels, resources = wanted([
        group("p5.48xlarge", 2, {"pool": "prefill"} | zone), group("g6.8xlarge", 1, {"other": "yes"}),
        group("m7i.large", 1, {"system": "yes"}), group("p5.48xlarge", 0, {"never": "x"}),
        group("p5.48xlarge", 1, {"soon": "x"}, until=1e12),
    ])  # fmt: skip
    assert labels == {"pool": "prefill", "other": "yes", "system": "yes"}
    assert resources == {"nvidia.com/gpu": 17, "vpc.amazonaws.com/efa": 65}


class Node:
    """What the API server would keep of the patches."""

    def __init__(self) -> None:
        self.patches: list[dict[str, Any]] = []
        self.away = False

    def patch_node(self, name: str, body: dict[str, Any], **_: Any) -> None:
        if self.away:
            raise ApiException(status=503)
        self.patches.append(body["metadata"]["labels"])

    def patch_node_status(self, name: str, body: dict[str, Any], **_: Any) -> None:
        self.patches.append(body["status"]["capacity"])


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Node:
    node = Node()
    monkeypatch.setattr(node_labels.k8s_config, "new_client_from_config", lambda path: None)
    monkeypatch.setattr(node_labels.k8s, "CoreV1Api", lambda client: node)
    return node


def test_what_was_set_is_taken_away_again(node: Node) -> None:
    thread = NodeLabels(SimpleNamespace(regions={}), "none")  # type: ignore[arg-type]
    thread.apply({"a": "1", "b": "2"}, {"nvidia.com/gpu": 8})
    thread.apply({"a": "1"}, {})
    thread.apply({"a": "1"}, {})
    assert node.patches == [
        {"a": "1", "b": "2"},
        {"nvidia.com/gpu": "8"},
        {"a": "1", "b": None},
        {"nvidia.com/gpu": None},
    ]


def test_a_cluster_that_is_away_is_asked_again(node: Node) -> None:
    thread = NodeLabels(SimpleNamespace(regions={}), "none")  # type: ignore[arg-type]
    node.away = True
    thread.apply({"a": "1"}, {})
    node.away = False
    thread.apply({"a": "1"}, {})
    assert node.patches == [{"a": "1"}, {}]
