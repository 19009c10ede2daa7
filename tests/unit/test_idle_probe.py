"""The idle probe over real HTTP: an API server and engines that move KV, or not, and what it says of them."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from components.observability.idle_probe import main as idle
from components.observability.idle_probe.cluster import Cluster
from components.observability.idle_probe.main import EXIT_CODES, Settings, look
from components.observability.idle_probe.quiet import busy
from components.observability.packed import START, needed, packed
from components.release.probe import Client
from components.serving.labels import NO_RELEASE, RELEASE_LABEL, TIER_LABEL
from tests.unit.fake_vllm import Engine, Server, between, serving
from tests.unit.test_ledger import EXPECTATION
from tests.unit.test_once import SETTINGS

BYTES_PER_TOKEN = EXPECTATION.geometry.kv_bytes_per_token(EXPECTATION.kv_dtype)
GATE = SETTINGS | {"promptTokens": 128, "answerTokens": 4}
ASKED = Settings("ns", "splitserve", samples=2, quiet_s=0.05, limit_ms=100.0)
ARGUMENTS = ["--namespace", "ns", "--service", "s", "--samples", "1", "--quiet-s", "1", "--limit-ms", "100"]
TIERS: tuple[str, ...] = ("prefill", "decode", "router")


class Named(Client):
    """Pods by name: all engines of a release have one port, which servers on one machine can't."""

    def __init__(self, urls: Mapping[str, str]) -> None:
        super().__init__(5)
        self.urls = urls

    def get(self, url: str) -> str:
        return super().get(self._at(url))

    def post(self, url: str, body: Any, headers: Any = None) -> Any:
        return super().post(self._at(url), body, headers)

    def _at(self, url: str) -> str:
        host = url.split("/")[2].split(":")[0]
        return self.urls[host] + "/" + url.split("/", 3)[3]


def pod(tier: str, *, ready: bool = True) -> dict[str, Any]:
    return {
        "metadata": {"name": f"{tier}-1", "labels": {TIER_LABEL: tier}},
        "status": {"podIP": tier, "conditions": [{"type": "Ready", "status": str(ready)}]},
    }


def api(live: str = "r1", pods: list[dict[str, Any]] | None = None, record: bool = True) -> Server:
    """An API server with a front door, pods and a gate's record."""
    found = [pod(tier) for tier in TIERS] if pods is None else pods
    kept = {"release": {"expectation": vars(EXPECTATION)}, "gate": GATE, "outcome": "pass"}

    def answers(request: Any, _: Any) -> tuple[int, Any]:
        where = request.path.partition("/namespaces/ns/")[2].partition("?")[0]
        if where == "services/splitserve":
            return 200, {"spec": {"selector": {RELEASE_LABEL: live, TIER_LABEL: "router"}}}
        if where == "pods":
            assert f"{RELEASE_LABEL.replace('/', '%2F')}%3D{live}" in request.path
            return 200, {"items": found}
        if where == f"configmaps/release-{live}" and record:
            return 200, {"data": {"record.json": json.dumps(kept)}}
        return 404, {"message": "not found"}

    return Server(answers=answers)


def engine(**more: Any) -> Engine:
    return Engine(bytes_per_token=BYTES_PER_TOKEN, block_size=32, max_model_len=2048, **more)


@contextmanager
def release(decode: Engine, cluster: Server | None = None) -> Iterator[tuple[Cluster, Named, Engine]]:
    """A live release over HTTP: where its cluster is, a client that finds its pods, and its prefiller."""
    prefill = engine(consumer=False)
    with serving(prefill, decode, cluster or api()) as (first, second, asked):
        router = between(first, second)
        try:
            urls = dict(zip(TIERS, (first.url, second.url, router.url), strict=True))
            yield Cluster(asked.url, "ns", Path("/nowhere")), Named(urls), prefill
        finally:
            router.stop()


def test_transfers_of_a_good_pair_pass_and_leave_samples_behind() -> None:
    decode = engine(ms=20.0)
    with release(decode) as (cluster, client, _):
        verdict, evidence = look(ASKED, cluster, client)
    assert (verdict.outcome, verdict.cause) == ("pass", "fast"), verdict.message
    assert evidence and len(evidence.pairs[0].fresh) == 2
    assert decode.transfers >= 3, "the warm-up and both samples stay in vLLM's own series"
    assert not verdict.aged_is_estimated, "a live cache is judged as it is"


@pytest.mark.parametrize(
    ("faulty", "outcome", "cause"),
    [
        ({"ms": 400.0}, "fail", "slow-link"),
        ({"share": 0.0}, "fail", "never-disaggregated"),
        ({"fails": True}, "fail", "failed-transfers"),
        ({"damaged": True}, "fail", "wrong-answer"),
        ({"statistics": False}, "inconclusive", "probe-failed"),
    ],
)
def test_a_fault_has_the_gates_own_verdict(
    faulty: dict[str, Any], outcome: str, cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("components.release.probe.SETTLE_LIMIT_S", 0.3)
    monkeypatch.setattr("components.release.probe.SETTLED_LIMIT_S", 0.1)
    with release(engine(**faulty)) as (cluster, client, _):
        verdict, _ = look(ASKED, cluster, client)
    assert (verdict.outcome, verdict.cause) == (outcome, cause), verdict.message


def test_the_limit_is_the_stack_files_and_not_that_of_the_record() -> None:
    with release(engine(ms=60.0)) as (cluster, client, _):
        strict = Settings("ns", "splitserve", 2, 0.05, limit_ms=50.0)
        assert look(strict, cluster, client)[0].cause == "slow-link"


def test_while_clients_use_the_release_the_probe_sends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    decode = engine()
    with release(decode) as (cluster, client, prefill):

        def clients_come(*_: Any) -> None:
            prefill.tokens += 500

        monkeypatch.setattr(idle, "busy", lambda c, urls, s: busy(c, urls, s, sleep=clients_come))
        verdict, evidence = look(ASKED, cluster, client)
    assert (verdict.outcome, verdict.cause, evidence) == ("pass", "busy", None)
    assert decode.requests == 0


@pytest.mark.parametrize(
    ("cluster", "words"),
    [
        (lambda: api(live=NO_RELEASE), "selects no release"),
        (lambda: api(record=False), "configmaps/release-r1: 404"),
        (lambda: Server(answers=lambda *_: (403, {})), "services/splitserve: 403"),
    ],
)
def test_what_it_can_not_tell_is_never_a_pass(cluster: Any, words: str) -> None:
    with release(engine(), cluster()) as (found, client, _):
        verdict, _ = look(ASKED, found, client)
    assert verdict.outcome == "inconclusive" and words in verdict.message, verdict.message


def test_without_a_ready_decoder_there_is_no_pair() -> None:
    pods = [pod("prefill"), pod("decode", ready=False), pod("router")]
    with release(engine(), api(pods=pods)) as (cluster, client, _):
        verdict, _ = look(ASKED, cluster, client)
    assert (verdict.outcome, verdict.cause) == ("inconclusive", "no-pairs")


def test_exit_codes_are_those_of_the_check() -> None:
    from components.check.result import EXIT_CODES as CHECKS

    assert EXIT_CODES == CHECKS


def test_the_packed_program_runs_by_itself_and_says_its_verdict(tmp_path: Path) -> None:
    """As in the pod: isolated, without site packages, by the variables that the kubelet sets."""
    program = tmp_path / "idle_probe.pyz"
    program.write_bytes(packed())
    done = subprocess.run(
        [sys.executable, "-I", "-S", program, *ARGUMENTS], capture_output=True, text=True,
        env={"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "1"},
    )  # fmt: skip
    assert done.returncode == EXIT_CODES["inconclusive"], done.stderr
    said = json.loads(done.stdout.splitlines()[-1].removeprefix("VERDICT "))
    assert said["outcome"] == "inconclusive" and "services/s" in said["message"]


def test_a_fault_of_its_own_is_no_verdict_on_the_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python ends with 1 after a traceback, which is the code of a failed release."""
    monkeypatch.setattr(sys, "argv", ["idle", *ARGUMENTS])
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(SystemExit) as ended:
        idle.main()
    assert ended.value.code == EXIT_CODES["inconclusive"]


def test_the_program_needs_nothing_but_the_standard_library() -> None:
    for path in needed(START):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                root = name.partition(".")[0]
                assert root in sys.stdlib_module_names or root == "components", f"{path}: {name}"


def test_the_same_sources_give_the_same_bytes() -> None:
    assert packed() == packed.__wrapped__()
