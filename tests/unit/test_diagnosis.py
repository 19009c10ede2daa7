"""Lines of logs that explain a verdict."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from components.diagnosis.diagnose import LONGEST_LINE, Clues, diagnose
from components.diagnosis.signature import Signature
from components.diagnosis.signatures import SIGNATURES
from components.diagnosis.table import PAGE, signature_table
from components.release.cluster import ClusterFault
from components.release.explain import MESSAGE, explained
from components.release.verdict import Verdict
from infra.report import refusal
from tests.unit.check_runs import run
from tests.unit.test_check_log import line
from tests.unit.transports import TCP

DOCS = Path(__file__).resolve().parents[2] / "docs"
NO_CONNECTOR = (
    "(EngineCore pid=87) WARNING 11-30 19:00:00 [core.py:534] Got kv_transfer_params, but no KVConnector found. "
    "Disabling KVTransfer for this request."
)
MISMATCH = (
    "RuntimeError: NIXL compatibility hash mismatch. Local: 1f, Remote: 2e. Prefill and decode instances have "
    "incompatible configurations."
)
EXPIRED = (
    "WARNING [base_worker.py:3033] Releasing expired KV blocks for request cmpl-1 which were retrieved by 0 remote"
)


def keys(cause: str, texts: dict[str, str]) -> list[str]:
    return [clue.key for clue in diagnose(cause, texts)]


@pytest.mark.parametrize("signature", SIGNATURES, ids=lambda signature: signature.key)
def test_each_signature_is_found_within_a_line_and_says_what_to_do(signature: Signature) -> None:
    for cause in signature.explains:
        [clue] = diagnose(cause, {"pod": f"before\n{'x' * 500} {signature.text} {'y' * 500}\nafter"})
        assert (clue.key, clue.where, clue.count) == (signature.key, "pod", 1)
        assert signature.text.strip() in clue.line and len(clue.line) <= LONGEST_LINE
        assert clue.means and clue.fix


def test_keys_are_distinct_and_causes_are_verdicts() -> None:
    assert len({signature.key for signature in SIGNATURES}) == len(SIGNATURES)
    pages = "".join((DOCS / page).read_text() for page in ("reference/verdicts.md", "how-to/check-any-deployment.md"))
    known = set(re.findall(r"`([a-z-]+)`", pages))
    assert {cause for signature in SIGNATURES for cause in signature.explains} <= known


def test_a_line_that_explains_another_cause_is_no_clue() -> None:
    assert keys("slow-link", {"decode": f"{NO_CONNECTOR}\n{MISMATCH}"}) == []


def test_the_root_comes_first_and_what_repeats_is_counted() -> None:
    texts = {"prefill": f"{EXPIRED}\n" * 40, "decode": f"{MISMATCH}\n{MISMATCH}"}
    found = diagnose("never-disaggregated", texts)
    assert [(clue.key, clue.where, clue.count) for clue in found] == [
        ("tiers-differ", "decode", 2), ("blocks-expired", "prefill", 40),
    ]  # fmt: skip


def test_a_log_passes_through_while_it_is_read() -> None:
    clues = Clues()
    lines = ["one\n", MISMATCH + "\n", "two\n"]
    assert list(clues.read("log", lines)) == lines
    assert [clue.key for clue in clues.explaining("failed-transfers")] == ["tiers-differ"]


class FakeCluster:
    def __init__(self, texts: dict[str, str], *, broken: bool = False) -> None:
        self.texts, self.broken = texts, broken

    def pods(self, _release: str) -> list[Any]:
        if self.broken:
            raise ClusterFault("pods: the API server does not answer")
        return [type("Pod", (), {"name": name}) for name in self.texts]

    def words(self, pod: str) -> str:
        return self.texts[pod]


def failed(cause: str, message: str = "found") -> Verdict:
    return Verdict("fail", cause, message, "the general way out")


def test_a_refused_release_is_shown_with_its_own_pods_words() -> None:
    cluster: Any = FakeCluster({"decode-1": NO_CONNECTOR, "prefill-1": "all is well"})
    verdict = explained(cluster, "abc", failed("never-disaggregated"))
    text = refusal("dev", "abc", "", verdict.to_json(), None, "http://x")
    at = [text.index(words) for words in ("found: found", "clue:  decode-1: (EngineCore", "without a connector: it computes",
                                          "fix:   the general way out")]  # fmt: skip
    assert at == sorted(at)


def test_events_that_the_verdict_quotes_are_read_too_and_a_silent_cluster_costs_no_verdict() -> None:
    cluster: Any = FakeCluster({}, broken=True)
    message = "not ready within 60 s: 0/4 nodes are available: 4 Insufficient vpc.amazonaws.com/efa."
    [clue] = explained(cluster, "abc", failed("not-ready", message)).clues
    assert (clue.key, clue.where) == ("efa-missing", MESSAGE)


def test_a_pass_asks_no_pod() -> None:
    verdict = Verdict("pass", "fast", "", "")
    cluster: Any = None
    assert explained(cluster, "abc", verdict) is verdict


def test_many_clues_are_cut_and_counted() -> None:
    cluster: Any = FakeCluster({f"decode-{number}": NO_CONNECTOR for number in range(5)})
    text = refusal("dev", "abc", "", explained(cluster, "a", failed("never-disaggregated")).to_json(), None, "")
    assert text.count("clue:") == 3 and "and 2 more in the evidence" in text


def test_a_log_file_is_judged_with_its_clues(tmp_path: Path) -> None:
    log = tmp_path / "decode.log"
    log.write_text(f"{NO_CONNECTOR}\n{MISMATCH}\n")
    ran = run("--decode-log", str(log))
    assert ran.code == 2 and "clue:" not in ran.out, "no transfer in a log has no one cause"
    log.write_text(f"{MISMATCH}\n{line(failed=3)}\n")
    ran = run("--decode-log", str(log))
    assert ran.code == 1 and "clue:  " in ran.out and "same image, model, dtype" in ran.out, ran.out + ran.err


def test_a_slow_release_says_by_its_own_logs_what_moved_its_blocks_and_asks_for_the_rest() -> None:
    found = explained(FakeCluster({"decode-1": TCP}), "abc", failed("slow-link"))  # type: ignore[arg-type]
    assert "peer access not used: tcp/bond0" in found.message and found.fix.startswith("fix peer access: ")
    assert "nvidia-smi topo -p2p r" in found.fix and "--topology FILE" in found.fix
    assert found.topology is not None and found.topology["path"] == "tcp"
    silent = explained(FakeCluster({"decode-1": "no word of it"}), "abc", failed("slow-link"))  # type: ignore[arg-type]
    assert silent.message == failed("slow-link").message, "what is not known explains nothing"
    assert silent.fix.startswith("the general way out; to know more: ") and "UCX_PROTO_INFO=y" in silent.fix
    assert explained(FakeCluster({"decode-1": TCP}), "abc", failed("wrong-bytes")).topology is None  # type: ignore[arg-type]


def test_the_page_is_that_of_the_code() -> None:
    assert PAGE.read_text() == signature_table()


def test_both_runs_of_a_pod_are_read_as_far_as_they_can_be() -> None:
    from components.release.cluster import Access, Cluster

    class Core:
        def read_namespaced_pod_log(self, _pod: str, _namespace: str, *, previous: bool, **_: Any) -> str:
            if previous:
                return "the run before"
            raise ApiException(status=400, reason="it is starting")

    cluster = Cluster.__new__(Cluster)
    cluster.core, cluster.namespace = Core(), Access("", None, "here").namespace  # type: ignore[assignment]
    assert cluster.words("pod") == "the run before"
