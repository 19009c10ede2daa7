"""The probe reads vLLM's metrics exactly, and says when it can't measure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from components.release import probe
from components.release.evidence import read_evidence
from components.serving.connectors.mooncake import MOONCAKE
from components.serving.connectors.nixl import PULL, PUSH
from components.serving.connectors.profiles import PROFILES

PAGES = Path(__file__).parent / "scrapes"


class FakeEngine:
    """A vLLM of one pod: its metrics page and what a request does to it."""

    def __init__(self, moves: int, failed: int = 0, statistics: bool = True, connector: bool = True,
                 others: int = 0) -> None:  # fmt: skip
        self.others = others
        """So many of the following requests come together with one of somebody else."""
        self.moves, self.fails, self.statistics, self.connector = moves, failed, statistics, connector
        self.tokens = self.bytes = self.transfers = self.failed = self.external = 0

    def page(self) -> str:
        if not self.statistics:
            return "python_info 1.0\n"
        lines = [f'vllm:prompt_tokens_total{{engine="0"}} {self.tokens}']
        lines.append(f'vllm:prompt_tokens_by_source_total{{source="external_kv_transfer",engine="0"}} {self.external}')
        if self.connector:
            lines += [
                f"vllm:nixl_xfer_time_seconds_sum {self.transfers * 0.02}",
                f"vllm:nixl_post_time_seconds_sum {self.transfers * 0.001}",
                f"vllm:nixl_bytes_transferred_sum {self.bytes}",
                f"vllm:nixl_num_descriptors_sum {self.transfers * 8}",
                f"vllm:nixl_xfer_time_seconds_count {self.transfers}",
                f"vllm:nixl_num_failed_transfers_total {self.failed}",
            ]
        return "\n".join(lines)

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        self.tokens += len(body["prompt"])
        params = body.get("kv_transfer_params") or {}
        if params.get("do_remote_prefill"):
            if self.fails:
                self.failed += 1
                raise probe.CannotMeasure("answered 500")
            shared = 2 if self.others else 1
            self.others = max(self.others - 1, 0)
            self.tokens += len(body["prompt"]) * (shared - 1)
            self.transfers += bool(self.moves) * shared
            self.bytes += self.moves * shared
            self.external += len(body["prompt"]) if self.moves else 0
        reply: dict[str, Any] = {"choices": [{"text": f"answer to {sum(body['prompt'])}"}]}
        if params.get("do_remote_decode"):
            reply["kv_transfer_params"] = {"do_remote_prefill": True}
        return reply


class FakeClient:
    def __init__(self, engines: dict[str, FakeEngine]) -> None:
        self.engines = engines
        self.ids: list[str | None] = []

    def get(self, url: str) -> str:
        return self.engines[url.removesuffix("/metrics")].page()

    def post(self, url: str, body: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
        self.ids.append(headers.get("X-Request-Id"))
        return self.engines[url.removesuffix("/v1/completions")].answer(body)


PAIR = ({"name": "p", "url": "http://p"}, {"name": "d", "url": "http://d"})
PLAN = {
    "pairs": [PAIR], "router": None, "render": [], "reference": "http://p", "model": "m", "vocabulary": 2048, "prompt_tokens": 64,
    "answer_tokens": 4, "samples": 2, "age": {"mode": "off", "limit_s": 0}, "max_model_len": 256,
    "request_limit_s": 5, "measurement": PULL.measurement.to_json(),
}  # fmt: skip


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Any:
    def run(decode: FakeEngine) -> Any:
        client = FakeClient({"http://p": FakeEngine(0), "http://d": decode})
        monkeypatch.setattr(probe, "Client", lambda *_: client)
        monkeypatch.setattr(probe, "SETTLE_LIMIT_S", 0.0)
        return read_evidence(probe.probe(PLAN)).pairs[0]

    return run


def test_a_transfer_is_measured_from_the_decoders_own_counters(run: Any) -> None:
    pair = run(FakeEngine(moves=512))
    assert [(s.bytes, s.descriptors, s.external_tokens) for s in pair.fresh] == [(512, 8, 64)] * 2
    assert [s.ms for s in pair.fresh] == pytest.approx([20.0, 20.0])
    assert all(sample.answer == sample.reference for sample in pair.fresh)


def test_an_answer_without_a_transfer_is_a_sample_that_moved_nothing(run: Any) -> None:
    assert not any(sample.moved for sample in run(FakeEngine(moves=0)).fresh)


def test_a_decoder_without_a_connector_exports_nothing_and_moved_nothing(run: Any) -> None:
    pair = run(FakeEngine(moves=0, connector=False))
    assert pair.error is None
    assert [sample.bytes for sample in pair.fresh] == [None, None]


def test_a_decoder_without_statistics_can_not_be_measured(run: Any) -> None:
    pair = run(FakeEngine(moves=512, statistics=False))
    assert "statistics switched off" in pair.error
    assert pair.fresh == []


def test_a_request_that_fails_with_its_transfer_leaves_the_failure_count(run: Any) -> None:
    pair = run(FakeEngine(moves=512, failed=1))
    assert (pair.error, pair.failed) == ("answered 500", 1)


def test_a_sample_that_other_requests_shared_is_taken_again(run: Any) -> None:
    pair = run(FakeEngine(moves=512, others=3))
    assert [sample.bytes for sample in pair.fresh] == [512, 512]


def test_a_decoder_that_is_never_alone_can_not_be_measured(run: Any) -> None:
    pair = run(FakeEngine(moves=512, others=1000))
    assert "served other requests" in pair.error
    assert pair.fresh == []


def test_what_is_pushed_is_counted_where_it_is_sent_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """The prefiller owns a push's series, either side may count a failure, and both legs have one id."""
    prefill, decode = FakeEngine(moves=0), FakeEngine(moves=512)
    prefill.failed, sent = 2, decode.answer

    def answer(body: dict[str, Any]) -> dict[str, Any]:
        reply = sent(body)
        prefill.transfers, prefill.bytes = decode.transfers, decode.bytes
        return reply

    client = FakeClient({"http://p": prefill, "http://d": decode})
    plan = PLAN | {"measurement": PUSH.measurement.to_json()}
    monkeypatch.setattr(decode, "answer", answer)
    found = probe.sample(client, plan, PAIR, set())
    assert (found["bytes"], found["external_tokens"], found["failed"]) == (512, 64, 0)
    first, second, _ = client.ids
    assert first and first == second
    assert probe.failed_transfers(client, plan, PAIR) == 2


def without_nulls(value: Any) -> Any:
    """As Pulumi's engine hands a resource's inputs on."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", PROFILES)
def test_every_connectors_plan_survives_the_engine(run: Any, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A key that only the engine left out ended the probe of every connector but one."""
    how = without_nulls(PROFILES[name].measurement.to_json())
    if how["dispatch"] == "none":
        pytest.skip("nothing moves between tiers: no pair is sampled")
    monkeypatch.setattr(probe, "SETTLED_LIMIT_S", 0.0)
    monkeypatch.setitem(PLAN, "measurement", how)
    assert len(run(FakeEngine(moves=512)).fresh) == PLAN["samples"]


@pytest.mark.parametrize(("ranks", "told"), [({"0": {"engine_id": "e"}}, True), ({}, False)])
def test_with_mooncake_decode_is_told_what_the_bootstrap_server_says(ranks: Any, told: bool) -> None:
    asked: list[dict[str, Any]] = []

    class Client:
        def get(self, url: str) -> str:
            assert url == "http://10.0.0.1:5600/query"
            return json.dumps(ranks)

        def post(self, _url: str, body: dict[str, Any], _headers: dict[str, str]) -> dict[str, Any]:
            asked.append(body["kv_transfer_params"])
            return {"choices": [{"text": "t"}]}

    plan = PLAN | {"measurement": MOONCAKE.measurement.to_json() | {"bootstrapPort": 5600}}
    pair = ({"name": "p", "url": "http://10.0.0.1:8000"}, {"name": "d", "url": "http://10.0.0.2:8000"})
    if not told:
        with pytest.raises(probe.CannotMeasure, match="names no engine"):
            probe.transfer(Client(), plan, pair, [1], 2)
        return
    probe.transfer(Client(), plan, pair, [1], 2)
    prefill, decode = asked
    assert prefill["do_remote_decode"] and decode["do_remote_prefill"]
    assert prefill["transfer_id"] == decode["transfer_id"]
    assert (decode["remote_engine_id"], decode["remote_bootstrap_addr"]) == ("e", "http://10.0.0.1:5600")


def test_metrics_are_summed_over_the_label_sets_that_match() -> None:
    series = probe.parse_metrics('a{x="1",y="2"} 3\na{x="2"} 4\n# a comment\nb 5e-1\n')
    assert probe.total(series, "a") == 7
    assert probe.total(series, 'a{x="1"}') == 3
    assert probe.total(series, "b") == 0.5
    assert probe.total(series, "missing") is None


def test_a_real_decoders_page_is_read() -> None:
    series = probe.parse_metrics((PAGES / "vllm-0.32-decode.prom").read_text())
    assert probe.total(series, "vllm:nixl_bytes_transferred_sum") == 192675840.0
    assert probe.total(series, 'vllm:prompt_tokens_by_source_total{source="external_kv_transfer"}') == 23361.0
    assert series["vllm:cache_config_info"][0][0]["num_gpu_blocks"] == "256"


def test_the_caches_of_all_ranks_must_wrap() -> None:
    class Page:
        def get(self, _url: str) -> str:
            of = 'vllm:cache_config_info{{block_size="16",engine="{}",num_gpu_blocks="{}"}} 1.0\n'
            return of.format(0, 100) + of.format(1, 90)

    assert probe.cache_tokens(Page(), "http://engine") == 16 * 190


def test_two_prompts_share_no_beginning() -> None:
    assert probe.random_prompt(PLAN, 64)[:8] != probe.random_prompt(PLAN, 64)[:8]


def test_a_failed_transfer_is_still_counted_when_the_other_side_is_gone() -> None:
    decode = FakeEngine(moves=512)
    decode.failed = 3
    client = FakeClient({"http://p": FakeEngine(0, statistics=False), "http://d": decode})
    plan = PLAN | {"measurement": PUSH.measurement.to_json()}
    assert probe.failed_transfers(client, plan, PAIR) == 3


def test_an_interrupted_ageing_sends_no_further_request(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def interrupted(*_: Any) -> Any:
        asked.append(1)
        raise probe.CannotMeasure("ended")

    ageing: list[probe.Ageing] = []
    kept = probe.Ageing.__init__

    def remember(self: probe.Ageing, *arguments: Any) -> None:
        kept(self, *arguments)
        ageing.append(self)

    def stopped(_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(probe.Ageing, "__init__", remember)
    monkeypatch.setattr(probe, "cache_tokens", lambda *_: 10**9)
    monkeypatch.setattr(probe, "transfer", interrupted)
    monkeypatch.setattr(probe.threading.Thread, "join", stopped)
    with pytest.raises(KeyboardInterrupt):
        probe.age(None, PLAN | {"age": {"mode": "on", "limit_s": 60}}, [PAIR])
    ageing[0].errors.clear()
    before = len(asked)
    ageing[0].load()
    assert len(asked) == before


class RenderClient:
    """Tiers that render: an answer by URL. What a test leaves out answers as the engine does."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers

    def post(self, url: str, body: dict[str, Any], headers: dict[str, str] | None = None) -> Any:
        host, _, path = url.removeprefix("http://").partition("/v1/")
        answer = self.answers.get(host, self.answers["engine"])
        if path.startswith("chat") and answer.get("no_template"):
            raise probe.CannotMeasure(f"{url} answered 400: no chat template")
        if answer.get("error"):
            raise probe.CannotMeasure(answer["error"])
        if path.endswith("/render"):
            rendered = {"token_ids": answer.get("tokens", [1, 2, 3])}
            return rendered if path.startswith("chat") else [rendered]
        text = answer.get("text", "yes")
        choice = {"message": {"content": text}} if path.startswith("chat") else {"text": text}
        return {"choices": [choice], "usage": {"prompt_tokens": answer.get("length", 3)}}


RENDER_PLAN = PLAN | {
    "router": "http://router", "reference": "http://engine",
    "render": [{"name": "r0", "url": "http://r0"}, {"name": "r1", "url": "http://r1"}],
}  # fmt: skip


def rendered(**answers: Any) -> dict[str, Any]:
    return probe.check_render(RenderClient(**({"engine": {}} | answers)), RENDER_PLAN)


@pytest.mark.parametrize("engine", [{}, {"no_template": True}], ids=["chats", "a-model-without-a-template"])
def test_a_render_tier_that_makes_the_engines_prompts_is_found_equal(engine: dict[str, Any]) -> None:
    found = rendered(engine=engine)
    assert [(pod["name"], pod["equal"]) for pod in found["pods"]] == [("r0", True), ("r1", True)]
    assert found["answers"] == [{"router": "yes", "engine": "yes", "router_tokens": 3, "engine_tokens": 3}] * 3
    assert found["error"] is None


def test_every_render_pod_is_asked_and_told_apart() -> None:
    found = rendered(r0={"error": "does not answer"}, r1={"tokens": [1, 2]})
    assert [(pod["equal"], pod["error"]) for pod in found["pods"]] == [(False, "does not answer"), (False, None)]


def test_other_answers_through_the_router_are_kept_beside_the_engines_own() -> None:
    found = rendered(router={"text": "no", "length": 5})
    assert found["answers"][0] == {"router": "no", "engine": "yes", "router_tokens": 5, "engine_tokens": 3}
    assert rendered(router={"error": "router answered 502"})["error"] == "router answered 502"
