"""`splitserve check` on engines that are not ours gives the gate's verdict and its causes, over real HTTP."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any

import pytest

from components.check.engine import cache_of
from components.check.process import birth, counts, fallen, same_process
from components.release import probe
from components.topology.evidence import ASK_LINKS
from tests.unit.check_runs import QUICK, config_file, on, run
from tests.unit.fake_vllm import Engine, Server, between, serving
from tests.unit.transports import TCP

DATA = Path(__file__).resolve().parents[1] / "data/topology"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fakes publish their counters at once."""
    monkeypatch.setattr(probe, "SETTLE_LIMIT_S", 0.5)
    monkeypatch.setattr(probe, "SETTLED_LIMIT_S", 0.2)


def test_a_fast_transfer_that_the_models_geometry_confirms_passes(tmp_path: Path) -> None:
    with serving(Engine(), Engine()) as (prefill, decode):
        ran = on(prefill, decode, "--model-config", config_file(tmp_path))
    found = ran.json
    assert (ran.code, found["outcome"], found["basis"], found["connector"]) == (0, "pass", "geometry", "nixl")
    pair = found["pairs"][0]
    assert pair["expected_bytes"] == pair["fresh"]["mean_bytes"] == 128 * 1024
    assert found["kv_transfer_ms"] == pytest.approx(20)
    assert not found["aged_is_estimated"]


def test_without_the_model_bytes_are_held_against_each_other_and_the_answer_says_so() -> None:
    with serving(Engine(), Engine(aged_ms=40.0)) as (prefill, decode):
        ran = on(prefill, decode)
    found = ran.json
    assert (ran.code, found["outcome"], found["basis"]) == (0, "pass", "consistency")
    assert "1,024 a token at 128 and 64 tokens" in found["message"]
    assert found["kv_transfer_aged_ms"] == pytest.approx(40)
    assert found["pairs"][0]["expected_bytes"] is None


def test_without_the_model_and_without_ageing_it_is_no_pass() -> None:
    with serving(Engine(), Engine()) as (prefill, decode):
        ran = on(prefill, decode, "--age", "off")
    assert (ran.code, ran.json["cause"]) == (2, "aged-unknown")
    assert "--model-config" in ran.json["fix"]


def test_with_the_model_an_aged_cache_is_estimated_and_said_to_be(tmp_path: Path) -> None:
    with serving(Engine(), Engine()) as (prefill, decode):
        ran = on(prefill, decode, "--age", "off", "--model-config", config_file(tmp_path))
    assert (ran.code, ran.json["aged_is_estimated"]) == (0, True)
    assert ran.json["kv_transfer_aged_ms"] > ran.json["kv_transfer_ms"]


def test_a_push_is_found_out_and_counted_on_the_prefiller() -> None:
    pusher = Engine()
    with serving(pusher, Engine(pushes_from=pusher)) as (prefill, decode):
        ran = on(prefill, decode)
    assert (ran.code, ran.json["connector"]) == (0, "nixl-push")
    assert ran.json["pairs"][0]["fresh"]["mean_bytes"] == 128 * 1024


def test_older_names_of_what_arrived_are_read() -> None:
    engines = [Engine(arrival="vllm:external_prefix_cache_hits_total") for _ in range(2)]
    with serving(*engines) as (prefill, decode):
        assert on(prefill, decode).code == 0


def test_where_arrivals_are_not_counted_equal_bytes_are_no_pass() -> None:
    with serving(*[Engine(arrival="vllm:of_another_version_total") for _ in range(2)]) as (prefill, decode):
        ran = on(prefill, decode)
    assert (ran.code, ran.json["cause"]) == (2, "bytes-unknown")


def test_caches_that_their_own_traffic_has_aged_are_not_aged_again() -> None:
    engines = [Engine(cache_blocks=1024, aged_ms=40.0) for _ in range(2)]
    for engine in engines:
        engine.tokens = 21_000
    with serving(*engines) as (prefill, decode):
        found = on(prefill, decode).json
    assert (found["outcome"], found["kv_transfer_aged_ms"], found["aged_is_estimated"]) == (
        "pass",
        pytest.approx(40),
        False,
    )
    assert any("by their own traffic" in note for note in found["notes"])
    assert all(engine.tokens < 21_000 + 16_384 / 2 for engine in engines)


def slow() -> tuple[Engine, Engine]:
    return Engine(), Engine(ms=300.0)


def fragmented() -> tuple[Engine, Engine]:
    return Engine(), Engine(aged_ms=300.0)


def silent() -> tuple[Engine, Engine]:
    return Engine(), Engine(connector=None)


def idle() -> tuple[Engine, Engine]:
    return Engine(), Engine(share=0)


def swapped() -> tuple[Engine, Engine]:
    return Engine(consumer=True), Engine()


def damaged() -> tuple[Engine, Engine]:
    return Engine(), Engine(damaged=True)


def partly() -> tuple[Engine, Engine]:
    return Engine(), Engine(share=0.5)


def failing() -> tuple[Engine, Engine]:
    return Engine(), Engine(fails=True)


@pytest.mark.parametrize(
    ("engines", "cause"),
    [
        (slow, "slow-link"),
        (fragmented, "fragmented-cache"),
        (silent, "never-disaggregated"),
        (idle, "never-disaggregated"),
        (swapped, "never-disaggregated"),
        (damaged, "wrong-answer"),
        (partly, "part-arrived"),
        (failing, "failed-transfers"),
    ],
)
def test_what_is_wrong_fails_with_its_own_cause(engines: Any, cause: str) -> None:
    with serving(*engines()) as (prefill, decode):
        ran = on(prefill, decode)
    assert (ran.code, ran.json["outcome"], ran.json["cause"]) == (1, "fail", cause)
    assert ran.json["fix"] and "pulumi" not in ran.json["fix"]
    assert (ran.json["basis"] == "consistency") == (cause == "part-arrived"), "only what was done is said"


def test_a_slow_link_whose_topology_is_given_says_why(tmp_path: Path) -> None:
    file, junk = tmp_path / "decode.log", tmp_path / "notes.txt"
    file.write_text(TCP)
    junk.write_text("nothing of use\n")
    with serving(*slow()) as (prefill, decode):
        ran = on(
            prefill, decode, "--topology", str(DATA / "rtx5090-2.txt"), "--topology", str(file), "--topology", str(junk)
        )
        plain = run("--prefill", prefill.url, "--decode", decode.url, *QUICK, "--topology", str(file))
    found = ran.json
    assert (ran.code, found["cause"]) == (1, "slow-link")
    assert "peer access not used: tcp/bond0" in found["message"] and "GPU0-GPU1 GNS" in found["message"]
    assert found["fix"].startswith("fix peer access: ")
    way = found["topology"]
    assert (way["path"], way["peer_access"], way["link"], way["same_host"]) == ("tcp", "not-supported", "PHB", True)
    assert any(note.startswith(f"{junk}: found no matrix") for note in found["notes"])
    assert (
        "  way:   blocks went by TCP" in plain.out
        and f"  ask:   on the machine of the GPUs run `{ASK_LINKS}" in plain.out
    )


def test_a_fast_link_says_its_way_and_one_that_is_not_known_is_no_better_for_it() -> None:
    with serving(Engine(), Engine()) as (prefill, decode):
        found = on(prefill, decode).json
        assert (found["topology"]["path"], found["topology"]["peer_access"]) == ("not-known", "not-known")
        ran = on(prefill, decode, "--topology", "/no/such/file", "--prefill-gpus", "first")
    assert ran.code == 2
    assert "--topology: found no readable file" in ran.err and "--prefill-gpus: found first" in ran.err


def test_a_prefiller_in_the_decoders_role_is_named() -> None:
    with serving(*swapped()) as (prefill, decode):
        found = on(prefill, decode).json
    assert any("told nothing for a decoder" in note for note in found["notes"])


def test_bytes_that_the_model_does_not_have_fail(tmp_path: Path) -> None:
    with serving(Engine(), Engine(bytes_per_token=512)) as (prefill, decode):
        ran = on(prefill, decode, "--model-config", config_file(tmp_path))
    assert (ran.code, ran.json["cause"]) == (1, "wrong-bytes")
    assert "--dtype" in ran.json["fix"]


def test_a_state_of_constant_size_is_not_taken_for_a_pass_without_the_model() -> None:
    with serving(Engine(), Engine(constant_bytes=10**6)) as (prefill, decode):
        ran = on(prefill, decode)
    assert (ran.code, ran.json["cause"]) == (2, "bytes-inconsistent")


def test_two_engines_without_any_connector_are_no_verdict_unless_it_is_named() -> None:
    with serving(Engine(connector=None), Engine(connector=None)) as (prefill, decode):
        ran, named = on(prefill, decode), on(prefill, decode, "--connector", "nixl")
    assert (ran.code, ran.json["cause"]) == (2, "no-connector-seen")
    assert (named.code, named.json["cause"]) == (1, "never-disaggregated")


def test_a_connector_without_series_is_judged_by_content_only_where_that_is_accepted() -> None:
    with serving(Engine(connector="other"), Engine(connector="other")) as (prefill, decode):
        ran, accepted = on(prefill, decode), on(prefill, decode, "--accept-content-only")
    assert (ran.code, ran.json["cause"]) == (2, "unmeasurable")
    assert "--accept-content-only" in ran.json["fix"]
    assert (accepted.code, accepted.json["cause"], accepted.json["basis"]) == (0, "content-only", "content")


def test_failures_of_last_week_are_not_held_against_a_deployment() -> None:
    """A pair breaks off by a 500 that is no failed transfer; the decoder counted failures before."""

    class Broken(Engine):
        def answer(self, body: dict[str, Any]) -> tuple[int, Any]:
            if body.get("kv_transfer_params"):
                return 500, {"error": "out of sorts"}
            return super().answer(body)

    decoder = Broken()
    decoder.failed = 7
    with serving(Engine(), decoder) as (prefill, decode):
        ran = on(prefill, decode)
    assert (ran.code, ran.json["cause"]) == (2, "pair-unmeasured")


class Dying(Engine):
    """Ends after some answers for a decoder: its server stops, and the decoder's transfer fails."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.left, self.end = after, lambda: None

    def answer(self, body: dict[str, Any]) -> tuple[int, Any]:
        if (body.get("kv_transfer_params") or {}).get("do_remote_decode"):
            self.left -= 1
            if self.left < 0:
                self.end()
        return super().answer(body)


def test_a_prefiller_that_ends_during_the_check_is_named_as_the_cause() -> None:
    dying = Dying(after=3)
    prefill = Server(dying)

    def end() -> None:
        prefill.http.socket.close()
        raise OSError("killed")

    dying.end = end
    with serving(prefill, Engine()) as (_, decode):
        ran = on(prefill, decode)
    assert (ran.code, ran.json["cause"]) == (1, "pod-ended")
    assert prefill.url.partition("://")[2] in ran.json["message"]


def test_an_engine_that_was_started_again_during_the_check_is_named() -> None:
    dying = Dying(after=3)
    dying.end = dying.restart
    with serving(dying, Engine()) as (prefill, decode):
        ran = on(prefill, decode)
    assert (ran.code, ran.json["cause"]) == (1, "pod-ended")
    assert "started again" in ran.json["message"]


def test_a_router_that_splits_passes_and_one_that_does_not_is_found() -> None:
    with serving(Engine(), Engine()) as (prefill, decode):
        straight = Server(answers=lambda _, body: decode.reply("/v1/completions", body))
        with serving(between(prefill, decode), straight) as (router, other):
            good, bad = on(prefill, decode, "--router", router.url), on(prefill, decode, "--router", other.url)
    assert good.code == 0
    assert (bad.code, bad.json["cause"]) == (1, "router-not-disaggregated")


def test_a_real_engines_page_says_which_process_made_it_and_how_large_its_cache_is() -> None:
    text = (Path(__file__).parent / "scrapes/vllm-0.32-decode.prom").read_text()
    series = probe.parse_metrics(text)
    born = birth(series)
    later = {key: value + 60 for key, value in born.items()}
    assert born and same_process(born, dict(born)) and not same_process(born, later)
    grown = probe.parse_metrics(text.replace("192675840.0", "192675839.0").replace(" 23361.0", " 23360.0"))
    assert fallen(counts(series), counts(grown)) == "vllm:prompt_tokens_by_source_total"
    assert fallen(counts(grown), counts(series)) is None
    assert cache_of("http://d", series) == (32, 256 * 32, "auto")


def test_several_pods_of_a_tier_are_all_measured() -> None:
    with serving(Engine(), Engine(), Engine(ms=400.0)) as (prefill, decode, slow_one):
        ran = on(prefill, decode, "--decode", slow_one.url)
    assert len(ran.json["pairs"]) == 2
    assert (ran.json["cause"], ran.json["kv_transfer_ms"]) == ("slow-link", pytest.approx(400))


def test_a_clock_that_jumps_changes_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    jumps = itertools.cycle([0.0, 4e9, -4e9])
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + next(jumps))
    with serving(Engine(), Engine(aged_ms=40.0)) as (prefill, decode):
        found = on(prefill, decode).json
    assert (found["outcome"], found["kv_transfer_ms"], found["kv_transfer_aged_ms"]) == (
        "pass", pytest.approx(20), pytest.approx(40),
    )  # fmt: skip


def test_the_text_has_the_gates_table_and_says_what_bytes_were_held_against() -> None:
    with serving(Engine(), Engine()) as (prefill, decode):
        ran = run("--prefill", prefill.url, "--decode", decode.url, *QUICK)
    assert "KV transfer, limit 100 ms: pass" in ran.out
    assert "not against the model" in ran.out
