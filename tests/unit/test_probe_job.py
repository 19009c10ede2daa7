"""A probe starts when no earlier one of the same release sends requests any more."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from components.release import probe_job
from components.release.cluster import ClusterFault
from components.release.probe_job import ProbeJob


class FakeCluster:
    """Answers that an earlier probe's pod is still there, so many times."""

    namespace = "serving"

    def __init__(self, answers: int) -> None:
        self.answers = answers
        self.deleted: list[str] = []
        deleting = lambda what: lambda *_, **__: self.deleted.append(what)  # noqa: E731
        self.batch = SimpleNamespace(delete_collection_namespaced_job=deleting("jobs"))
        self.core = SimpleNamespace(delete_collection_namespaced_config_map=deleting("config maps"))

    def select(self, selector: str, *, ending: bool) -> list[Any]:
        assert (selector, ending) == ("splitserve.dev/probed-release=abc", True)
        self.answers -= 1
        return [SimpleNamespace(name="probe-old")] if self.answers >= 0 else []


def test_an_earlier_probes_pod_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe_job, "POLL_S", 0.0)
    cluster: Any = FakeCluster(answers=3)
    ProbeJob(cluster, "abc").remove_earlier()
    assert cluster.deleted == ["jobs", "config maps"]
    assert cluster.answers == -1


def test_an_earlier_probe_that_does_not_end_is_no_ground_to_measure_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe_job, "EARLIER_LIMIT_S", 0.0)
    monkeypatch.setattr(probe_job, "POLL_S", 0.001)
    cluster: Any = FakeCluster(answers=1000)
    with pytest.raises(ClusterFault, match="probe-old, did not end"):
        ProbeJob(cluster, "abc").remove_earlier()
