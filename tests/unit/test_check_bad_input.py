"""What can't be measured is said with a way out, exit code 2, never a pass; and nothing is left running."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from components.check import client as client_file
from components.release import probe
from tests.unit.check_runs import config_file, on, run
from tests.unit.fake_vllm import Engine, Server, between, serving

PROJECT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "SETTLE_LIMIT_S", 0.5)
    monkeypatch.setattr(probe, "SETTLED_LIMIT_S", 0.2)


def other_server() -> Server:
    return Server(answers=lambda *_: (200, "<html>\nhello world\n</html>"))


def other_json() -> Server:
    return Server(answers=lambda *_: (200, {"data": "nothing"}))


def redirecting() -> Server:
    def answers(request: Any, _: Any) -> None:
        request.send_response(302)
        request.send_header("Location", "http://127.0.0.1:1/")
        request.send_header("Content-Length", "0")
        request.end_headers()

    return Server(answers=answers)


def loading() -> Server:
    return Server(answers=lambda *_: (503, {"error": "loading"}))


def mute() -> Server:
    return Server(Engine(), delay_s=3.0)


def dripping() -> Server:
    """A byte now and then, so that no read ever times out."""

    def answers(request: Any, _: Any) -> None:
        request.send_response(200)
        request.send_header("Content-Length", "1000000")
        request.end_headers()
        for _ in range(40):
            request.wfile.write(b" ")
            request.wfile.flush()
            time.sleep(0.1)

    return Server(answers=answers)


def broken_off() -> Server:
    def answers(request: Any, _: Any) -> None:
        request.send_response(200)
        request.send_header("Content-Length", "1000")
        request.end_headers()
        request.wfile.write(b"{")

    return Server(answers=answers)


def behind_a_balancer() -> Server:
    return Server(Engine(), Engine())


def behind_a_balancer_with_several_api_servers() -> Server:
    """Prometheus' multiprocess mode: no page says which process made it."""
    used = Engine(born=False)
    used.tokens = 5000
    return Server(used, Engine(born=False))


def without_metrics() -> Server:
    return Server(Engine(statistics=False))


def with_other_names() -> Server:
    engine = Engine()
    engine.renamed["vllm:prompt_tokens_total"] = "vllm:input_tokens_total"
    return Server(engine)


def without_cache_sizes() -> Server:
    engine = Engine()
    engine.renamed["num_gpu_blocks"] = "pages"
    return Server(engine)


def broken_page() -> Server:
    engine = Engine()
    engine.renamed["process_start_time_seconds"] = "process_start_time_seconds soon\nx"
    return Server(engine)


@pytest.mark.parametrize(
    ("make", "cause", "words"),
    [
        (other_server, "not-vllm", "no JSON"),
        (other_json, "not-vllm", "wanted vLLM's own list"),
        (redirecting, "not-vllm", "not followed"),
        (loading, "not-serving", "still loading"),
        (mute, "no-answer", "nothing within"),
        (dripping, "no-answer", "still sending"),
        (broken_off, "no-answer", "broke off"),
        (behind_a_balancer, "several-pods", "give each pod's own URL"),
        (behind_a_balancer_with_several_api_servers, "several-pods", "went backwards"),
        (without_metrics, "no-metrics", "--disable-log-stats"),
        (with_other_names, "other-metrics", "0.30 to 0.33"),
        (without_cache_sizes, "other-metrics", "num_gpu_blocks missing"),
        (broken_page, "no-metrics", "no Prometheus text"),
    ],
)
def test_an_endpoint_that_can_not_be_measured_is_no_pass(
    make: Callable[[], Server], cause: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if make in (mute, dripping):
        monkeypatch.setattr(client_file, "PAGE_LIMIT_S", 1.0)
    with serving(Engine(), make()) as (prefill, decode):
        ran = on(prefill, decode)
    assert (ran.code, ran.json["outcome"], ran.json["cause"]) == (2, "inconclusive", cause)
    assert words in ran.json["message"] and decode.url in ran.json["message"]


def test_faults_of_all_engines_come_at_once() -> None:
    with serving(without_metrics(), other_json()) as (prefill, decode):
        faults = on(prefill, decode).json["faults"]
    assert [fault["kind"] for fault in faults] == ["no-metrics", "not-vllm"]


def test_nobody_there() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        ran = run("--prefill", url, "--decode", f"{url}/other", "--json")
    assert (ran.code, ran.json["cause"]) == (2, "no-answer")
    assert "refused" in ran.json["message"]


def test_a_key_is_asked_for_and_taken_from_the_environment_alone() -> None:
    prefill, decode = Server(Engine(), key="s3cret"), Server(Engine(), key="s3cret")
    with serving(prefill, decode):
        without = on(prefill, decode)
        wrong = on(prefill, decode, "--api-key-env", "ENGINE_KEY", env={"ENGINE_KEY": "other"})
        right = on(prefill, decode, "--api-key-env", "ENGINE_KEY", env={"ENGINE_KEY": "s3cret"})
    for ran in (without, wrong):
        assert (ran.code, ran.json["cause"]) == (2, "needs-key")
        assert "--api-key-env" in ran.json["message"]
    assert right.code == 0
    assert "s3cret" not in right.out + right.err


def test_a_router_that_wants_another_key_is_not_judged() -> None:
    with serving(Engine(), Engine()) as (prefill, decode):
        router = between(prefill, decode)
        router.key = "s3cret"
        with serving(router):
            ran = on(prefill, decode, "--router", router.url)
    assert (ran.code, ran.json["cause"]) == (2, "needs-key")


def test_different_models_and_a_name_that_nobody_serves() -> None:
    with serving(Engine(models=["a", "both"]), Engine(models=["b"]), Engine(models=["both"])) as (one, other, third):
        different, unknown, alias = on(one, other), on(one, third, "--model", "c"), on(one, third)
    assert (different.code, different.json["cause"]) == (2, "different-models")
    assert (unknown.code, unknown.json["cause"]) == (2, "other-model")
    assert (alias.code, alias.json["model"]) == (0, "both")


def test_one_engine_for_both_tiers_by_one_url_and_by_two() -> None:
    engine = Engine()
    with serving(Server(engine), Server(engine)) as (one, other):
        same, disguised = on(one, one), on(one, other)
    assert same.code == 2 and "2 times" in same.err
    assert (disguised.code, disguised.json["cause"]) == (2, "same-engine")


def test_a_prompt_that_the_context_does_not_take() -> None:
    with serving(Engine(max_model_len=100), Engine(max_model_len=100)) as (prefill, decode):
        stated = on(prefill, decode)
        default = run("--prefill", prefill.url, "--decode", decode.url, "--samples", "1", "--json")
    assert (stated.code, stated.json["cause"]) == (2, "context-too-short")
    assert "found 128" in stated.json["message"] and "at most 96" in stated.json["message"]
    assert default.code == 0
    assert any("prompts have 80 tokens instead of 1024" in note for note in default.json["notes"])
    with serving(Engine(max_model_len=30), Engine(max_model_len=30)) as (prefill, decode):
        assert on(prefill, decode).json["cause"] == "context-too-short"


def test_an_overall_limit_ends_a_check_that_takes_too_long() -> None:
    slow = Server(Engine(), delay_s=0.3)
    with serving(Engine(), slow) as (prefill, decode):
        started = time.monotonic()
        ran = on(prefill, decode, "--limit-s", "1")
    assert (ran.code, ran.json["cause"]) == (2, "took-too-long")
    assert time.monotonic() - started < 20


def test_a_request_that_hangs_while_it_is_measured_is_no_verdict() -> None:
    class Hanging(Engine):
        def answer(self, body: dict[str, Any]) -> tuple[int, Any]:
            if body.get("kv_transfer_params"):
                time.sleep(5.0)
            return super().answer(body)

    with serving(Engine(), Hanging()) as (prefill, decode):
        ran = on(prefill, decode, "--request-limit-s", "2")
    assert (ran.code, ran.json["cause"]) == (2, "pair-unmeasured")
    assert "nothing within 2 s" in ran.json["message"]


def test_pods_behind_one_url_that_differ_only_later_are_found() -> None:
    """A balancer that sticks for the first requests, then sends to another pod and back."""

    class Fickle(Server):
        def reply(self, path: str, body: dict[str, Any] | None) -> tuple[int, Any]:
            if len(self.seen) == 30:
                self.turns = iter([self.engines[1], self.engines[0]] * 1000)
            return super().reply(path, body)

    decoder = Engine()
    balanced = Fickle(decoder, Engine())
    balanced.turns = iter([decoder] * 1000)
    with serving(Engine(), balanced) as (prefill, decode):
        ran = on(prefill, decode, "--samples", "20")
    assert (ran.code, ran.json["cause"]) == (2, "several-pods")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "what to check: found nothing"),
        (("--prefill", "http://a", "--decode-log", "x"), "found URLs and a log"),
        (("--prefill", "http://a"), "--decode: found no URL"),
        (("--prefill", "a:80", "--decode", "http://b"), "--prefill: found a:80, wanted such as"),
        (("--prefill", "http://me:secret@a", "--decode", "http://b"), "a URL with a user or password"),
        (("--prefill", "http://a:99999", "--decode", "http://b"), "--prefill: found http://a:99999"),
        (("--prefill", "http://a", "--decode", "http://b", "--age", "soon"), "--age: found soon"),
        (("--prefill", "http://a", "--decode", "http://b", "--limit-ms", "nan"), "--limit-ms: found nan"),
        (("--prefill", "http://a", "--decode", "http://b", "--api-key-env", "NO_SUCH"), "no variable NO_SUCH"),
        (("--prefill", "http://a", "--decode", "http://b", "--model-config", "/no/such"), "--model-config: found no"),
        (("--prefill", "http://a", "--decode", "http://b", "--dtype", "int3"), "--dtype: found int3"),
        (("--namespace", "n"), "--decode-selector: found nothing"),
        (("--namespace", "n", "--decode-selector", "a=b"), "--prefill-selector: found nothing"),
        (("--decode-log", "-", "--watch", "5"), "--watch: found --decode-log"),
    ],
)
def test_wrong_arguments_say_what_was_found_and_wanted(arguments: tuple[str, ...], words: str) -> None:
    ran = run(*arguments)
    assert ran.code == 2
    assert words in ran.err
    assert "secret" not in ran.err


def test_model_files_and_connectors_that_say_nothing(tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("[1]")
    urls = ("--prefill", "http://127.0.0.1:1", "--decode", "http://127.0.0.1:2")
    assert "no JSON of a model" in run(*urls, "--model-config", str(broken)).err
    lacking = config_file(tmp_path, num_hidden_layers=None)
    assert "num_hidden_layers" in run(*urls, "--model-config", lacking).err
    split = run(*urls, "--model-config", config_file(tmp_path), "--tensor-parallel", "3")
    assert "--tensor-parallel: found 3, but 4 attention heads" in split.err
    with serving(Engine(), Engine()) as (prefill, decode):
        for name, words in (("nixi", "wanted one of"), ("mooncake", "--decode-log"), ("multi", "moves nothing")):
            ran = on(prefill, decode, "--connector", name)
            assert (ran.code, ran.json["cause"]) == (2, "usage")
            assert words in ran.json["message"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_check_ends_at_once_and_leaves_nothing_running(number: int) -> None:
    """Interrupted while it ages the caches, with requests under way."""
    with serving(Server(Engine(cache_blocks=10**6), delay_s=0.02), Engine(cache_blocks=10**6)) as (prefill, decode):
        # A shell starts what runs in the background with SIGINT ignored.
        heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
        script = f"{heard}; import typer; from infra.commands.check import check; typer.run(check)"
        command = [sys.executable, "-c", script, "--prefill", prefill.url, "--decode", decode.url, "--samples", "1",
                   "--prompt-tokens", "64", "--age", "60"]  # fmt: skip
        env = os.environ | {"PYTHONUNBUFFERED": "1"}
        process = subprocess.Popen(
            command, cwd=PROJECT, env=env, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stderr is not None
        for line in process.stderr:
            if "ageing" in line:
                break
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
        assert process.returncode == 130, out + err
        assert "nothing was left running" in err
        deadline = time.monotonic() + 5
        while prefill.open + decode.open and time.monotonic() < deadline:
            time.sleep(0.02)
        sent = len(prefill.seen) + len(decode.seen)
        time.sleep(0.3)
        assert (prefill.open + decode.open, len(prefill.seen) + len(decode.seen)) == (0, sent)
