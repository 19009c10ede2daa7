"""The other topologies and ways to name a cluster, each deployed and asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from infra.image import LOCAL_IMAGE
from tests.cluster.asking import answer
from tools.cache import CHECKOUT
from tools.deployment import Deployment


def test_collocated_goes_live_without_a_transfer_and_answers(live: Deployment) -> None:
    def collocated(settings: dict[str, Any]) -> None:
        settings["splitserve:topology"] = "collocated"

    finished = live.up(collocated)
    assert finished.code == 0, finished.text
    outputs = live.outputs()
    assert (outputs["verdict"], outputs["gate"]["verdict"]["cause"]) == ("pass", "collocated")
    assert outputs.get("kvTransferMs") is None
    assert answer(outputs)["usage"]["completion_tokens"] > 0


def test_another_kubeconfig_of_the_same_cluster_replaces_nothing(live: Deployment, tmp_path: Path) -> None:
    """A changed kubeconfig used to replace the provider and with it every resource (pulumi-kubernetes
    issues 4019, 1148, 2745). `existing` and `local` differ in defaults alone: the release is the same."""
    outputs = live.outputs()
    proved = outputs["ledger"]["live"]["release"]
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text("# another text\n" + Path(live.environment["KUBECONFIG"]).read_text())

    def existing(settings: dict[str, Any]) -> None:
        settings["splitserve:platform"] = {
            "kind": "existing", "kubeconfig": str(kubeconfig), "namespace": live.namespace,
        }  # fmt: skip
        settings["splitserve:image"] = (CHECKOUT / LOCAL_IMAGE).read_text().strip()
        settings["splitserve:note"] = proved["note"]
        settings["splitserve:topology"] = proved["expectation"]["topology"]

    finished = live.up(existing)
    assert finished.code == 0, finished.text
    assert live.outputs()["live"] == outputs["live"]
    assert "measuring" not in finished.text
    assert "replac" not in finished.text


def test_a_namespace_of_somebody_else_is_left_alone(live: Deployment) -> None:
    def foreign(settings: dict[str, Any]) -> None:
        settings["splitserve:platform"]["namespace"] = "kube-system"

    before = live.outputs()
    finished = live.up(foreign)
    assert finished.code == 1
    assert "platform.namespace: found `kube-system`, which belongs to somebody else" in finished.text
    assert "Traceback" not in finished.text
    assert live.outputs() == before
