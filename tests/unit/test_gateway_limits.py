"""What the gateway refuses by itself: too many, too large, too slow, without a key, or saying too much."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import time
from pathlib import Path
from typing import Any

import openai
import pytest

from components.gateway import keys
from tests.unit.fake_gateway_stand import CHAT, COMPLETION, Stand, of_generate, on_a_stand, run, stand, until


def address(s: Stand) -> tuple[str, int]:
    return "127.0.0.1", int(s.url.rsplit(":", 1)[1])


@on_a_stand(max_in_flight=1, max_queued=0)
async def test_a_request_too_many_is_429_with_retry_after_in_openai_s_format(s: Stand) -> None:
    client = s.client()
    s.decode[0].delay_s = 10
    first = asyncio.create_task(s.chat())
    await until(lambda: len(of_generate(s.prefill)) == 1)
    with pytest.raises(openai.RateLimitError) as told:
        await client.chat.completions.create(model="fake", messages=[{"role": "user", "content": "x"}])
    assert int(told.value.response.headers["Retry-After"]) >= 1
    assert told.value.response.json()["error"]["type"] == "RateLimitError"
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert await s.metric('rejected_requests_total{reason="queue_full"}') == 1


@on_a_stand(max_in_flight=1, max_queued=1, queue_limit_s=0.1)
async def test_a_wait_in_the_queue_ends_with_429(s: Stand) -> None:
    s.decode[0].delay_s = 10
    first = asyncio.create_task(s.chat())
    await until(lambda: len(of_generate(s.prefill)) == 1)
    assert (await s.chat())[0] == 429
    first.cancel()
    assert await s.metric('rejected_requests_total{reason="queue_timeout"}') == 1


@on_a_stand(max_in_flight=2, max_queued=8, queue_limit_s=5)
async def test_no_more_run_at_once_than_are_let_and_the_queue_is_served(s: Stand) -> None:
    s.decode[0].delay_s = 0.05
    most = 0

    async def watch() -> None:
        nonlocal most
        while True:
            most = max(most, int(await s.metric("in_flight_requests")))

    watching = asyncio.create_task(watch())
    statuses = [status for status, _ in await asyncio.gather(*[s.chat() for _ in range(8)])]
    watching.cancel()
    assert statuses == [200] * 8 and most == 2
    assert await s.metric("in_flight_requests") == 0 and await s.metric("queued_requests") == 0


@on_a_stand(max_in_flight=1, max_queued=1, queue_limit_s=5)
async def test_a_client_that_leaves_the_queue_gives_its_place_back(s: Stand) -> None:
    s.decode[0].delay_s = 0.4
    first = asyncio.create_task(s.chat())
    await until(lambda: len(of_generate(s.prefill)) == 1)
    second = asyncio.create_task(s.chat())
    await asyncio.sleep(0.05)
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    await asyncio.sleep(0.05)
    assert (await s.chat())[0] == 200 and (await first)[0] == 200


async def sent(s: Stand, head: str, total: int) -> tuple[int, bytes]:
    """Send up to `total` bytes after `head`. Returns how many went out before the answer, and the answer."""
    reader, writer = await asyncio.open_connection(*address(s))
    writer.write(head.encode())
    out, piece = 0, b"5".rjust(2**16, b" ")
    answer = asyncio.create_task(reader.read(4096))
    try:
        while out < total and not answer.done():
            writer.write(piece)
            await writer.drain()
            out += len(piece)
    except ConnectionError:
        pass
    got = await answer
    writer.close()
    return out, got


HEAD = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


@on_a_stand(body_limit_bytes=2**20)
async def test_a_body_of_100_mb_is_413_before_it_is_read(s: Stand) -> None:
    size = 100 * 2**20
    out, answer = await sent(s, f"{HEAD}Content-Length: {size}\r\n\r\n", size)
    assert answer.startswith(b"HTTP/1.1 413") and b'"code":413' in answer
    assert out < 16 * 2**20
    assert await s.metric("held_body_bytes") == 0


@on_a_stand(body_limit_bytes=1000)
async def test_a_body_of_untold_length_is_413_at_the_limit(s: Stand) -> None:
    async def pieces() -> Any:
        for _ in range(100):
            yield b" " * 100

    headers = {"Content-Type": "application/json"}
    async with s.session.post(s.url + "/v1/completions", data=pieces(), headers=headers) as response:
        assert response.status == 413


@on_a_stand(body_memory_bytes=3000)
async def test_bodies_together_may_not_fill_the_memory(s: Stand) -> None:
    s.decode[0].delay_s = 10
    prompt = "x" * 2000
    first = asyncio.create_task(s.completion(prompt=prompt))
    await until(lambda: len(of_generate(s.decode)) == 1)
    assert (await s.completion(prompt=prompt))[0] == 429
    first.cancel()
    s.decode[0].delay_s = 0
    await until(lambda: s.decode[0].aborted == 1)
    assert (await s.completion(prompt=prompt))[0] == 200


@on_a_stand(body_limit_s=0.2)
async def test_a_body_that_dribbles_is_408(s: Stand) -> None:
    reader, writer = await asyncio.open_connection(*address(s))
    writer.write(f"{HEAD}Content-Length: 100\r\n\r\n".encode() + b'{"prompt": ')
    answer = await asyncio.wait_for(reader.read(4096), 20)
    writer.close()
    assert answer.startswith(b"HTTP/1.1 408")


@on_a_stand(header_limit_s=0.2)
async def test_a_client_that_dribbles_its_headers_is_hung_up_on(s: Stand) -> None:
    reader, writer = await asyncio.open_connection(*address(s))
    writer.write(b"GET /health HTTP/1.1\r\nHos")
    start = time.monotonic()
    try:
        got = await asyncio.wait_for(reader.read(4096), 20)
    except ConnectionResetError:
        got = b""
    assert got == b"" and time.monotonic() - start < 2
    writer.close()


@on_a_stand(write_limit_s=0.3, engine={"reply": "x" * 3000})
async def test_a_client_that_reads_nothing_is_hung_up_on_and_its_decode_ended(s: Stand) -> None:
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.setblocking(False)
    await asyncio.get_running_loop().sock_connect(raw, address(s))
    body = json.dumps(CHAT | {"stream": True, "logprobs": True, "top_logprobs": 40}).encode()
    head = HEAD.replace("/v1/completions", "/v1/chat/completions") + f"Content-Length: {len(body)}\r\n\r\n"
    await asyncio.get_running_loop().sock_sendall(raw, head.encode() + body)
    wanted = {"client_disconnects_total": 1, "in_flight_requests": 0, "open_connections": 0}
    async with asyncio.timeout(20):
        while {name: await s.metric(name) for name in wanted} != wanted:
            await asyncio.sleep(0.1)
    raw.close()


@on_a_stand(header_limit_s=0.1)
async def test_a_connection_that_has_asked_is_not_hung_up_on_while_it_waits(s: Stand) -> None:
    s.decode[0].delay_s = 0.4
    assert (await s.chat())[0] == 200


@on_a_stand(connection_limit=3)
async def test_a_connection_too_many_is_503_and_closed(s: Stand) -> None:
    idle = [await asyncio.open_connection(*address(s)) for _ in range(3)]
    await asyncio.sleep(0.05)
    reader, writer = await asyncio.open_connection(*address(s))
    answer = await asyncio.wait_for(reader.read(), 20)
    assert answer.startswith(b"HTTP/1.1 503") and json.loads(answer.split(b"\r\n\r\n")[1])["error"]["code"] == 503
    for _, open_writer in [*idle, (reader, writer)]:
        open_writer.close()
    async with asyncio.timeout(20):
        while (await s.chat())[0] != 200:
            await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("raw", "kind", "status"),
    [
        (b'{"model": ', "application/json", 400),
        (b"[1]", "application/json", 400),
        (b'{"a": NaN}', "application/json", 400),
        (b"", "application/json", 400),
        (b"{}", "text/plain", 415),
    ],
)
@on_a_stand()
async def test_what_is_no_json_object_is_refused_in_openai_s_format(
    s: Stand, raw: bytes, kind: str, status: int
) -> None:
    async with s.session.post(s.url + "/v1/completions", data=raw, headers={"Content-Type": kind}) as response:
        assert response.status == status
        error = (await response.json())["error"]
    assert set(error) == {"message", "type", "param", "code"} and error["code"] == status


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/nowhere", 404), ("GET", "/v1/completions", 405)])
@on_a_stand()
async def test_other_routes_are_refused_in_openai_s_format(s: Stand, method: str, path: str, status: int) -> None:
    async with s.session.request(method, s.url + path) as response:
        assert response.status == status and (await response.json())["error"]["code"] == status


@on_a_stand(pairs_limit=4)
async def test_prompts_times_n_has_a_limit(s: Stand) -> None:
    status, answer = await s.completion(prompt=["a", "b"], n=3)
    assert (status, answer["error"]["param"]) == (400, "n")
    assert of_generate(s.prefill) == []


STOLEN = {"do_remote_prefill": True, "remote_host": "evil", "remote_block_ids": [[1]]}


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
@on_a_stand()
async def test_no_client_can_say_where_kv_is_read_from(s: Stand, path: str) -> None:
    body: dict[str, Any] = dict(CHAT if "chat" in path else COMPLETION)
    body |= {"kv_transfer_params": STOLEN, "ec_transfer_params": STOLEN, "extra_args": {"kv_transfer_params": STOLEN}}
    body |= {"vllm_xargs": {"kv_transfer_params": STOLEN, "kept": 1, "vllm_xargs": {"kv_transfer_params": STOLEN}}}
    async with s.post(path, body) as response:
        assert response.status == 200
    everything = [seen.body for tier in (*s.render, *s.prefill, *s.decode) for seen in tier.seen]
    assert "evil" not in str(everything)
    assert s.render[0].seen[0].body["vllm_xargs"]["kept"] == 1
    assert await s.metric('stripped_params_total{param="kv_transfer_params"}') == 4
    assert await s.metric('stripped_params_total{param="ec_transfer_params"}') == 1


def test_only_a_listed_key_may_ask_and_probes_need_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "keys"
    file.write_text("# who\nfirst\nsecond\n")
    monkeypatch.setattr(keys, "REREAD_S", 0.0)

    async def body() -> None:
        async with stand(api_key_file=str(file)) as s:
            for key in ("first", "second"):
                assert [model.id async for model in s.client(key).models.list()] == ["fake"]
            for key in ("third", "firs", "# who"):
                with pytest.raises(openai.AuthenticationError) as told:
                    await s.client(key).chat.completions.create(model="fake", messages=[])
                assert told.value.response.json()["error"]["type"] == "AuthenticationError"
            for scheme in ({}, {"Authorization": "Basic first"}):
                async with s.post("/v1/chat/completions", CHAT, **scheme) as response:
                    assert response.status == 401
            for path in ("/health", "/liveness"):
                async with s.session.get(s.url + path) as response:
                    assert response.status == 200
            file.write_text("third\n")
            os.utime(file, ns=(1, 1))
            assert [model.id async for model in s.client("third").models.list()] == ["fake"]
            with pytest.raises(openai.AuthenticationError):
                await s.client("first").models.list()
            assert all("Authorization" not in seen.headers for seen in s.render[0].seen)

    run(body)


def test_a_key_file_without_a_key_does_not_open_the_door(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("\n")
    with pytest.raises(SystemExit, match="no key"):
        keys.Keys(str(file))


def test_the_tiers_key_goes_to_the_tiers_alone(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("inner\n")

    async def body() -> None:
        async with stand(upstream_api_key_file=str(file)) as s:
            await s.chat()
            seen = [one for tier in (*s.render, *s.prefill, *s.decode) for one in tier.seen]
            assert {one.headers["Authorization"] for one in seen} == {"Bearer inner"}

    run(body)


@on_a_stand()
async def test_the_metrics_count_requests_and_time_each_leg(s: Stand) -> None:
    await s.events("/v1/chat/completions", CHAT)
    await s.chat()
    assert await s.metric('requests_total{route="/v1/chat/completions",status="200"}') == 2
    assert await s.metric('time_to_first_byte_seconds_count{route="/v1/chat/completions"}') == 2
    for leg, count in (("render", 2), ("prefill", 2), ("decode", 2), ("decode_first_token", 1)):
        assert await s.metric(f'leg_seconds_count{{leg="{leg}"}}') == count
    assert await s.metric('leg_seconds_count{leg="derender"}') >= 2
    assert await s.metric('healthy_pods{tier="prefill"}') == 1
