"""The gateway's small parts, and the gateway as one file: flags, error texts, stop strings, the zip."""

from __future__ import annotations

import asyncio
import io
import json
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from components.gateway import faults, packed
from components.gateway.admission import Admission
from components.gateway.faults import from_answer, without_addresses
from components.gateway.sanitize import strip
from components.gateway.settings import parse
from components.gateway.stops import Hold, spoken
from components.gateway.streaming import merged
from tests.unit.fake_gateway_stand import CHAT, run, stand
from tests.unit.ports import free_port

URLS = ["--render", "http://r", "--prefill", "http://p", "--decode", "http://d"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "--release (or a static URL for each tier) is needed"),
        (["--render", "http://r"], "--prefill: no URL given"),
        ([*URLS, "--collocated", "http://c"], "--collocated: not a tier of --topology prefill-decode"),
        ([*URLS, "--max-in-flight", "0"], "--max-in-flight: found 0, wanted at least 1"),
        (
            ["--topology", "collocated", "--release", "r", "--dispatch", "concurrent"],
            "--dispatch concurrent: collocated has no second leg",
        ),
    ],
)
def test_flags_that_do_not_fit_are_told(flags: list[str], message: str) -> None:
    with pytest.raises(SystemExit) as told:
        parse(flags)
    assert message in str(told.value)


def test_static_urls_may_be_repeated() -> None:
    assert parse([*URLS, "--decode", "http://e"]).static["decode"] == ("http://d", "http://e")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Cannot connect to host 10.1.2.3:8000 now", "Cannot connect to host <address> now"),
        ("see http://decode.ns.svc.cluster.local:8000/x?y=1 now", "see <address> now"),
        ("host decode-0.ns.svc.cluster.local:80 left", "host <address> left"),
        ("at tcp://[fd00::1]:5600 now", "at <address> now"),
        ("[fd00::1]:80", "<address>"),
        ("Input length (5000) exceeds 4096. temperature 0.5, version 0.32.0", None),
    ],
)
def test_addresses_are_hidden_and_the_rest_is_kept(text: str, shown: str | None) -> None:
    assert without_addresses(text) == (text if shown is None else shown)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b'{"error": {"message": "m", "type": "T", "param": "p", "code": 400}}', "m"),
        (b'{"detail": "d"}', "d"),
        (b'{"error": "Unauthorized"}', "Unauthorized"),
        (b"<html>", "the render tier answered with status 400"),
        (b"[]", "the render tier answered with status 400"),
    ],
)
def test_any_error_body_becomes_openai_s_shape(raw: bytes, message: str) -> None:
    told = json.loads(from_answer("render", 400, raw).body())["error"]
    assert (told["message"], told["code"]) == (message, 400)


def test_a_503_is_a_refusal_that_may_go_elsewhere() -> None:
    assert isinstance(from_answer("decode", 503, b"{}"), faults.Refused)


def test_strip_names_what_was_said_and_overlooks_null() -> None:
    body: dict[str, Any] = {"kv_transfer_params": None, "vllm_xargs": {"ec_transfer_params": {}, "a": 1}}
    assert strip(body) == ["ec_transfer_params"]
    assert body == {"vllm_xargs": {"a": 1}}


def test_held_text_is_shown_once_it_can_be_no_stop_string() -> None:
    hold = Hold({"stop": ["END"]})
    shown = [hold.take([("content", text)]) for text in ("a", "bE", "N", "x")]
    assert shown == [[], [("content", "a")], [("content", "b")], [("content", "E")]]
    assert hold.finish([("content", "y")], None) == [("content", "Nxy")]


def test_text_held_back_is_shown_before_another_field_begins() -> None:
    hold = Hold({"stop": "END"})
    assert hold.take([("reasoning", "abc")]) == [("reasoning", "a")]
    assert hold.take([("content", "def")]) == [("reasoning", "bc"), ("content", "d")]


def test_with_min_tokens_an_early_stop_string_did_not_count() -> None:
    hold = Hold({"stop": "x", "min_tokens": 3})
    assert hold.finish([("text", "axbxc")], "x") == [("text", "axb")]


def test_the_token_that_ended_the_answer_has_no_text() -> None:
    ended = {"token_ids": [5, 6], "finish_reason": "stop", "stop_reason": None}
    assert spoken(ended, include_stop=False) == [5]
    assert spoken(ended, include_stop=True) == [5, 6]
    assert spoken(ended | {"stop_reason": "x"}, include_stop=False) == [5, 6]
    assert spoken(ended | {"finish_reason": "length"}, include_stop=False) == [5, 6]


def test_chunks_that_piled_up_become_one_per_choice() -> None:
    def chunk(index: int, token: int, finish: str | None = None) -> dict[str, Any]:
        own = {"token_id": token, "logprob": -1.0, "top_logprobs": []}
        choice = {"index": index, "token_ids": [token], "finish_reason": finish, "stop_reason": None}
        return {"choices": [choice | {"logprobs": {"content": [own]}}]}

    out = merged([chunk(0, 1), chunk(1, 2), chunk(0, 3, "stop"), {"choices": [], "usage": {}}])
    assert (out[0]["token_ids"], out[0]["finish_reason"]) == ([1, 3], "stop")
    assert [entry["token_id"] for entry in out[0]["logprobs"]["content"]] == [1, 3]
    assert (out[1]["token_ids"], out[1]["finish_reason"]) == ([2], None)


def test_a_slot_handed_to_a_request_that_gives_up_in_that_moment_is_not_lost() -> None:
    async def body() -> None:
        admission = Admission(1, 1, 5)

        async def waits() -> None:
            async with admission.slot():
                pass

        async with admission.slot():
            waiting = asyncio.create_task(waits())
            await asyncio.sleep(0)
            assert (admission.in_flight, admission.queued) == (1, 1)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert (admission.in_flight, admission.queued) == (0, 0)

    run(body)


def test_the_same_sources_pack_to_the_same_bytes_without_the_packer() -> None:
    first = packed.packed()
    packed.packed.cache_clear()
    assert first == packed.packed()
    names = zipfile.ZipFile(io.BytesIO(first)).namelist()
    assert names == sorted(names) and "__main__.py" in names and "gateway/packed.py" not in names
    assert all(info.date_time == (1980, 1, 1, 0, 0, 0) for info in zipfile.ZipFile(io.BytesIO(first)).infolist())
    assert len(first) < 900_000, "a ConfigMap holds 1 MiB"


def test_nothing_of_ours_outside_the_package_is_imported() -> None:
    for path in Path(packed.__file__).parent.glob("[!p]*.py"):
        assert "from components" not in path.read_text() and "import components" not in path.read_text(), path


def test_the_packed_file_tells_its_flags(tmp_path: Path) -> None:
    file = tmp_path / "gateway.pyz"
    file.write_bytes(packed.packed())
    done = subprocess.run(
        [sys.executable, str(file), "--help"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "--prefill-policy" in done.stdout and "--queue-limit-s" in done.stdout


def test_the_packed_file_serves_a_request_and_ends_on_sigterm(tmp_path: Path) -> None:
    file = tmp_path / "gateway.pyz"
    file.write_bytes(packed.packed())

    async def body() -> None:
        async with stand() as s:
            port = free_port()
            flags = [f"--{tier}={s.urls[id(made[0])]}" for tier, made in
                     (("render", s.render), ("prefill", s.prefill), ("decode", s.decode))]  # fmt: skip
            flags += ["--host=127.0.0.1", f"--port={port}", f"--metrics-port={free_port()}", "--drain-notice-s=0"]
            process = await asyncio.create_subprocess_exec(sys.executable, str(file), *flags, cwd=tmp_path)
            try:
                answer = await asked(s.session, f"http://127.0.0.1:{port}/v1/chat/completions")
            finally:
                process.send_signal(signal.SIGTERM)
                assert await asyncio.wait_for(process.wait(), 10) == 0
            assert answer["choices"][0]["message"]["content"] == "hello"

    run(body)


async def asked(session: aiohttp.ClientSession, url: str) -> Any:
    """The answer to a chat request, once the server listens."""
    while True:
        try:
            async with session.post(url, json=CHAT) as response:
                return await response.json()
        except aiohttp.ClientConnectorError:
            await asyncio.sleep(0.05)
